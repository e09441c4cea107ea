"""A streaming test as a script: give pages, move the clock, look at the answers. One seed, one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from slackwater.engine.build import add_query, source_label
from slackwater.engine.enabling import Enabling
from slackwater.engine.executor import Executor
from slackwater.engine.journal import Journal
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.figures import Figures
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.corrections import with_corrections
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.nodes import StreamNode, WindowNode
from slackwater.plan.step import Function
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span, TimeDomain
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.heartbeats import Heartbeats, OperatorLevel
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing.backend import arrow_page
from slackwater.testing.pages import ArrowPages
from slackwater.testing.stream_spec import RowsLike, StreamSpec, read_specs, sql_plan
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
        assert isinstance(payload, pa.Table)
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
    gap: Span | None = None,
    step: Span | None = None,
    fill: int | str | None = L.NO_FILL,
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
        window = L.Window(range, slide, offset, rows, None, own_disorder, gap, step, fill=fill)
        groups = tuple((g, g) for g in group_by)
        query = L.Aggregate((query,), window, groups, tuple(aggregates.items()))
    if having is not None:
        query = L.Where((query,), having)
    return analyse(query, SampleTypes({"s": (stream, relation)}))


def _journal(given: str | Path | Journal | None) -> Journal | None:
    """A journal; a folder's is not synced to the disk, as nobody pulls the plug on a test."""
    return FileJournal(LocalFileSystem(), str(given), sync=False) if isinstance(given, str | Path) else given


class Script:
    """One query on in-process pages and a manual clock."""

    def __init__(
        self,
        plan: PlanNode,
        journal: str | Path | Journal | None = None,
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
        corrections: Span | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.plan = plan = with_corrections(plan, corrections)
        chosen = EngineSettings(
            strategy or Fifo(commit_every),
            quiet_streams or Enabling(),
            heartbeat_scope or OperatorLevel(),
            batch_pages,
        )
        self.executor = Executor(self.clock, _journal(journal), pages or ArrowPages(), chosen)
        self.sink = sink if sink is not None else ListSink()
        self.late = late
        settings = QuerySettings(late=late, early=early, sideline=sideline, ordered=ordered)
        add_query(self.executor, "q", plan, self.sink, settings)
        self._streams = {stream.name: stream for stream in streams_of(plan)}
        seen = {name: self.executor.consumed(source_label(name)) for name in self._streams}
        self._numbers = {name: -1 if number is None else number for name, number in seen.items()}
        self._specs: dict[str, StreamSpec] = {}
        self._looked = 0

    @classmethod
    def from_sql(
        cls,
        text: str,
        streams: Mapping[str, StreamSpec | tuple[pa.Schema | str, Disorder]],
        tables: Mapping[str, pl.DataFrame] | None = None,
        **settings: Any,
    ) -> Script:
        """A script of one SELECT over these streams, by name, each with its columns and its policy.

        >>> from slackwater.progress.bounds.bounded import bounded
        >>> query = "SELECT g, COUNT(*) AS n FROM trips [RANGE 10, SLIDE 10] GROUP BY g"
        >>> script = Script.from_sql(query, {"trips": ("t BIGINT, g STRING", bounded(0))})
        >>> script.page([{"t": 1, "g": "a"}, {"t": 12, "g": "b"}]).page([{"t": 25, "g": "a"}])  # doctest: +ELLIPSIS
        <slackwater.testing.script.Script object at 0x...>
        >>> [(row["g"], row["n"]) for row in script.new_rows()]
        [('a', 1), ('b', 1)]

        Args:
            text: one SELECT; the sink is a list. EMIT, `early=` and `prod()` ask for early answers.
            streams: a pair of schema and policy, or a `StreamSpec` that also names the time and the source.
            tables: stored tables that the query joins.
            settings: those of `Script`, such as `early=`, `late=`; `journal=` takes a folder, and a second script
                with the same folder goes on where the first one was.
        """
        specs = read_specs(streams)
        pages = ArrowPages(tables)
        plan, early = sql_plan(text, specs, tables or {})
        script = cls(plan, pages=pages, **{"early": early, **settings})
        script._specs = specs
        return script

    def page(
        self, rows: RowsLike, number: int | None = None, at: int | None = None, stream: str | None = None
    ) -> Script:
        """Admit a page of a stream, which must be named where the query reads several, and work until idle."""
        if at is not None:
            self.clock.set(at)
        if stream is None:
            stream, *others = self._names
            if others:
                names = ", ".join(self._names)
                raise QueryError(
                    f"page(): this query reads {names}; say which, as in page(rows, stream={stream!r})"
                )
        self._admit(stream, rows, number)
        self.executor.run_until_idle()
        return self

    def pages(self, rows: Mapping[str, RowsLike]) -> Script:
        """Admit a page of each of these streams at the same instant, then work until idle."""
        for stream, some in rows.items():
            self._admit(stream, some)
        self.executor.run_until_idle()
        return self

    @property
    def _names(self) -> list[str]:
        """The declared streams; a query may read one by several attributes (S4's WATTR)."""
        return list(dict.fromkeys(node.declared for node in self._streams.values()))

    def _admit(self, stream: str, rows: RowsLike, number: int | None = None) -> None:
        readers = [node for node in self._streams.values() if stream in (node.name, node.declared)]
        if not readers:
            raise QueryError(f"this query reads no stream {stream!r}; it reads {', '.join(self._names)}")
        for node in readers:
            self._admit_to(node, rows, number)

    def _admit_to(self, node: StreamNode, rows: RowsLike, number: int | None) -> None:
        spec = self._specs.get(node.declared)
        frame = rows if spec is None else spec.rows(rows)
        if not isinstance(frame, pl.DataFrame):
            raise QueryError("page(): rows of a plan without a schema are a polars DataFrame")
        self._numbers[node.name] = count = self._numbers[node.name] + 1 if number is None else number
        page = arrow_page(frame, count, self.clock.now(), node.time, node.source, node.punctuation)
        self.executor.admit(source_label(node.name), page)

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
        """All rows of the sink."""
        return self.sink.rows

    def new_rows(self) -> list[dict[str, Any]]:
        """The rows that the sink got since this was last asked."""
        rows = self.results[self._looked :]
        self._looked += len(rows)
        return rows

    def metrics(self) -> dict[str, Figures]:
        """Figures by operator label."""
        return self.executor.metrics()
