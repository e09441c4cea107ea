"""Session windows against a from-scratch recomputation, row by row.

The oracle keeps what has come, and cuts it into sessions whenever time has passed. It catches sessions that are
answered too early, too late or twice, rows lost or counted twice, and bounds that are a tick off.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.operators.prod_request import check_early
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.streams import SAMPLE, Stream, bounded_streams, finals, frame, unbounded_streams

AGGREGATES = (("n", "count(*)"), ("total", "sum(i)"), ("top", "max(i)"), ("mean", "avg(x)"), ("ends", "last(i)"))
NEVER = -(2**63)


def plan(
    gap: int,
    policy: Disorder | None = None,
    groups: tuple[str, ...] = ("g",),
    source: str | None = None,
    over: L.Window | None = None,
    sample: pl.DataFrame = SAMPLE,
) -> PlanNode:
    relation = SampleRelation(sample)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    told = getattr(policy, "column", None)
    node = StreamNode(
        "s", columns, "t", "t", TimeDomain.SEQUENCE, policy or bounded(0), source, told, relation.schema
    )
    query = L.Aggregate((L.Scan("s"),), L.Window(gap=gap), tuple((g, g) for g in groups), AGGREGATES)
    if over is not None:
        query = L.Aggregate(
            (query,), over, (), (("sessions", "count(*)"), ("rows_", "sum(n)"), ("longest", "max(n)"))
        )
    return analyse(query, SampleTypes({"s": (node, relation)}))


def sessions(rows: list[dict[str, Any]], gap: int) -> list[list[dict[str, Any]]]:
    """The sessions of some rows of one group."""
    parts: list[list[dict[str, Any]]] = []
    for row in sorted(rows, key=lambda row: row["t"]):
        if parts and row["t"] <= parts[-1][-1]["t"] + gap:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def answer(group: Any, part: list[dict[str, Any]], gap: int) -> tuple[Any, ...]:
    """What a session says: its group and bounds, rows, sum and maximum."""
    values = [row["i"] for row in part if row["i"] is not None]
    total, top = (sum(values), max(values)) if values else (None, None)
    return group, part[0]["t"], part[-1]["t"] + gap, len(part), total, top


COLUMNS = ("g", "window_start", "window_end", "n", "total", "top")


def answers(rows: list[dict[str, Any]], kind: str = "final") -> list[tuple[Any, ...]]:
    suffix = "_seen" if kind == "early" else ""
    columns = [c if c in ("g", "window_start", "window_end") else c + suffix for c in COLUMNS]
    return sorted((tuple(row[c] for c in columns) for row in rows if row["kind"] == kind), key=str)


class Oracle:
    """Open rows by group; a page's rows join them, and those whose session is over then are lost."""

    def __init__(self, gap: int, by_source: bool = False) -> None:
        self.gap, self.by_source = gap, by_source
        self.open: dict[Any, list[dict[str, Any]]] = {}
        self.given: list[tuple[Any, ...]] = []
        self.answered: dict[Any, int] = {}
        self.late = 0

    def page(self, rows: pl.DataFrame, beats: Any) -> None:
        came = {id(row): row for row in rows.drop_nulls("t").to_dicts()}
        for row in came.values():
            self.open.setdefault(row["g"], []).append(row)
        self._take(beats, fresh=True)

    def time(self, beats: Any) -> None:
        self._take(beats, fresh=False)

    def _take(self, beats: Any, fresh: bool) -> None:
        for group, rows in self.open.items():
            left = []
            for part in sessions(rows, self.gap):
                beat = beats(group)
                if part[-1]["t"] + self.gap > beat:
                    left += part
                elif not fresh or (self.by_source and part[0]["t"] > self.answered.get(group, NEVER) + self.gap):
                    self.given.append(answer(group, part, self.gap))
                    self.answered[group] = max(part[-1]["t"], self.answered.get(group, NEVER))
                else:
                    self.late += len(part)
            self.open[group] = left

    def early(self) -> list[tuple[Any, ...]]:
        return sorted(
            (answer(g, part, self.gap) for g, rows in self.open.items() for part in sessions(rows, self.gap)),
            key=str,
        )


