"""A window kind of one's own: sessions. A session ends when a group has been silent for a gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from pyarrow import fs

from slackwater.columns import ROWS, TIME
from slackwater.engine import build
from slackwater.errors import QueryError
from slackwater.operators.operator import Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.plan import analyse
from slackwater.plan import logical as L
from slackwater.plan.node import NeverEarly, PlanNode
from slackwater.plan.nodes import AggregateNode, StreamNode, WindowNode
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK, Span, TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script
from slackwater.testing.types import SampleRelation, SampleTypes
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec
from slackwater.windows.results import COMPLETENESS, EMITTED_AT, KIND, WINDOW_END, WINDOW_START, in_schema
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame

FIRST, LAST, SESSION = "__first", "__last", "__session"


# --- what a user writes


@dataclass(frozen=True)
class Sessions(L.Logical):
    inputs: tuple[Any, ...]
    gap: Span
    groups: tuple[L.Column, ...]
    aggregates: tuple[tuple[str, str], ...]


# --- what it means


@dataclass(frozen=True)
class SessionNode(NeverEarly, AggregateNode):
    """A session of rows from `first` to `last` is [first, last + gap); the time of its result is its last tick."""

    end_lag: ClassVar[int] = 1
    kernel: PaneKernel
    gap: int = 1

    def window_text(self) -> str:
        return f"sessions with a gap of {self.domain.show_span(self.gap)}"

    @property
    def reach(self) -> int:
        return self.gap


def analysed(analysis: analyse.Analysis, query: Sessions, as_rows: bool) -> AnalysedPlan:
    """Groups and aggregates are those of a window; what it may have is checked there."""
    window = L.Aggregate(query.inputs, L.Window(query.gap, query.gap), query.groups, query.aggregates)
    found = analysis.of(window)
    if not isinstance(found.node, WindowNode):
        raise QueryError("sessions: write plain aggregates, as in n='count(*)', and expressions in select(…)")
    node, kernel = found.node, replace(found.node.kernel, source=None)
    # Of rows each must have a partial of its own.
    RollingKernel(RollingSpec(rows=1), kernel.groups, kernel.aggregates)
    gap = kernel.spec.range
    return AnalysedPlan(SessionNode(node.inputs, kernel, node.schema, node.disorder, gap), found.relation)


# --- what runs it


class SessionAggregate(Unary):
    """Keeps a partial for each open session. Rows at or below the heartbeat are late."""

    def __init__(self, label: str, node: SessionNode, clock: Clock) -> None:
        super().__init__(label)
        self._node, self._clock = node, clock
        self._rows = RollingKernel(RollingSpec(rows=1), node.kernel.groups, node.kernel.aggregates)
        self._open: pl.DataFrame | None = None
        self._closed = MIN_TICK
        self._late = self._results = self._given = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        timed = self.pages.rows_of(page, self._rows).filter(pl.col(TIME).is_not_null())
        rows = timed.filter(pl.col(TIME) > self._closed)
        self._late += timed.height - rows.height
        lifted = [pl.lit(1, pl.Int64).alias(ROWS), pl.col(TIME).alias(FIRST), pl.col(TIME).alias(LAST)]
        for partial, names in self._rows.running.items():
            column = self._rows.arguments.get(partial.argument)
            argument = pl.lit(1) if column is None else pl.col(column)
            kind = pl.Int64() if column is None else rows.schema[column]
            lifted += [made.alias(name) for made, name in zip(partial.lift(argument, kind), names, strict=True)]
        single = rows.with_columns(lifted).drop(TIME, *self._rows.arguments.values())
        self._open = self._merged(
            single if self._open is None else pl.concat([self._open, single.select(self._open.columns)])
        )

    def _merged(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Parts that are less than a gap apart become one."""
        keys = self._node.kernel.keys
        parts = parts.sort([*keys, FIRST])
        before = pl.col(LAST).cum_max().shift()
        begins = (pl.col(FIRST) >= (before.over(keys) if keys else before) + self._node.gap).fill_null(True)
        parts = parts.with_columns(begins.cast(pl.Int64).alias(SESSION))
        parts = parts.with_columns(pl.col(SESSION).cum_sum())
        grouped = parts.group_by([SESSION, *keys], maintain_order=True)
        ends = grouped.agg(pl.col(FIRST).min(), pl.col(LAST).max()).select(FIRST, LAST)
        return self._node.kernel.merge(grouped).drop(SESSION).hstack(ends.get_columns())

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        self._closed = max(self._closed, time.heartbeat.tick)
        if self._open is None:
            return
        ends = pl.col(LAST) + self._node.gap
        done, self._open = (self._open.filter(f) for f in (ends - 1 <= self._closed, ends - 1 > self._closed))
        if done.height:
            self._results += done.height
            self._given += 1
            now = self._clock.now()
            results = self._node.kernel.values(done.sort(LAST)).select(
                *self._node.kernel.keys,
                *(a.name for a in self._node.kernel.aggregates),
                pl.col(FIRST).alias(WINDOW_START),
                ends.alias(WINDOW_END),
                pl.lit("final").alias(KIND),
                pl.lit(now, pl.Int64).alias(EMITTED_AT),
                pl.lit(1.0).alias(COMPLETENESS),
            )
            table = in_schema(results, self._node.schema)
            emit(self.pages.results(self.label, self._given, table, self._node, now))

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        return self._open is not None and self._open.height > 0

    def next_useful_time(self, tick: int) -> int | None:
        ends = [] if self._open is None else (self._open[LAST] + self._node.gap - 1).to_list()
        return min((end for end in ends if end > tick), default=None)

    def state(self, whole: bool) -> State:
        counts = [self._closed, self._late, self._results, self._given]
        return State({"counts": counts}, {} if self._open is None else {"sessions": self._open.to_arrow()})

    def restore(self, states: Sequence[State]) -> None:
        self._closed, self._late, self._results, self._given = states[-1].values["counts"]
        kept = states[-1].tables.get("sessions")
        self._open = None if kept is None else pl.DataFrame(kept)

    def metrics(self) -> dict[str, Any]:
        sessions = 0 if self._open is None else self._open.height
        return {"late_rows": self._late, "results": self._results, "windows": self._results, "open": sessions}


