"""Every disorder policy goes on after a crash as if nothing had been: the same heartbeats, the same answers.

The process dies at random points at which it touches a file or a sink; what it emits, and when, and what its policy
knows at the end are those of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.faults import Died, Fate, World
from tests.kit.streams import SAMPLE, frame

SECOND = 1_000_000

#: Policies by name; those of a list are for a stream that names its sources.
POLICIES: dict[str, tuple[Disorder, bool]] = {
    "bounded": (sw.bounded("3 seconds"), False),
    "bounded with a timeout": (sw.bounded("3 seconds", timeout="1 second"), True),
    "punctuated": (sw.punctuated("i"), True),
    "skew": (
        sw.skew({("a", "b"): ("2 seconds", "3 seconds"), ("b", "c"): (0, "9 seconds")}, timeout="3 seconds"),
        True,
    ),
    "sensors": (sw.sensors("5 seconds", timeout="5 seconds", latency="2 seconds"), True),
    "sensors with a rate": (sw.sensors({"a": "2 seconds", "b": "5 seconds", "c": 0}, rate=0.5), True),
    "global counter": (sw.papers.global_counter(("1 second", "9 seconds"), counted=True), True),
    "learned": (sw.learned(window=20, alpha=0.5, tmax="8 seconds", unit="1 second"), True),
    "learned, adaptive": (
        sw.learned(window="9 seconds", unit="1 second", tmax="0 seconds", adaptive=True),
        True,
    ),
    "learned, in groups": (sw.learned(window=20, groups=4), True),
    "disorder control": (sw.papers.disorder_control("5%"), False),
    "drop ratio": (sw.drop_ratio("5%"), False),
    "drop ratio by time": (sw.drop_ratio("20%", stretch="20 seconds", timeout="30 seconds"), True),
    "result error": (sw.result_error("5%", windows="80%", timeout="30 seconds"), True),
    "max delay": (sw.papers.max_delay(), False),
}


def pages(seed: int) -> list[pl.DataFrame]:
    """Ten pages, one each four seconds, with rows that come some seconds late."""
    source = random.Random(seed)
    made = []
    for n in range(10):
        rows: list[list[Any]] = []
        for _ in range(source.randrange(0, 12)):
            time = n * 4 * SECOND - int(source.expovariate(1 / (2 * SECOND)))
            upto = source.choice([None, time - 6 * SECOND])
            rows.append([time, source.choice(["a", "b", "c"]), None, 1.0, upto])
        made.append(frame(rows))
    return made


def plan(policy: Disorder, sources: bool) -> Any:
    return arrow_plan(
        SAMPLE,
        "6 seconds",
        "2 seconds",
        group_by=["g"],
        disorder=policy,
        source="g" if sources else None,
        domain=TimeDomain.TIMESTAMP,
        n="count(*)",
    )


#: Beside each stands another of its kind, with more settings.
SIMPLER = ("bounded", "sensors", "learned", "drop ratio")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SIMPLER else []) for name in POLICIES]
)
def test_a_killed_run_promises_what_an_undisturbed_one_does(name: str) -> None:
    policy, sources = POLICIES[name]
    fates = random.Random(name)
    answers = 0
    for seed in range(3):
        calm = Script(plan(policy, sources), late=ListSink())
        for number, page in enumerate(pages(seed)):
            calm.page(page, at=number * 4 * SECOND)
        before_the_end = calm.metrics()
        calm.drain()
        answers += len(calm.results)
        assert calm.late is not None
        with tempfile.TemporaryDirectory() as folder:
            world = World(plan(policy, sources), pages(seed), Path(folder), pace=4 * SECOND)
            for _ in range(4):
                with contextlib.suppress(Died):
                    world.read(Fate(fates.randrange(1, 60)), again=fates.randrange(2))
            script = world.read(Fate())
            assert script.metrics()["source:s"] == before_the_end["source:s"]
            script.clock.set(calm.clock.now())  # it stands still when all pages were safe
            script.drain()
        assert_same(world.sink.rows, calm.results)
        assert_same(world.late.rows, calm.late.rows)
    assert answers > 20


def assert_same(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert sorted(map(str, got)) == sorted(map(str, wanted))


@pytest.mark.parametrize(
    "policy",
    [
        sw.bounded("3 seconds", timeout="1 minute"),
        sw.learned(timeout="1 minute"),
        sw.drop_ratio("5%", timeout="1 minute"),
        sw.sensors("3 seconds", timeout="1 minute", latency="50 seconds"),
        sw.skew([[("30 seconds", 0)]], timeout="1 minute"),
    ],
    ids=lambda policy: policy.describe(),
)
def test_the_time_for_which_the_process_was_away_is_no_silence(policy: Disorder) -> None:
    """An hour of downtime: what waited at the source meanwhile is not late, and a timeout begins anew."""
    hour = 3600 * SECOND
    with tempfile.TemporaryDirectory() as folder:

        def begin(now: int) -> Script:
            script = Script(
                plan(policy, policy.needs_sources), FileJournal(fs.LocalFileSystem(), folder, sync=False)
            )
            script.clock.set(now)
            return script

        before = begin(0).page(frame([[0, "a"], [20 * SECOND, "a"]]), at=SECOND)
        said = before.metrics()["source:s"]["heartbeat"]
        after = begin(hour)
        after.executor.resume()
        after.advance(0)
        assert after.metrics()["source:s"]["heartbeat"] == said
        after.advance(61 * SECOND)
        assert after.metrics()["source:s"]["heartbeat"] == 20 * SECOND