@given(
    stream=bounded_streams(),
    gap=st.integers(1, 15),
    stops=st.sets(st.integers(0, 10)),
    prods=st.sets(st.integers(0, 10)),
)
def test_sessions_are_those_of_a_recomputation(stream: Stream, gap: int, stops: set[int], prods: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            return Script(
                plan(gap, bounded(stream.slack)), FileJournal(fs.LocalFileSystem(), folder, sync=False), sink
            )

        script, oracle = begin(), Oracle(gap)
        for number, page in enumerate(stream.pages):
            beat = script.metrics()["source:s"]["heartbeat"]
            script.page(page)
            oracle.page(page, lambda _, beat=beat: NEVER if beat is None else beat)
            beat = script.metrics()["source:s"]["heartbeat"]
            oracle.time(lambda _, beat=beat: NEVER if beat is None else beat)
            assert answers(sink.rows) == sorted(oracle.given, key=str)
            if number in prods:
                before = len(sink.rows)
                script.prod()
                assert answers(sink.rows[before:], "early") == oracle.early()
            if number in stops:
                script = begin()
        script.drain()
    everything = [
        answer(group, part, gap)
        for (group,), mine in stream.rows.drop_nulls("t").group_by("g")
        for part in sessions(mine.to_dicts(), gap)
    ]
    assert answers(sink.rows) == sorted(everything, key=str)
    assert script.metrics()["q/window"]["late_rows"] == 0


@given(stream=unbounded_streams(), gap=st.integers(1, 10), stops=st.sets(st.integers(0, 10)))
def test_late_rows_join_what_is_open_and_the_others_are_counted_and_routed(
    stream: Stream, gap: int, stops: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink, late = ListSink(), ListSink()

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            return Script(plan(gap, bounded(stream.slack)), journal, sink, late=late)

        script, oracle = begin(), Oracle(gap)
        for number, page in enumerate(stream.pages):
            beat = script.metrics()["source:s"]["heartbeat"]
            script.page(page)
            oracle.page(page, lambda _, beat=beat: NEVER if beat is None else beat)
            beat = script.metrics()["source:s"]["heartbeat"]
            oracle.time(lambda _, beat=beat: NEVER if beat is None else beat)
            assert answers(sink.rows) == sorted(oracle.given, key=str)
            if number in stops:
                script = begin()
        script.drain()
    figures = script.metrics()["q/window"]
    assert figures["late_rows"] == figures["lost_pairs"] == oracle.late
    missing = stream.rows["t"].null_count()
    assert len(late.rows) == oracle.late + missing
    oracle.time(lambda _: 2**62)
    assert answers(sink.rows) == sorted(oracle.given, key=str)
    assert figures["partials"] == 0


PUNCTUATED = SAMPLE.with_columns(upto=pl.lit(0, pl.Int64))


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-20, 40), st.sampled_from(["a", "b", "c"]), st.one_of(st.none(), st.integers(-10, 50))
        ),
        max_size=30,
    ),
    cuts=st.sets(st.integers(0, 30)),
    gap=st.integers(1, 10),
    stops=st.sets(st.integers(0, 10)),
)
def test_a_source_closes_its_own_sessions_and_a_new_one_loses_nothing(
    rows: list[tuple[int, str, int | None]], cuts: set[int], gap: int, stops: set[int]
) -> None:
    bounds = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    promised: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()
        policy = punctuated("upto")

        def begin() -> Script:
            made = plan(gap, policy, source="g", sample=PUNCTUATED)
            return Script(made, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink)

        script, oracle = begin(), Oracle(gap, by_source=True)
        for number, (low, high) in enumerate(pairwise(bounds)):
            part = rows[low:high]
            page = pl.concat(
                [
                    frame([[t, g, 0, 0.0, 1] for t, g, _ in part]),
                    pl.DataFrame({"upto": [u for *_, u in part]}, schema={"upto": pl.Int64}),
                ],
                how="horizontal",
            )
            script.page(page)
            beats = lambda group: promised.get(group, NEVER)  # noqa: E731
            oracle.page(page, beats)
            for _, g, upto in part:
                if upto is not None:
                    promised[g] = max(promised.get(g, NEVER), upto)
            oracle.time(beats)
            assert answers(sink.rows) == sorted(oracle.given, key=str)
            if number in stops:
                script = begin()
        assert script.metrics()["q/window"]["late_rows"] == oracle.late
        script.drain()
    oracle.time(lambda _: 2**62)
    assert answers(sink.rows) == sorted(oracle.given, key=str)


