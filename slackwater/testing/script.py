"""A streaming test as a script: give pages, move the clock, look at the answers. One seed, one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.aggregates.parse import parse_aggregate
from slackwater.columns import SOURCE, TIME
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.journal import Journal, Record
from slackwater.estimates.early import Early
from slackwater.operators.element import Payload, Prod, Staged
from slackwater.operators.results_as_rows import Nesting
from slackwater.plan.nodes import (
    Function,
    MapNode,
    QueryNode,
    ResultsNode,
    RollingNode,
    RowNode,
    SelectNode,
    StreamNode,
    WhereNode,
    WindowNode,
    stream_of,
)
from slackwater.plan.sources import source_group
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span, TimeDomain
from slackwater.scheduling.strategy import Strategy
from slackwater.testing.arrow_page import ArrowPage
from slackwater.windows.kernel import Group, PaneKernel, source_text
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec, window_spec
from slackwater.windows.results import WINDOW_END, result_schema, row_columns
from slackwater.windows.sideline import Sideline


class ListSink:
    """Keeps what it is given, once for each commit id."""

    def __init__(self) -> None:
        self.commits: dict[int, pa.Table] = {}

    def write(self, payload: Payload, commit_id: int) -> None:
        """Keep the rows of a commit."""
        assert not isinstance(payload, Staged)
        self.commits[commit_id] = payload

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows in the order of their commits."""
        return [row for _, table in sorted(self.commits.items()) for row in table.to_pylist()]


def arrow_plan(
    sample: pl.DataFrame,
    range: Span | None = None,
    slide: Span | None = None,
    offset: Span | None = None,
    rows: int | None = None,
    group_by: Sequence[str] = (),
    where: str | None = None,
    map: tuple[Function, pa.Schema] | None = None,
    select: Mapping[str, str] | None = None,
    time: str = "t",
    domain: TimeDomain = TimeDomain.SEQUENCE,
    disorder: Disorder | None = None,
    source: str | None = None,
    own_disorder: Disorder | None = None,
    over: WindowNode | None = None,
    **aggregates: str,
) -> QueryNode:
    """The plan of a window query over rows like those of a sample (one row at least), or over results."""
    policy = disorder or bounded(0)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    node: RowNode = StreamNode("s", columns, time, time, domain, policy, source, getattr(policy, "column", None))
    frame = sample
    if over is not None:
        node, frame, domain = ResultsNode(over), _row_of(over), stream_of(over).domain
    if where is not None:
        node = WhereNode(node, where)
    if map is not None:
        function, schema = map
        node = MapNode(node, function, tuple((f.name, str(f.type)) for f in schema), schema)
        frame = pl.DataFrame(schema.empty_table())
    if select is not None:
        node = SelectNode(node, tuple(select.items()))
        frame = frame.select(pl.sql_expr(e).alias(n) for n, e in select.items())

    def type_of(sql: str) -> pa.DataType:
        kind = (
            pl.SQLContext(f=frame)
            .execute(f"SELECT {sql} AS x FROM f", eager=True)
            .to_arrow()
            .schema.field("x")
            .type
        )
        return pa.string() if kind == pa.large_string() else kind

    parsed = tuple(parse_aggregate(n, text, _typed(text, type_of)) for n, text in aggregates.items())
    groups, kinds = tuple(Group(g, g) for g in group_by), [type_of(g) for g in group_by]
    spec = window_spec(domain, range, slide, offset, rows)
    if isinstance(spec, RollingSpec):
        rolling = RollingKernel(spec, groups, parsed)
        return RollingNode(node, rolling, result_schema(rolling, domain, kinds), own_disorder)
    kernel = PaneKernel(spec, groups, parsed, source_group(node, groups))
    return WindowNode(node, kernel, result_schema(kernel, domain, kinds), own_disorder)


def _row_of(plan: WindowNode) -> pl.DataFrame:
    """A row like those of a plan's results."""
    empty = pl.DataFrame(plan.schema.empty_table()).select(row_columns(plan.kernel))
    return pl.concat([empty, pl.DataFrame({c: [None] for c in empty.columns}, schema=empty.schema)])


