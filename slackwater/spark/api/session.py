"""The session: declares streams, starts queries, owns the executor's thread and the journal."""

from __future__ import annotations

import atexit
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slackwater.calls import NamesCounterparts, called
from slackwater.dashboard import LivePage
from slackwater.engine.enabling import Enabling, on_demand
from slackwater.engine.query_state import query_state
from slackwater.engine.records import History
from slackwater.engine.settings import RESIDENT_LIMIT, EngineSettings, check_engine, read_quantum
from slackwater.errors import QueryError, RunError
from slackwater.events import event
from slackwater.operators.backend import PartialsTooLarge
from slackwater.plan.analyse import Analysis
from slackwater.progress.bounds.skew import SkewMatrix
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span
from slackwater.scheduling.fifo import fifo
from slackwater.scheduling.heartbeats import Heartbeats, operator_level
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.api import counterparts as words
from slackwater.spark.api.available import run_available
from slackwater.spark.api.catalogue import Catalogue
from slackwater.spark.api.interpreter import SpeaksSql
from slackwater.spark.api.notebook import session_html, session_line
from slackwater.spark.api.progress_bar import bar
from slackwater.spark.api.run import Run
from slackwater.spark.api.running import Running
from slackwater.spark.api.streams import DeclaresStreams
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.memory_budget import DISK, MEMORY, MemoryBudget, read_size
from slackwater.spark.storage.embedded import embedded, private_copy
from slackwater.spark.storage.journal_files import open_journal
from slackwater.spark.storage.shared import shared_place
from slackwater.spark.storage.storage_dir import StorageDir

_log = logging.getLogger(__name__)
_unstopped: set[Session] = set()


@atexit.register
def stop_at_exit() -> None:
    """Commit and write what was done when a program ends without `stop()`.

    Otherwise Spark would lose half of the program in the middle of a batch, and log long errors.
    """
    for session in list(_unstopped):
        try:
            session.stop()
        except Exception as error:
            _log.warning("the session could not be stopped at the end of the program: %s", error)