def built(query: build.QueryBuild, node: SessionNode, above: build.Above) -> build.Feed:
    return query.aggregate(node, above, lambda *_: SessionAggregate(query.label_of(node), node, query.clock))


analyse.register(Sessions, analysed)
build.register(SessionNode, built)


# --- tests

AGGREGATES = (("n", "count(*)"), ("total", "sum(i)"), ("top", "max(i)"))


def plan(gap: Span, slack: int = 0, groups: tuple[str, ...] = ("g",), aggregates: Any = AGGREGATES) -> PlanNode:
    relation = SampleRelation(SAMPLE)
    columns = tuple((n, str(t)) for n, t in SAMPLE.schema.items())
    node = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, bounded(slack), None, None, relation.schema)
    query = Sessions((L.Scan("s"),), gap, tuple((g, g) for g in groups), aggregates)
    return analyse.analyse(query, SampleTypes({"s": (node, relation)}))  # type: ignore[arg-type]


def sessions(rows: pl.DataFrame, gap: int) -> list[tuple[Any, ...]]:
    """From scratch: group, first and end, number of rows, sum and maximum."""
    found = []
    for (group,), mine in rows.group_by("g"):
        parts: list[list[dict[str, Any]]] = []
        for row in mine.sort("t").to_dicts():
            if parts and row["t"] < parts[-1][-1]["t"] + gap:
                parts[-1].append(row)
            else:
                parts.append([row])
        for part in parts:
            values = [row["i"] for row in part if row["i"] is not None]
            ends = part[0]["t"], part[-1]["t"] + gap
            found.append((group, *ends, len(part), sum(values) if values else None, max(values, default=None)))
    return sorted(found, key=str)


def answers(sink: ListSink) -> list[tuple[Any, ...]]:
    columns = ("g", WINDOW_START, WINDOW_END, "n", "total", "top")
    return sorted((tuple(row[c] for c in columns) for row in sink.rows), key=str)


@settings(max_examples=40)
@given(bounded_streams())
def test_sessions_are_those_of_a_recomputation(stream: Stream) -> None:
    script = Script(plan(5, stream.slack))
    for page in stream.pages:
        script.page(page)
    script.drain()
    assert answers(script.sink) == sessions(stream.rows, 5)
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_a_session_comes_when_time_has_passed_its_gap_and_late_rows_are_counted() -> None:
    script = Script(plan(10, groups=())).page(frame([[1], [8]]))
    assert script.results == []
    script.page(frame([[18]]))
    assert [(r[WINDOW_START], r[WINDOW_END], r["n"]) for r in script.results] == [(1, 18, 2)], "18 is a new session"
    script.page(frame([[19], [3]]))
    assert len(script.results) == 1
    assert script.metrics()["q/window"]["late_rows"] == 1


def test_open_sessions_outlive_a_restart(tmp_path: Path) -> None:
    sink = ListSink()
    for page in (frame([[1, "a", 0, 0.0, 5]]), frame([[4, "a", 0, 0.0, 7]]), frame([[30, "b", 0, 0.0, 1]])):
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        script = Script(plan(10), journal, sink).page(page)
    script.drain()
    assert answers(sink) == [("a", 1, 14, 2, 12, 7), ("b", 30, 40, 1, 1, 1)]


def test_it_describes_itself_and_refuses_what_it_has_not() -> None:
    assert plan(10).describe().startswith("window sessions with a gap of 10 group by g\nagg n = count(*)")
    with pytest.raises(QueryError, match="sessions: write plain aggregates"):
        plan(10, aggregates=(("rate", "sum(i) / count(*)"),))
    with pytest.raises(QueryError, match="one sketch for each row would be too much"):
        plan(10, aggregates=(("ids", "approx_count_distinct(i)"),))
