"""Windows by source over a union of streams, whose pages have the same numbers and, in part, the same sources.

The oracle sees from the results what each source has been given, page by page: a row is lost to no other window.
It catches rows that wait for a stream that never sends their source, rows lost to another stream's time, reports
and late rows that are taken for those of the page of the same number, and state that a restart leaves behind.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.operators.rolling_aggregate import RollingAggregate
from slackwater.plan import logical as L
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder, SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import TimeDomain
from slackwater.scheduling.heartbeats import Heartbeats
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script
from slackwater.windows.spec import WindowSpec
from tests.kit.labels import LEVELS
from tests.kit.policies_by_source import POLICIES
from tests.kit.rolling_oracle import recompute
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, union, windows

AGGREGATES: dict[str, Any] = {
    "n": ("count(*)", len),
    "total": ("sum(x)", lambda rows: sum(r["x"] for r in rows)),
}
TEXTS = {name: text for name, (text, _) in AGGREGATES.items()}


def all_but(one: str) -> list[Any]:
    """The policies, one of them in the long run: both that learn are like each other."""
    return [pytest.param(p, id=n, marks=[pytest.mark.long] if n == one else []) for n, p in POLICIES.items()]


#: `x` is on both streams.
SOURCES = {"a": ["x", "y"], "b": ["x", "z"]}
NAMES = ["x", "y", "z"]
Row = dict[str, Any]


@st.composite
def pages(draw: st.DrawFn) -> list[tuple[str, list[Row]]]:
    """Pages of two streams; each source of each stream is behind by a delay of its own, `i` is a punctuation."""
    behind = {(s, g): draw(st.sampled_from([0, 0, 15, 60])) for s, of in SOURCES.items() for g in of}
    made = []
    for k in range(draw(st.integers(2, 10))):
        stream = draw(st.sampled_from("ab"))
        rows = []
        for name in SOURCES[stream]:
            for _ in range(draw(st.integers(0, 2))):
                base = 4 * k - behind[stream, name]
                t, upto = base - draw(st.integers(0, 9)), draw(st.sampled_from([None, base - 6]))
                rows.append({"t": t, "g": name, "x": draw(st.integers(-8, 8)) / 4, "i": upto})
        made.append((stream, rows))
    return made


def page_of(rows: list[Row]) -> pl.DataFrame:
    return frame([[r["t"], r["g"], None, r["x"], r["i"]] for r in rows])


def by_source(rows: list[Row]) -> dict[str, list[Row]]:
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row["g"]].append(row)
    return by


class Sitting:
    """A query in a journal that is stopped and started again."""

    def __init__(self, folder: str, query: L.Logical, policy: Disorder, level: Heartbeats) -> None:
        self._folder, self._level = folder, level
        self._plan = plan(query, {"a": policy, "b": policy}, source="g")
        self.sink, self.late = ListSink(), ListSink()
        self.begin(0)

    def begin(self, at: int) -> None:
        journal = FileJournal(fs.LocalFileSystem(), self._folder)
        self.script = Script(
            self._plan, journal=journal, sink=self.sink, late=self.late, heartbeat_scope=self._level
        )
        self.script.clock.set(at)

    @property
    def late_rows(self) -> int:
        count = self.script.metrics()["q/window"]["late_rows"]
        assert isinstance(count, int)
        return count


STOPS = st.sets(st.integers(0, 15), max_size=3)


@pytest.mark.parametrize("policy", all_but("learned"))
@settings(max_examples=12)
@given(pages=pages(), stops=STOPS, level=st.sampled_from(LEVELS[:2]))
def test_windows_for_each_row_equal_a_recomputation_of_each_source_over_both_streams(
    policy: Disorder, pages: list[tuple[str, list[Row]]], stops: set[int], level: Heartbeats
) -> None:
    beats = defaultdict[str, list[int | None]](list)
    with tempfile.TemporaryDirectory() as folder:
        sitting = Sitting(folder, windows(union(A, B), 7, None, "g", **TEXTS), policy, level)
        operator = sitting.script.executor.graph.nodes["q/window"].operator
        assert isinstance(operator, RollingAggregate)
        for k, (stream, rows) in enumerate(pages):
            given_so_far = by_source(sitting.sink.rows)
            for name in NAMES:
                beats[name].append(max((r["window_end"] for r in given_so_far[name]), default=None))
            sitting.script.page(page_of(rows), at=4 * k, stream=stream)
            if k in stops:
                sitting.begin(4 * k)
        sitting.script.drain()
        wanted = {
            name: recompute(
                [[r for r in rows if r["g"] == name] for _, rows in pages], beats[name], ["g"], AGGREGATES, range=7
            )
            for name in NAMES
        }
        late = sum(len(mine.late) for mine in wanted.values())
        assert (sitting.late_rows, len(sitting.late.rows)) == (late, late)
    keys = ("g", *AGGREGATES, "window_start", "window_end")
    for name, mine in wanted.items():
        assert [{k: r[k] for k in keys} for r in by_source(sitting.sink.rows)[name]] == mine.results, name


@pytest.mark.parametrize("policy", all_but("drop_ratio"))
@settings(max_examples=12)
@given(pages=pages(), stops=STOPS, level=st.sampled_from(LEVELS[:2]))
def test_a_row_is_lost_only_to_windows_that_were_given_for_its_source_by_either_stream(
    policy: Disorder, pages: list[tuple[str, list[Row]]], stops: set[int], level: Heartbeats
) -> None:
    spec, wanted, late = WindowSpec(10, 5), Counter[tuple[str, int]](), 0
    with tempfile.TemporaryDirectory() as folder:
        sitting = Sitting(folder, windows(union(A, B), 10, 5, "g", n="count(*)"), policy, level)
        for k, (stream, rows) in enumerate(pages):
            told = {(r["g"], r["window_start"] // 5) for r in sitting.sink.rows}
            for row in rows:
                pane = spec.pane_of(row["t"])
                mine = {(row["g"], w) for w in range(spec.first_window(pane), spec.last_window(pane) + 1)}
                late += bool(mine & told)
                wanted.update(mine - told)
            sitting.script.page(page_of(rows), at=4 * k, stream=stream)
            if k in stops:
                sitting.begin(4 * k)
        sitting.script.drain()
        assert (sitting.late_rows, len(sitting.late.rows)) == (late, late)
    results = [((r["g"], r["window_start"] // 5), r["n"]) for r in sitting.sink.rows]
    assert len(dict(results)) == len(results), "a window was given twice"
    assert dict(results) == dict(wanted)


@pytest.mark.parametrize("slide", [10, None])
def test_a_source_goes_on_though_the_other_stream_never_sends_it(slide: int | None) -> None:
    policy = punctuated("i")
    query = windows(union(A, B), 10, slide, "g", n="count(*)")
    script = Script(plan(query, {"a": policy, "b": policy}, source="g"))
    script.page(frame([[1, "x", 0, 0.0, 40], [2, "y", 0, 0.0, 5]]), stream="a")
    assert script.results == [], "nothing is known of the other stream"
    script.page(frame([[3, "z", 0, 0.0, 25]]), stream="b")
    assert {r["g"] for r in script.results} == ({"x"} if slide else {"x", "y", "z"}), "b is at 25, a at 5"


def test_a_source_that_waits_for_its_stream_has_that_asked_though_another_is_further_behind() -> None:
    """By source the input with the lowest register need not be the one that somebody waits for."""
    policies = {"a": bounded("0 us", timeout="5 us"), "b": punctuated("i")}
    query = windows(union(A, B), "10 us", "10 us", "g", n="count(*)")
    script = Script(plan(query, policies, source="g", domain=TimeDomain.TIMESTAMP))
    script.page(frame([[21, "x", 0, 0.0, 90], [1, "z", 0, 0.0, -90]]), stream="b")
    script.page(frame([[22, "x"], [49, "x"]]), stream="a")
    assert [(r["g"], r["n"]) for r in script.results] == [("x", 2)], "a is at 48, and its x at 49 waits for a"
    script.advance(6)
    assert [(r["g"], r["n"]) for r in script.results] == [("x", 2), ("x", 1)], "z of b has not moved; x is not z"


def test_heartbeats_that_an_arc_still_holds_keep_their_sources_when_others_come() -> None:
    query = windows(union(A, B), 10, 10, "g", n="count(*)")
    script = Script(plan(query, {"a": punctuated("i"), "b": punctuated("i")}, source="g"))
    script.page(frame([[1, "x", 0, 0.0, 5]]), stream="a")
    tracker = script.executor.graph.nodes["source:a"].operator._ports["main"].tracker
    held = tracker.by_source()
    script.page(frame([[1, "y", 0, 0.0, 5]]), stream="a")
    assert (held.names, held.ticks.tolist()) == (["x"], [5])


def test_the_same_ticks_of_other_sources_are_news() -> None:
    said, later = (
        Punctuation(Heartbeat(1), SourceHeartbeats(list(names), np.array([3, 4]), 0)) for names in ("xy", "yx")
    )
    assert said.joined(later).sources is later.sources
