"""The session: declares streams, starts queries, owns the executor's thread and the journal."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.engine.build import Settings, add_query, remove_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.errors import JournalError, QueryError, RunError
from slackwater.estimates.early import Early
from slackwater.operators.prod import Prod
from slackwater.operators.prod_stream import ProdStream
from slackwater.plan import logical as L
from slackwater.plan.analyse import Analysis
from slackwater.plan.columns import needed_columns
from slackwater.plan.describe import describe
from slackwater.plan.nodes import StreamNode, has_map, streams_of
from slackwater.progress.clock import Clock, ReplayClock, SystemClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import MIN_TICK
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.api.catalogue import Catalogue, Declared
from slackwater.spark.api.declare import stream_node
from slackwater.spark.api.metrics import run_metrics
from slackwater.spark.api.prod_streams import Control, check_role, fitting, read_control
from slackwater.spark.api.prods import check_settings, read_prod
from slackwater.spark.api.query import Query, Stream
from slackwater.spark.api.run import Run
from slackwater.spark.embedded import embedded, private_copy
from slackwater.spark.ingest.replay import check_speed, come_to, read_replay, replayer
from slackwater.spark.ingest.streams import Ingest
from slackwater.spark.pages.pages import SparkPages
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.storage.place import Place
from slackwater.spark.storage.sinks import SinkLike, make_sink
from slackwater.windows.sideline import Sideline


class Session:
    """A data stream management session on Spark.

    Without arguments Spark is embedded; `spark` takes any session instead. `journal` is a folder, or an address
    that pyarrow knows, in which the session outlives a crash. `strategy` says what runs next when there is more
    to do than one thing: sw.fifo() (as without it) or sw.round_robin().
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        journal: str | os.PathLike[str] | None = None,
        resident_limit: int = 256 * 2**20,
        strategy: Strategy | None = None,
    ) -> None:
        if strategy is not None and (isinstance(strategy, type) or not hasattr(strategy, "pick")):
            raise QueryError(f"strategy={strategy!r}: write strategy=sw.fifo() or strategy=sw.round_robin()")
        self.spark = spark if spark is not None else embedded()
        self._owns_place = journal is None
        self._place = Place.temporary() if journal is None else Place.of(journal)
        self._journal = None if journal is None else FileJournal(self._place.files, self._place.path)
        self._pages = SparkPages(private_copy(self.spark), self._place)
        self._resident_limit = resident_limit
        self._id = self._journal.id if self._journal is not None else uuid.uuid4().hex[:8]
        self._strategy = strategy
        self._catalogue = Catalogue(self.spark)
        self._analysis = Analysis(self._catalogue)
        self._inputs: dict[str, Declared] = {}
        """The streams that queries read, by the names of their sources."""
        self._controls: dict[str, Control] = {}
        self._runs: dict[str, Run] = {}
        self._ingests: dict[str, Ingest] = {}
        self._loop: Loop | None = None
        self._clock: Clock | None = None
        self._resumed = False
        self._stopped = False

    # --- streams

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        time: str,
        source: str | None = None,
        disorder: Disorder | None = None,
        arrival: str | None = None,
        page: str = "10 seconds",
        trigger: str | None = None,
        role: str | None = None,
    ) -> Stream:
        """Declare a stream.

        `df` is a streaming DataFrame, or a static one with `arrival`, the column of wall-clock arrival by which
        it is replayed in pages of `page`. `time` is the column, or Spark SQL expression, of application time:
        a timestamp, a date, a whole number or a decimal of at most 18 digits. `source` names a row's source, where
        many send into one stream. `disorder` says how late rows may come.

        With `role="prods"` its rows are prods (S5 section 3.2): each asks for early results of the windows that end
        by the column `until`, or by the row's time where there is no such column; all open ones where `until` is
        null. A column `where` restricts a prod to groups, a column `query` to the query of that name. In a replay a
        prod is sent behind the pages that have arrived by the end of its own.
        """
        if name in self._catalogue:
            raise QueryError(f"there is already a stream {name!r}; declare each stream once")
        if check_role(name, role, {"disorder": disorder, "source": source}):
            control = read_control(name, df, time)
            replay = read_replay(control.node, df, arrival, page)
            self._control(control, Declared(control.node, df, replay, trigger))
        else:
            node = stream_node(name, df, time, source, disorder)
            self._catalogue.declare(Declared(node, df, read_replay(node, df, arrival, page), trigger))
        return Stream(self, L.Scan(name))

    def _control(self, control: Control, declared: Declared) -> None:
        name = control.node.name
        if self._loop is not None:
            self._attach(name, control, declared)
        self._catalogue.declare(declared)
        self._inputs[name], self._controls[name] = declared, control
        if self._ingests:
            self._start_ingests(available_now=False)

    def _attach(self, name: str, control: Control, declared: Declared) -> None:
        """Let a stream of prods reach the queries."""
        loop = self._running(replay=declared.replay is not None)

        def send(query: str | None, prod: Prod) -> int:
            runs = fitting(control, self._runs.values(), query, prod)
            for run in runs:
                loop.executor.prod(replace(prod, query=run.name))
            return len(runs)

        if source_label(name) not in loop.executor.graph:
            operator = ProdStream(source_label(name), control.columns, send)
            loop.call(lambda: loop.executor.add(operator))

    def _input(self, stream: StreamNode) -> Declared:
        """What is read for a source: a declared stream, perhaps by another attribute (S4's WATTR)."""
        declared = self._catalogue[stream.declared]
        if stream.name == stream.declared:
            return declared
        again = None if declared.replay is None else replace(declared.replay, node=stream)
        return replace(declared, node=stream, replay=again)

    # --- queries

    def _start(
        self,
        query: Query,
        sink: SinkLike,
        late: SinkLike,
        name: str | None,
        hold: bool,
        early: Early | None,
        sideline: Sideline | None,
    ) -> Run:
        if self._stopped:
            raise RunError("the session has been stopped; make a new one")
        plan = query.plan
        streams = streams_of(plan)
        for stream in streams:
            if stream.name in self._controls:
                raise QueryError(
                    f"stream {stream.name!r} is a stream of prods; a query reads a stream without role="
                )
        if any(r.active and r.query is query for r in self._runs.values()):
            raise RunError("this query has been started already; stop its run first, or build the query again")
        label = next(q for n in count(1) if (q := f"q{n}") not in self._runs) if name is None else name
        if not isinstance(label, str) or not label or "/" in label:
            raise QueryError(f"name={label!r}: a query's name is a text without a slash, as in name='late'")
        if label in self._runs:
            raise RunError(f"the name {label!r} was used in this session; start the query with another name=")
        check_settings(plan, early, sideline, late)
        output = make_sink(sink, f"{self._id}-{label}", self._pages, plan)
        late_output = None if late is None else make_sink(late, f"{self._id}-{label}-late", self._pages)
        known, reserved = dict[str, str](), frozenset[str]()
        if self._journal is not None:
            known, reserved = self._journal.register(label, describe(plan)), self._journal.reserved(label)
        self._inputs.update({stream.name: self._input(stream) for stream in streams})
        loop = self._running(replay=any(self._inputs[s.name].replay is not None for s in streams))
        for control in self._controls.values():
            self._attach(control.node.name, control, self._inputs[control.node.name])
        # A page that was read without the columns of this query must not reach it.
        again = [self._stop_reading(*need) for need in needed_columns(plan, late is not None).items()]
        settings = Settings(late_output, self._resident_limit, early, sideline, known, reserved)
        for stopped in [r for r in self._runs.values() if not r.active and not r.ended]:
            if set(stopped.streams) & {stream.name for stream in streams}:
                self._end(stopped)
        journal = self._journal

        def add() -> None:
            parts = add_query(loop.executor, label, plan, output, settings)
            if journal is not None:
                journal.keep_parts(label, parts)

        loop.call(add)
        run = Run(self, label, query, output, routes_late=late is not None)
        self._runs[label] = run
        if not self._missing():
            # What waits in the journal for several queries may go on only when all of them are back.
            self._release(loop)
            if not hold or any(again):
                self._start_ingests(available_now=False)
        return run

    def _stop_reading(self, stream: str, columns: set[str]) -> bool:
        """Stop if columns are missing from what is read now; whether that was so."""
        ingest = self._ingests.get(stream)
        if ingest is None or columns <= ingest.columns:
            return False
        ingest.stop()
        return True

    def _release(self, loop: Loop) -> None:
        if not self._resumed and isinstance(self._clock, SystemClock):
            loop.call(loop.executor.resume)
        elif not self._resumed and isinstance(self._clock, ReplayClock):
            replays = [i.replay for i in self._inputs.values() if i.replay is not None]
            self._clock.set(come_to(replays, loop.executor))
        self._resumed = True
        loop.release()

    def _running(self, replay: bool) -> Loop:
        """The executor's thread; the first query decides whether time is the machine's or the data's."""
        if self._loop is None:
            self._clock = ReplayClock(MIN_TICK) if replay else SystemClock()
            executor = Executor(self._clock, self._journal, self._strategy, self._pages)
            self._loop = Loop(executor, held=True)
            if not replay:
                self._loop.interruptible()
        elif replay != isinstance(self._clock, ReplayClock):
            raise RunError("a session replays or streams, not both at once; use a second session")
        return self._loop

    def _missing(self) -> list[str]:
        """Queries that the journal holds and that have not been started again: their pages must wait for them."""
        if self._journal is None:
            return []
        return [label for label in self._journal.queries if label not in self._runs]

    def _read(self) -> list[str]:
        """The streams that running queries need, those of prods last."""
        names = {name for r in self._runs.values() if r.active for name in r.streams}
        return [*sorted(names), *(self._controls if names else ())]

    def _start_ingests(self, available_now: bool) -> None:
        assert self._loop is not None
        for name in self._read():
            declared = self._inputs[name]
            if declared.replay is not None:
                continue
            readers = [r for r in self._runs.values() if r.active and name in r.streams]
            columns = set().union(*(needed_columns(r.plan, r.routes_late)[name] for r in readers))
            columns |= set(declared.frame.columns) if name in self._controls else set()
            if name not in self._ingests:
                checkpoint = self._place.child("checkpoints").child(name)
                node, frame, trigger = declared.node, declared.frame, declared.trigger
                self._ingests[name] = Ingest(node, frame, self._loop, self._pages, checkpoint, trigger)
            ingest = self._ingests[name]
            ingest.spooling |= any(has_map(r.plan) for r in readers)
            if ingest.query is None or available_now or not columns <= ingest.columns:
                ingest.start(columns, available_now)

    def forget(self, name: str) -> None:
        """Drop a query from the journal that will not be started again."""
        if self._journal is None or name not in self._journal.queries:
            raise JournalError(f"the journal holds no query {name!r}")
        if name in self._runs and self._runs[name].active:
            raise RunError(f"query {name!r} is running; stop it instead")
        self._journal.forget(name)
        if self._loop is not None:
            loop = self._loop
            loop.call(lambda: loop.executor.forget(f"{name}/"))
            if not self._missing():
                self._release(loop)

    # --- running

    def run_available(
        self,
        drain: bool = True,
        progress: Callable[[dict[str, Any]], None] | None = None,
        speed: float | None = None,
    ) -> None:
        """Process all there is now: replays to their end, streaming sources up to what they have.

        With `drain`, every window is closed at the end. `progress` is called after each replayed page. The clock of
        a replay stands while a page is worked on; with `speed` it goes on, so many seconds in one, and pages
        come when they are due: 1 plays at the speed of life, 60 an hour in a minute.
        """
        if self._loop is None:
            raise RunError("no query has been started; start one first, as in run = query.start()")
        check_speed(speed, replay=isinstance(self._clock, ReplayClock))
        missing = self._missing()
        if missing:
            raise RunError(
                f"the journal holds the queries {', '.join(missing)}; start them too, under the same names, "
                "or drop them with session.forget(name)"
            )
        if isinstance(self._clock, ReplayClock):
            names = [name for name in self._inputs if name in self._read() and name not in self._controls]
            streams, controls = (
                [r for name in some if (r := self._inputs[name].replay) is not None]
                for some in (names, self._controls)
            )
            player = replayer(self._loop, self._clock, self._pages, speed)
            self._told("the replay", lambda: player.run(streams, controls, progress))
        else:
            self._start_ingests(available_now=True)
            for name in list(self._ingests):
                self._wait(name)
            loop = self._loop
            self._told("the work on what has come", lambda: loop.call(lambda: None))
        if drain:
            loop = self._loop
            self._told("closing the windows", lambda: loop.call(loop.executor.drain))

    def _wait(self, stream: str) -> None:
        if stream in self._ingests:
            self._told(f"stream {stream!r}", self._ingests[stream].wait)

    def _told(self, what: str, work: Callable[[], None]) -> None:
        """Do some work; an error is told as that of the executor's thread, if that is where it began."""
        try:
            work()
        except Exception as error:
            cause = self._loop.error if self._loop is not None and self._loop.error is not None else error
            raise RunError(f"{what} has failed: {type(cause).__name__}: {cause}") from error

    def _metrics(self, run: Run) -> dict[str, Any]:
        assert self._loop is not None
        loop = self._loop
        return run_metrics(run, loop.history.latest, loop.executor.clock.now(), self._pages, self._controls)

    def _prod(self, run: Run, until: object, where: str | None) -> None:
        if not run.active:
            raise RunError(f"query {run.name!r} has been stopped")
        assert self._loop is not None
        prod = replace(read_prod(run.plan, until, where), query=run.name)
        loop = self._loop

        def ask() -> None:
            loop.executor.prod(prod)
            loop.executor.answer_prods()

        loop.interrupt(ask)

    # --- stopping

    def _stop_run(self, run: Run) -> None:
        assert self._loop is not None
        reading = self._read()
        for name in run.streams:
            if name not in reading and name in self._ingests:
                self._ingests.pop(name).stop()
        if self._journal is None or all(name in reading for name in run.streams):
            self._end(run)
        if not self._read():
            for control in self._controls.keys() & self._ingests.keys():
                self._ingests.pop(control).stop()

    def _end(self, run: Run) -> None:
        """A stopped query is over: its streams go on for others, so that it could never catch up."""
        assert self._loop is not None
        loop = self._loop
        loop.call(lambda: remove_query(loop.executor, run.name))
        run.ended = True
        if self._journal is not None:
            self._journal.forget(run.name)

    def stop(self) -> None:
        """Stop all queries and the session's thread; the journal keeps what a later session continues from."""
        if self._stopped:
            return
        self._stopped = True
        for ingest in self._ingests.values():
            ingest.stop()
        for run in self._runs.values():
            run.active = False
        if self._loop is not None:
            self._loop.stop()
        if self._owns_place:
            self._place.delete()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