def result_page(payload: Payload, node: ResultsNode, number: int, at: int) -> ArrowPage:
    """Results as a page in this process."""
    assert not isinstance(payload, Staged)
    rows, source = pl.DataFrame(payload), node.input.kernel.source
    hidden = [(pl.col(WINDOW_END).to_physical().cast(pl.Int64) - 1).alias(TIME)]
    if source is not None:
        hidden.append(source_text(pl.col(source)).alias(SOURCE))
    return ArrowPage(rows.with_columns(hidden), number, at)


def _typed(text: str, type_of: Callable[[str], pa.DataType]) -> Callable[[str], pa.DataType]:
    """Types of an aggregate and of its argument; those of counts, sums and averages are Spark's, not polars'."""
    function = text.split("(", 1)[0].strip().lower()

    def of(sql: str) -> pa.DataType:
        if not sql.startswith(f"{function}("):
            return type_of(sql)
        if function == "count":
            return pa.int64()
        if function not in ("sum", "avg", "mean"):
            return type_of(sql)
        kind = type_of(sql.removeprefix(f"{function}(").removesuffix(")"))
        if pa.types.is_decimal(kind):
            more, behind = (10, 0) if function == "sum" else (4, 4)
            return pa.decimal128(min(kind.precision + more, 38), min(kind.scale + behind, 38))
        return pa.int64() if function == "sum" and pa.types.is_integer(kind) else pa.float64()

    return of


class InRecord:
    """Saved pages that are whole inside their journal record."""

    def load(self, saved: dict[str, Any]) -> ArrowPage:
        """The page again."""
        return ArrowPage.load(saved)

    def drop(self, saved: dict[str, Any]) -> None:
        """It goes with the record."""

    def sweep(self, record: Record | None) -> None:
        """There is nothing outside the records."""

    def drop_staged(self, payload: Staged) -> None:
        """There is nothing outside the records."""


class Script:
    """One query on in-process pages and a manual clock."""

    def __init__(
        self,
        plan: QueryNode,
        journal: Journal | None = None,
        sink: ListSink | None = None,
        late: ListSink | None = None,
        strategy: Strategy | None = None,
        commit_every: int = 64,
        early: Early | None = None,
        sideline: Sideline | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.plan = plan
        self.executor = Executor(self.clock, journal, strategy, InRecord(), commit_every)
        self.sink = sink if sink is not None else ListSink()
        self.late = late
        nesting = Nesting(result_page)
        self._labels = add_query(
            self.executor, "q", plan, self.sink, late, early=early, nesting=nesting, sideline=sideline
        )
        self._source = source_label("s")
        seen = self.executor.consumed(self._source)
        self._number = -1 if seen is None else seen

    def page(self, rows: pl.DataFrame, number: int | None = None, at: int | None = None) -> Script:
        """Admit a page and work until idle."""
        if at is not None:
            self.clock.set(at)
        self._number = self._number + 1 if number is None else number
        stream = stream_of(self.plan)
        page = ArrowPage(rows, self._number, self.clock.now(), stream.time, stream.source, stream.punctuation)
        self.executor.admit(self._source, page)
        self.executor.run_until_idle()
        return self

    def prod(self, until: int | None = None, where: str | None = None) -> Script:
        """Ask for an answer now."""
        self.executor.prod(self._labels, Prod(until, None, where))
        self.executor.run_until_idle()
        return self

    def advance(self, by: int) -> Script:
        """Move the clock and let it be noticed."""
        self.clock.advance(by)
        self.executor.run_until_idle()
        return self

    def until(self, instant: int) -> Script:
        """Move the clock, stopping wherever it alone brings something, as a replay does."""
        while (wake := self.executor.wake_at()) is not None and self.clock.now() < wake < instant:
            self.advance(wake - self.clock.now())
        self.clock.set(instant)
        return self

    def drain(self) -> Script:
        """Close every window."""
        self.executor.drain()
        return self

    @property
    def results(self) -> list[dict[str, Any]]:
        """What the sink has."""
        return self.sink.rows

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Figures by operator label."""
        return self.executor.metrics()
