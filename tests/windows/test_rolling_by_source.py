"""Windows for each row by source: every source's results against a recomputation over its own rows.

A row is late if a row of its own source at that time or later has had its result. The oracle sees from the results
how far each source has come, page by page. It catches rows that wait for other sources, rows lost to a heartbeat
that is not theirs, results given twice, and state that a restart leaves behind.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.operators import rolling_aggregate
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.policies_by_source import POLICIES
from tests.kit.rolling_oracle import recompute
from tests.kit.streams import SAMPLE, frame

NAMES = ["a", "b", "c"]
AGGREGATES: dict[str, Any] = {
    "n": ("count(*)", len),
    "total": ("sum(x)", lambda rows: sum(r["x"] for r in rows)),
    "high": ("max(x)", lambda rows: max(r["x"] for r in rows)),
}
TEXTS = {name: text for name, (text, _) in AGGREGATES.items()}
KINDS = {"range": {"range": 7}, "rows": {"rows": 3}}
#: Each policy comes with one kind of window here, and with the other one in the long run.
FIRST = {("bounded", "range"), ("learned", "rows"), ("drop_ratio", "range"), ("punctuated", "rows")}
Row = dict[str, Any]


@st.composite
def streams(draw: st.DrawFn) -> list[list[Row]]:
    """Sources that appear sooner or later, each behind by a delay of its own; `i` is a punctuation."""
    appears = {name: draw(st.sampled_from([0, 0, 4, 9])) for name in NAMES}
    behind = {name: draw(st.sampled_from([0, 0, 15, 60])) for name in NAMES}
    pages = []
    for k in range(draw(st.integers(2, 14))):
        rows = []
        for name in NAMES:
            for _ in range(draw(st.integers(0, 2)) if appears[name] <= k else 0):
                t = 4 * k - behind[name] - draw(st.integers(0, 9))
                upto = draw(st.sampled_from([None, 4 * k - behind[name] - 6]))
                rows.append({"t": t, "g": name, "x": draw(st.integers(-8, 8)) / 4, "i": upto})
        pages.append(rows)
    return pages


def told(rows: list[Row]) -> dict[str, list[Row]]:
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row["g"]].append({k: row[k] for k in ("g", *AGGREGATES, "window_start", "window_end")})
    return by


def pages_of(rows: list[Row]) -> pl.DataFrame:
    return frame([[r["t"], r["g"], None, r["x"], r["i"]] for r in rows])


@pytest.mark.parametrize(
    ("policy", "window"),
    [
        pytest.param(policy, window, id=f"{name}-{kind}", marks=[] if (name, kind) in FIRST else [pytest.mark.long])
        for kind, window in KINDS.items()
        for name, policy in POLICIES.items()
    ],
)
@settings(max_examples=25)
@given(pages=streams(), stops=st.sets(st.integers(0, 13), max_size=3))
def test_each_source_equals_a_recomputation_of_its_own_rows_also_over_restarts(
    policy: Disorder, window: dict[str, int], pages: list[list[Row]], stops: set[int]
) -> None:
    plan = arrow_plan(SAMPLE, group_by=["g"], source="g", disorder=policy, **window, **TEXTS)
    sink, beats = ListSink(), defaultdict[str, list[int | None]](list)
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            return Script(plan, journal=FileJournal(fs.LocalFileSystem(), folder, sync=False), sink=sink)

        script = begin()
        for k, rows in enumerate(pages):
            given_so_far = told(sink.rows)
            for name in NAMES:
                beats[name].append(max((r["window_end"] for r in given_so_far[name]), default=None))
            script.page(pages_of(rows), at=4 * k)
            if k in stops:
                script = begin()
                script.clock.set(4 * k)
        script.drain()
        wanted = {
            name: recompute(
                [[r for r in p if r["g"] == name] for p in pages], beats[name], ["g"], AGGREGATES, **window
            )
            for name in NAMES
        }
        assert script.metrics()["q/window"]["late_rows"] == sum(len(w.late) for w in wanted.values())
    for name, mine in wanted.items():
        assert told(sink.rows)[name] == mine.results, name


def upto(time: int, **times: int) -> pl.DataFrame:
    """A row of each source at its time, which promises that the source is past it."""
    return frame([[t, name, None, 1.0, t] for name, t in times.items()])


@pytest.mark.parametrize("window", [{"range": 10}, {"rows": 2}])
def test_a_quiet_source_does_not_delay_the_rows_of_others(window: dict[str, int]) -> None:
    plan = arrow_plan(SAMPLE, group_by=["g"], source="g", disorder=punctuated("i"), **window, n="count(*)")
    script = Script(plan)
    script.page(upto(0, quick=1, quiet=1))
    for t in range(5, 100, 5):
        script.page(upto(t, quick=t))
        assert script.results[-1]["g"] == "quick"
        assert script.results[-1]["window_end"] == t
    assert len(script.results) == 21


def test_rows_of_a_new_source_are_not_late_however_old_they_are() -> None:
    plan = arrow_plan(SAMPLE, range=10, group_by=["g"], source="g", disorder=bounded(0), n="count(*)")
    late = ListSink()
    script = Script(plan, late=late)
    for t in (0, 50, 100):
        script.page(upto(t, quick=t))
    script.page(upto(0, new=12)).page(upto(0, new=15)).page(upto(0, new=13))
    assert [(r["window_end"], r["n"]) for r in script.results if r["g"] == "new"] == [(12, 1), (15, 2)]
    assert [(r["t"], r["g"]) for r in late.rows] == [(13, "new")]
    assert script.metrics()["q/window"]["late_by_source"] == {"new": 1}


def test_with_more_sources_than_lanes_a_lane_goes_by_its_last_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_aggregate, "MOST_LANES", 2)
    plan = arrow_plan(SAMPLE, range=10, group_by=["g"], source="g", disorder=punctuated("i"), n="count(*)")
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()
        script = Script(plan, journal=FileJournal(fs.LocalFileSystem(), folder, sync=False), sink=sink)
        script.page(upto(0, a=1, b=1, c=1))
        script.page(upto(0, a=9, b=9))
        assert [(r["g"], r["window_end"]) for r in sink.rows[3:]] == [("b", 9)], "a has its lane with c"
        script = Script(plan, journal=FileJournal(fs.LocalFileSystem(), folder, sync=False), sink=sink)
        assert script.executor.graph.nodes["q/window"].operator.metrics()["lanes"] == 2
        script.page(upto(0, c=12))
        assert [(r["g"], r["window_end"]) for r in sink.rows[4:]] == [("a", 9)]
        script.drain()
        assert [(r["g"], r["window_end"], r["n"]) for r in sink.rows[5:]] == [("c", 12, 1)]