class Session(DeclaresStreams, SpeaksSql, NamesCounterparts):
    """The place where streams are declared and queries run, on one Spark.

    Args:
        spark: your Spark session; without it Spark is embedded.
        journal: a folder, or an address that pyarrow knows. With it, queries go on after a crash.
        resident_limit: how many bytes of the windows of a query the driver holds; more is spilled to files.
        strategy: what runs first when much waits: sw.fifo() (the default), sw.chain(), or to compare
            sw.papers.greedy() or sw.papers.round_robin().
        sync: with False the journal outlives a crash, but not a power cut.
        quiet_streams: when a quiet stream says how far time has come: sw.on_demand() (the default), or to compare
            sw.papers.periodic("1 second") or sw.papers.no_enabling().
        heartbeat_scope: for which streams pages wait in a query over several: sw.operator_level() (the default),
            sw.memory_aware(), or to compare sw.papers.query_level() (S1 section 7).
        batch_pages: whether waiting pages of one stream are taken as one where that is faster.
        quantum: a longer run of a filter, a map or a join with a table takes a part of a page, so that prods and
            urgent pages need not wait for its end. One second under sw.chain(); other strategies take whole pages.
        memory: how much of what waits between operators is held in Spark's memory; the rest goes to files.
        disk: when pages that wait on disk take more than this, Spark reads no further for now.
        storage: a folder, or an address that pyarrow knows, for the rows that Spark's workers write: pages that
            wait, spilled windows, join state, results on their way. Without it they lie in the journal's folder,
            or in a temporary folder of this machine. On a cluster all machines must see it.
    """

    _known_as, _words = "session", words.SESSION

    @called(
        words.SESSION_ARGUMENTS,
        spark=words.SPARK,
        resident_limit=words.BYTES,
        sync=words.FLAG,
        batch_pages=words.FLAG,
    )
    def __init__(
        self,
        spark: SparkSession | None = None,
        journal: str | os.PathLike[str] | None = None,
        resident_limit: int = RESIDENT_LIMIT,
        strategy: Strategy | None = None,
        sync: bool = True,
        quiet_streams: Enabling | None = None,
        heartbeat_scope: Heartbeats | None = None,
        batch_pages: bool = True,
        quantum: str | timedelta | None = None,
        memory: str | int = MEMORY,
        disk: str | int = DISK,
        storage: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = EngineSettings(
            fifo() if strategy is None else strategy,
            on_demand() if quiet_streams is None else quiet_streams,
            operator_level() if heartbeat_scope is None else heartbeat_scope,
            batch_pages,
            resident_limit,
            read_quantum(quantum),
        )
        check_engine(settings)
        self.spark = spark if spark is not None else embedded()
        shared = shared_place(self.spark, journal, storage)
        self._journal = None if journal is None else open_journal(StorageDir.of(journal), sync)
        self._owns_place = journal is None
        self._place = shared or StorageDir.temporary()
        if storage is not None:
            # Others may use the same storage; a journal finds its own folder again.
            own = f"session-{uuid.uuid4().hex}" if self._journal is None else self._journal.id
            self._place = self._place.child(own)
        durable = sync and self._journal is not None
        pages = SparkBackend(private_copy(self.spark), self._place, durable, self.spark)
        self._catalogue = Catalogue(pages.spark, self.spark)
        pages.tables.find, pages.tables.function = self._catalogue.table, self._catalogue.functions.get
        pages.streams = self._catalogue.frame
        pages.room = MemoryBudget(read_size(memory, "memory"), read_size(disk, "disk"))
        self._analysis = Analysis(self._catalogue)
        self._tables: Mapping[str, DataFrame] = {}
        """Stored relations as the user gave them. Replaced, never changed: several threads may use a session."""
        self._stopped = False
        self._pages: list[LivePage] = []
        try:
            self._running = Running(self._catalogue, pages, self._place, self._journal, settings)
        except BaseException:
            self._close()
            raise
        _unstopped.add(self)

    # --- streams

    @called()
    def bounds(
        self,
        bounds: Disorder | Mapping[tuple[str, str], Any] | Sequence[Sequence[Any]] | SkewMatrix,
        *,
        streams: Sequence[str] | None = None,
        latency: Span | Mapping[str, Span] | None = None,
        timeout: str | int | timedelta | None = None,
        unit: str | int | timedelta | None = None,
        indirect: bool | None = None,
        groups: int | Mapping[str, Iterable[str]] | None = None,
        ordered: bool | None = None,
    ) -> None:
        """Say how far declared streams may be behind each other (S1 section 2), before queries start.

        Then the rows of one stream say how far time has come on the others. The heartbeat of each stream is the
        larger one of what its own policy promises and what the bounds promise.

        Args:
            bounds: as in `sw.skew`, with the names of streams for sources. Or a policy that speaks of sources, such
                as sw.learned() or sw.sensors("2 seconds"), with `streams`.
            streams: the names, where `bounds` does not say them all.
            latency: as in `sw.skew`.
            timeout: for a silence of *all* these streams. Where the bounds need one (Theorem 3.3) and none is
                written, it is 10 minutes for live streams.
            unit: as in `sw.skew`.
            indirect: as in `sw.skew`.
            groups: as in `sw.skew`.
            ordered: as in `sw.skew`.
        """
        self._check()
        if running := next((run for run in self.queries() if run.active), None):
            raise QueryError(f"bounds: query {running.name!r} is running; write bounds before queries start")
        self._catalogue.bind(bounds, streams, (latency, timeout, unit, indirect, groups, ordered))

    @called()
    def register_table(self, name: str, df: DataFrame | Callable[[], Any]) -> None:
        """Give a static DataFrame a name, so that SQL can join streams with it, as can `join("name", on=…)`.

        Tables and views of Spark have one already. Files are read again when they have changed, whole tables only;
        `df.cache()` keeps the rows of now. A function is called for each page: it gives the table as it is then, as
        a DataFrame or an Arrow table, such as `DeltaTable("lake/carriers").to_pyarrow_table`.
        """
        frame = self._catalogue.register(name, df)
        self._tables = {**self._tables, name: frame}

    def _stored(self, df: DataFrame) -> str:
        """The name of a static DataFrame; a new one where it has none."""
        rows = self._catalogue.tables
        name = next((name for name, table in self._tables.items() if table is df), None)
        if name is None:
            name = next(n for k in count(1) if (n := f"table{k}") not in rows and n not in self._catalogue)
            self.register_table(name, df)
        return name

    # --- queries

    @called()
    def state(self, query: str) -> pa.Table:
        """What a query holds now: a row for each open window and group.

        Columns: the group columns, the aggregates over the rows that have arrived, `window_start`, `window_end` and
        `heartbeat`, the time up to which all rows have come (null before the first). Nothing is emitted, and
        nothing changes. Of a query with several aggregates it is the last one. To look into the journal of a
        stopped session, declare its streams again and start the query with hold=True under its name.

        Args:
            query: the query's name.
        """
        self._check()
        runs = self._running.runs
        if query not in runs or not runs[query].active:
            names = ", ".join(name for name, run in runs.items() if run.active) or "none"
            raise QueryError(f"state({query!r}): no such query is running; there are {names}")
        loop = self._running.loop
        try:
            return loop.interrupt(lambda: query_state(loop.executor.graph, query))
        except PartialsTooLarge as error:
            raise RunError(f"state({query!r}): its windows are too large for the driver") from error

    def queries(self) -> list[Run]:
        """All queries that were started here, also those that have been stopped or have failed."""
        return list(self._running.runs.values())

    def _open(self) -> Running:
        """What runs the queries; refused after `stop()`."""
        self._check()
        return self._running

    def _check(self) -> None:
        if self._stopped:
            raise RunError("the session has been stopped; make a new one")

    @called()
    def forget(self, name: str) -> None:
        """Drop a query from the journal, because it will not be started again."""
        self._running.forget(name)

    @called()
    def run_available(
        self,
        drain: bool = True,
        progress: Callable[[dict[str, Any]], None] | bool | None = None,
        speed: float | None = None,
    ) -> None:
        """Process all there is now, and return: replays to their end, live streams up to what they have.

        A query that fails does not stop the others; its error is raised at the end.

        Args:
            drain: close every window that has rows at the end. A live stream may go on afterwards: rows that come
                later open new windows, and are late for those that were closed.
            progress: a function that is called after each replayed page, with a dict: its `stream`, its number
                `page`, its `rows`, and the replay's `clock` in microseconds. True shows a bar.
            speed: how many seconds of a replay pass in one: 60 plays an hour in a minute. Without it the clock
                does not move while a page is worked on, so answers do not depend on how long work takes.
        """
        self._check()
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise QueryError(f"progress={progress!r}: give a function that takes a page, or True for a bar")
        if progress is True:
            with bar(self._running.loop) as on_page:
                run_available(self._running, drain, on_page, speed)
        else:
            run_available(self._running, drain, progress or None, speed)

    def pause(self) -> None:
        """Stop all work after the step under way, until `resume()`.

        What has been done is committed. New pages are let in, and wait. Prods are answered from what the windows
        have, and queries can be stopped. `run_available()` waits. A pause does not outlive the session.
        """
        self._set_paused(True)

    def resume(self) -> None:
        """Go on after `pause()`."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self._check()
        self._running.loop.set_paused(paused)
        event("session.paused" if paused else "session.resumed")

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        return self._running.loop.paused

    # --- to watch

    @property
    def history(self) -> History:
        """The latest figures of all operators."""
        return self._running.loop.history

    @property
    def spark_ui(self) -> str:
        """The address of Spark's own pages; nothing if they are switched off."""
        return self.spark.sparkContext.uiWebUrl or ""

    @called()
    def serve(self, port: int = 0, host: str = "127.0.0.1", token: str | None = None) -> LivePage:
        """A live page of this session in the browser, until the session stops; open its `url`.

        It shows the operators, the queues, how late rows come, what was lost, and the answers, as they change. It
        has buttons to prod and to stop queries, and to pause. `/metrics` gives the figures to Prometheus.

        Args:
            port: 0 takes one that is free.
            host: only this machine can open the page. With "0.0.0.0" others can too; they need the token.
            token: what others need; it is made if it is not given, and is part of the `url`.
        """
        self._check()
        page = LivePage(self, port, host, token)
        self._pages.append(page)
        event("page.served", port=page.port)
        return page

    def stop(self) -> None:
        """Stop all queries and the session's thread; the journal keeps what a later session continues from.

        It waits for the Spark job under way, not for what waits behind it; inside a sink's function it waits for
        nothing.
        """
        if not self._stopped:
            self._stopped = True
            _unstopped.discard(self)
            for page in self._pages:
                page.stop()
            self._running.stop(self._close)
            event("session.stopped")
        self._running.await_stop()

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        if self._owns_place:
            self._place.delete()

    def __repr__(self) -> str:
        return session_line(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return session_html(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
