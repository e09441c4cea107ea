"""A streaming test as a script: give pages, move the clock, look at the answers. One seed, one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.engine.build import Settings, add_query, source_label
from slackwater.engine.enabling import Enabling
from slackwater.engine.executor import Executor
from slackwater.engine.journal import Journal
from slackwater.estimates.early import Early
from slackwater.operators.page import Page, ResultsOf
from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.operators.payload import Payload, Staged
from slackwater.operators.prod import Prod
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.join_node import JoinNode
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.nodes import StreamNode, WindowNode
from slackwater.plan.steps import Function, JoinTable, Step
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span, TimeDomain
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.heartbeats import Heartbeats
from slackwater.scheduling.strategy import Strategy
from slackwater.testing.arrow_page import ArrowPage
from slackwater.testing.join_rows import JoinRows
from slackwater.testing.ordered_rows import OrderedRowsHere
from slackwater.testing.rows_in_order import RowsInOrderHere
from slackwater.testing.types import SampleRelation, SampleTypes
from slackwater.windows.sideline import Sideline


class ListSink:
    """Keeps what it is given, once for each commit id."""

    def __init__(self) -> None:
        self.commits: dict[int, pa.Table] = {}
        self._read: dict[int, tuple[pa.Table, list[dict[str, Any]]]] = {}
        """What `rows` has made of a commit: who looks after each page need not wait for all of them each time."""

    def write(self, payload: Payload, commit_id: int) -> None:
        """Keep the rows of a commit."""
        assert not isinstance(payload, Staged)
        self.commits[commit_id] = payload

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows in the order of their commits."""
        return [dict(row) for commit_id in sorted(self.commits) for row in self._rows_of(commit_id)]

    def _rows_of(self, commit_id: int) -> list[dict[str, Any]]:
        table = self.commits[commit_id]
        if commit_id not in self._read or self._read[commit_id][0] is not table:
            self._read[commit_id] = table, table.to_pylist()
        return self._read[commit_id][1]


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
    having: str | None = None,
    **aggregates: str,
) -> Any:
    """The plan of a query over rows like those of a sample (one row at least), or over results.

    Without aggregates it ends with its filter, map and projection.
    """
    policy = disorder or bounded(0)
    columns, relation = tuple((n, str(t)) for n, t in sample.schema.items()), SampleRelation(sample)
    stream: PlanNode = StreamNode(
        "s", columns, time, time, domain, policy, source, getattr(policy, "column", None), relation.schema
    )
    if over is not None:
        stream = over.as_rows()
        relation = SampleRelation.like(stream.schema)
    query: L.Logical = L.Scan("s")
    if where is not None:
        query = L.Where((query,), where)
    if map is not None:
        query = L.Map((query,), *map)
    if select is not None:
        query = L.Select((query,), tuple(select.items()))
    if aggregates:
        window = L.Window(range, slide, offset, rows, None, own_disorder)
        groups = tuple((g, g) for g in group_by)
        query = L.Aggregate((query,), window, groups, tuple(aggregates.items()))
    if having is not None:
        query = L.Where((query,), having)
    return analyse(query, SampleTypes({"s": (stream, relation)}))


class ArrowPages:
    """Pages in this process; saved ones are whole inside their journal record."""

    def __init__(self, tables: Mapping[str, pl.DataFrame] | None = None) -> None:
        self._tables = dict(tables or {})
        self.cores = 1

    def of_results(self, payload: Payload, node: ResultsOf, number: int, at: int, prod: Prod | None) -> ArrowPage:
        """Results as a page."""
        assert isinstance(payload, pa.Table)
        return ArrowPage.of_results(payload, node, number, at, prod)

    def extended(self, page: Any, step: Step) -> ArrowPage:
        """A page with one more step."""
        assert isinstance(page, ArrowPage)
        if isinstance(step, JoinTable):
            return page.joined(step, self._tables[step.table])
        return page.with_step(step)

    def load(self, saved: dict[str, Any]) -> ArrowPage:
        """The page again."""
        return ArrowPage.load(saved)

    def joins(self, group: Sequence[Page], following: Any) -> bool:
        """Whether both came from one stream and nothing has run."""
        page = group[-1]
        return isinstance(page, ArrowPage) and isinstance(following, ArrowPage) and page.joins(following)

    def together(self, pages: Sequence[Page]) -> ArrowPage:
        """The rows of all."""
        return ArrowPage.together([page for page in pages if isinstance(page, ArrowPage)])

    def drop(self, saved: dict[str, Any]) -> None:
        """It goes with the record."""

    def sweep(self, queues: object, staged: object, taken: object) -> None:
        """There is nothing outside the records."""

    def join_state(self, label: str, node: JoinNode) -> JoinRows:
        """Rows in this process."""
        return JoinRows(node)

    def ordered_rows(self, label: str, node: JoinNode) -> OrderedRowsHere:
        """Rows in this process."""
        return OrderedRowsHere(node)

    def rows_in_order(self, label: str, schema: pa.Schema) -> RowsInOrderHere:
        """Rows in this process."""
        return RowsInOrderHere()

    def spill_panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> PaneStore:
        """There is nowhere to spill to."""
        raise MemoryError(f"{label}: more window state than the driver may hold, and nowhere to spill it")

    def spill_records(self, label: str, resident: ResidentRecords) -> RecordStore:
        """There is nowhere to spill to."""
        raise MemoryError(f"{label}: more rows than the driver may hold, and nowhere to spill them")


class Script:
    """One query on in-process pages and a manual clock."""

    def __init__(
        self,
        plan: PlanNode,
        journal: Journal | None = None,
        sink: ListSink | None = None,
        late: ListSink | None = None,
        strategy: Strategy | None = None,
        commit_every: int = 64,
        early: Early | None = None,
        sideline: Sideline | None = None,
        clock: ManualClock | None = None,
        pages: ArrowPages | None = None,
        ordered: bool = False,
        quiet_streams: Enabling | None = None,
        heartbeat_scope: Heartbeats | None = None,
        batch_pages: bool = False,
    ) -> None:
        self.clock = clock or ManualClock()
        self.plan = plan
        first, kept = strategy or Fifo(commit_every), pages or ArrowPages()
        self.executor = Executor(self.clock, journal, first, kept, quiet_streams, heartbeat_scope, batch_pages)
        self.sink = sink if sink is not None else ListSink()
        self.late = late
        settings = Settings(late=late, early=early, sideline=sideline, ordered=ordered)
        add_query(self.executor, "q", plan, self.sink, settings)
        self._streams = {stream.name: stream for stream in streams_of(plan)}
        seen = {name: self.executor.consumed(source_label(name)) for name in self._streams}
        self._numbers = {name: -1 if number is None else number for name, number in seen.items()}

    def page(
        self, rows: pl.DataFrame, number: int | None = None, at: int | None = None, stream: str | None = None
    ) -> Script:
        """Admit a page of a stream, which must be named where the query reads several, and work until idle."""
        if at is not None:
            self.clock.set(at)
        if stream is None:
            (stream,) = self._streams
        self._numbers[stream] = self._numbers[stream] + 1 if number is None else number
        of = self._streams[stream]
        page = ArrowPage(rows, self._numbers[stream], self.clock.now(), of.time, of.source, of.punctuation)
        self.executor.admit(source_label(stream), page)
        self.executor.run_until_idle()
        return self

    def prod(self, until: int | None = None, where: str | None = None, after: int | None = None) -> Script:
        """Ask for an answer now."""
        self.executor.prod(Prod(until, after, where, query="q"))
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