@given(stream=bounded_streams(), gap=st.integers(1, 10), slide=st.integers(1, 20))
def test_windows_over_sessions_take_those_that_end_in_them(stream: Stream, gap: int, slide: int) -> None:
    script = Script(plan(gap, bounded(stream.slack), over=L.Window(slide, slide)))
    for page in stream.pages:
        script.page(page)
    script.drain()
    wanted: Counter[int] = Counter()
    for (_,), mine in stream.rows.drop_nulls("t").group_by("g"):
        for part in sessions(mine.to_dicts(), gap):
            wanted[(part[-1]["t"] + gap - 1) // slide * slide] += 1
    assert {row["window_start"]: row["sessions"] for row in finals(script.results)} == wanted


@given(stream=bounded_streams(), gap=st.integers(1, 10), prods=st.sets(st.integers(0, 10)))
def test_sessions_of_results_are_sessions_of_their_last_ticks(stream: Stream, gap: int, prods: set[int]) -> None:
    script = Script(plan(1, bounded(stream.slack), over=L.Window(gap=gap)))
    seen = []
    for number, page in enumerate(stream.pages):
        script.page(page)
        seen.append(page)
        if number in prods:
            before = len(script.results)
            script.prod()
            early = [r for r in script.results[before:] if r["kind"] == "early"]
            done = sum(r["rows_"] for r in finals(script.results))
            assert sum(r["rows__seen"] for r in early) + done == pl.concat(seen).drop_nulls("t").height
    script.drain()
    ends = [
        {"t": part[-1]["t"], "i": len(part)}
        for (_,), mine in stream.rows.drop_nulls("t").group_by("g")
        for part in sessions(mine.to_dicts(), 1)
    ]
    wanted = {part[0]["t"]: sum(row["i"] for row in part) for part in sessions(ends, gap)}
    assert {row["window_start"]: row["rows_"] for row in finals(script.results)} == wanted


def test_a_session_is_answered_when_no_row_can_join_it_any_more() -> None:
    script = Script(plan(10, groups=())).page(frame([[1], [8]])).page(frame([[17]]))
    assert script.results == []
    script.page(frame([[18]]))
    assert script.results == [], "18 joins it: 8 is ten ticks before"
    script.page(frame([[29]]))
    assert [(r["window_start"], r["window_end"], r["n"]) for r in script.results] == [(1, 28, 4)]


def test_a_slow_source_holds_its_own_sessions_only() -> None:
    script = Script(plan(5, punctuated("upto"), source="g", sample=PUNCTUATED))
    rows = frame([[1, "a"], [1, "b"], [40, "b"]])
    script.page(rows.with_columns(upto=pl.Series([None, None, 30], dtype=pl.Int64)))
    assert [(r["g"], r["n"]) for r in script.results] == [("b", 1)]


def test_policies_that_aim_at_a_share_of_lost_rows_learn_from_sessions() -> None:
    script = Script(plan(5, drop_ratio("20%", stretch=10), groups=()))
    for k in range(60):
        script.page(frame([[10 * k], [10 * k - 7 * (k % 3)]]))
    figures = script.metrics()["q/window"]
    assert 0 <= figures["lost_share"] < 0.4
    assert figures["results"] > 10


@pytest.mark.parametrize("word", ["at", "accuracy", "season"])
def test_what_needs_the_end_of_a_window_is_refused(word: str) -> None:
    value = {"at": 0.75, "accuracy": 0.9, "season": "1 day"}[word]
    with pytest.raises(QueryError, match=rf"early\({word}=…\): nobody knows when a session will end"):
        check_early(plan(5), sw.early(**{word: value}))
    check_early(plan(5), sw.early(every="10 seconds"))


def test_it_describes_itself() -> None:
    assert "window sessions gap 10 group by g" in plan(10).describe()
    with pytest.raises(QueryError, match="gap=0 must be positive"):
        plan(0)
