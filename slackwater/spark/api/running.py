"""The running queries of a session: how they start, fail alone, stop, and how their streams are read meanwhile.

The executor's thread does the work. Other threads ask it for something and wait until it is between two runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.errors import QueryError, RunError
from slackwater.events import decision, event
from slackwater.operators.prod_request import check_settings
from slackwater.operators.sink import Output
from slackwater.plan.change import kept_by
from slackwater.plan.column_use import needed_columns
from slackwater.plan.node import describe, streams_of, walk
from slackwater.plan.nodes import StreamNode
from slackwater.progress.clock import SystemClock
from slackwater.spark.api.catalogue import Catalogue, Declaration
from slackwater.spark.api.controls import Controls
from slackwater.spark.api.histories import Histories
from slackwater.spark.api.journal_queries import JournalQueries, OnChange
from slackwater.spark.api.plays import Play, Plays, Reads, check_kind
from slackwater.spark.api.prod_streams import Control
from slackwater.spark.api.query import Query
from slackwater.spark.api.readers import Readers
from slackwater.spark.api.run import Run
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.ingest.interrupts import Interrupts
from slackwater.spark.ingest.replay import Replay, come_to
from slackwater.spark.sinks.sinks import SinkLike, make_sink
from slackwater.spark.sinks.table_sink import TableSink
from slackwater.spark.state.stores import SparkStores
from slackwater.spark.storage.journal_files import FileJournal, QueryNote
from slackwater.spark.storage.spark_errors import java_has_died
from slackwater.spark.storage.storage_dir import StorageDir, file_name

_log = logging.getLogger(__name__)


class Running:
    """Queries by name, the thread that works for them, and the readers of their streams."""

    def __init__(
        self,
        catalogue: Catalogue,
        pages: SparkBackend,
        place: StorageDir,
        journal: FileJournal | None,
        settings: EngineSettings,
    ) -> None:
        self.runs: Mapping[str, Run] = {}
        """Replaced, never changed: all threads go through it."""
        self._starting = threading.Lock()
        """Two threads may start queries."""
        self._reading = threading.Lock()
        """The thread of a history begins to read, too."""
        self._catalogue = catalogue
        self.pages = pages
        self._noted = JournalQueries(journal)
        self._settings = settings
        self.clock = SystemClock()
        executor = Executor(self.clock, journal, SparkPages(pages, SparkStores), settings)
        pages.counts_pairs = executor.counts_rows
        if journal is not None:
            executor.keep_only(journal.queries.keys(), journal.shared)
        self.loop = Loop(executor, held=True)
        self.loop.executor.on_failed, self.loop.executor.ends_all = self._query_failed, java_has_died
        self.loop.on_error = self._all_failed
        self.readers = Readers(self.loop, pages, place)
        self.interrupts = Interrupts(lambda: self.loop.paused, None if journal is None else journal.folder)
        self.plays = Plays()
        self.histories = Histories(self)
        self.controls = Controls(self.loop, lambda: self.runs)
        self._inputs: Mapping[str, Declaration] = {}
        """The streams that queries read, by the names of their sources. Replaced, never changed, too."""
        self._open: frozenset[str] = frozenset()
        """Live streams that are read as rows come, not only by `run_available`."""
        self.is_working_off = False
        """Whether `run_available` is under way."""
        self._resumed = False
        self._stopped = threading.Event()

    # --- start

    def start(
        self,
        query: Query,
        sink: SinkLike,
        late: SinkLike,
        name: str | None,
        hold: bool,
        settings: QuerySettings,
        on_change: OnChange | None = None,
    ) -> Run:
        """Start a query by the settings that its user chose; an error leaves everything as it was."""
        self.loop.check_outside()
        with self._starting:
            plan, label = query._plan, self._label(name)
            for stream in streams_of(plan):
                self.controls.refuse(stream.name)
            if any(run.active and run.query is query for run in self.runs.values()):
                raise RunError("this query has been started already; stop its run first, or build the query again")
            check_settings(plan, settings.early, settings.sideline, late, settings.ordered)
            if on_change == "new" and self._noted.changed(label, plan):
                self.forget(label)
            reads = check_kind(self._catalogue[s.declared].reads for s in streams_of(plan))
            output = make_sink(sink, self._run_id(label), self.pages, plan)
            late_output = None if late is None else make_sink(late, f"{self._run_id(label)}-late", self.pages)
            parts, reserved = self._noted.parts(label, plan, on_change), self._noted.reserved(label)
            play = None if reads is Reads.LIVE else self._play(label, reads is Reads.HISTORY)
            plan = plan if play is None else play.plan(plan)
            run = Run(self, label, query, plan, play, output, late_output)
            settings = replace(
                settings,
                late=late_output,
                resident_limit=self._settings.resident_limit,
                clock=None if play is None else play.clock,
                labels=parts,
                reserved=reserved,
            )
            self.runs = {**self.runs, label: run}
            try:
                self._add(run, output, settings)
            except BaseException:
                self.runs = {name: other for name, other in self.runs.items() if other is not run}
                raise
            event("query.started", query=label, streams=run.streams, plan=describe(plan))
            if (play is None or play.live) and not hold:
                self._open = self._open.union(run.streams)
            if not self.missing():
                # What waits in the journal for several queries may go on only when all of them are back.
                self._release()
                self.read()
            return run

    def _label(self, name: str | None) -> str:
        label = next(q for n in count(1) if (q := f"q{n}") not in self.runs) if name is None else name
        if not isinstance(label, str) or not label:
            raise QueryError(f"name={label!r}: a query's name is a text that is not empty, as in name='late'")
        if label in self.runs or label in self.controls.owners:
            raise RunError(f"the name {label!r} was used in this session; start the query with another name=")
        return label

    def _run_id(self, label: str) -> str:
        return f"{self._noted.run_id(label)}-{file_name(label)}"

    def _play(self, query: str, live: bool) -> Play:
        """The replay that a query reads: the one it read before a restart, or one that has not begun."""
        plays = self._noted.plays
        if query in plays:
            return self.plays.numbered(plays[query], live)
        without = [source_label(name) for name in self._catalogue.live]
        sources = [label for label in self.loop.executor.known_sources() if label not in without]
        return self.plays.next(plays.values(), sources, live)

    def _add(self, run: Run, output: Output, settings: QuerySettings) -> None:
        """Add the query's operators; streams that were read without its columns are read anew."""
        self._inputs = {**self._inputs, **{stream.name: self._input(stream) for stream in streams_of(run.plan)}}
        self.controls.attach(run._play)
        # A query that was stopped or has failed could never catch up with its stream, which goes on now.
        over = [r for r in self.runs.values() if r._resumable and set(r.streams) & set(run.streams)]
        again = [self.readers.stop_without(*need) for need in needed_columns(run.plan, run._routes_late).items()]
        play = None if run._play is None else run._play.number
        run_ids = [self._run_id(r.name) for r in over]

        def add() -> None:
            executor = self.loop.executor
            labels = add_query(executor, run.name, run.plan, output, settings)
            noted = QueryNote(describe(run.query._plan), labels, play, kept_by(run.query._plan))
            try:
                self._noted.note(run.name, noted, self.runs, [r.name for r in over])
            except BaseException:
                executor.withdraw(run.name)
                raise
            for stopped in over:
                stopped._resumable = False
                executor.forget(stopped.name, self._noted.shared)

        try:
            self.loop.interrupt(add)
        except BaseException:
            run._end()
            if any(again):
                self.read()
            raise
        for run_id in run_ids:
            TableSink.forget(self.pages, run_id)

    def _input(self, stream: StreamNode) -> Declaration:
        """The declaration by which a source is read: a stream's, perhaps by another attribute (S4's WATTR)."""
        declared = self._catalogue[stream.declared]
        if stream.name == stream.declared:
            return declared
        again = None if declared.replay is None else replace(declared.replay, node=stream)
        return replace(declared, node=stream, replay=again)

    def missing(self) -> list[str]:
        """Queries that the journal holds and that have not been started again: their pages must wait for them."""
        return self._noted.missing(self.runs)

    def check_complete(self) -> None:
        """Refuse to go on while queries of the journal are missing."""
        if missing := self.missing():
            raise RunError(
                f"the journal holds the queries {', '.join(missing)}; start them too, under the same names, "
                "or drop them with session.forget(name)"
            )

    def _release(self) -> None:
        if not self._resumed:
            self._resumed = True
            self.loop.interrupt(self.loop.executor.resume)
            for play in self.plays.all:
                play.clock.set(come_to(self.replays(play), self.loop.executor))
                consumed = (self.loop.executor.consumed(source_label(r.node.name)) for r in self.replays(play))
                play.begun |= any(number is not None for number in consumed)
                if play.live and self.histories.over(play):
                    self.histories.go_live(play)
        self.loop.release()

    def forget(self, name: str) -> None:
        """Drop a query from the journal that will not be started again."""
        self._noted.check_known(name)
        if name in self.runs and self.runs[name].active:
            raise RunError(f"query {name!r} is running; stop it instead")
        TableSink.forget(self.pages, self._run_id(name))

        def forget() -> None:
            self._noted.forget(name, self.runs)
            self.loop.executor.forget(name, self._noted.shared)

        self.loop.interrupt(forget)
        if not self.missing():
            self._release()

    # --- reading

    def control(self, control: Control, declared: Declaration) -> None:
        """A stream of prods has been declared."""
        self.controls.declare(control, declared)
        if self._open:
            self.read()

    def reads(self, run: Run) -> bool:
        """Whether a live stream of this query is being read."""
        return any(self.readers.reads(stream) for stream in run.streams)

    def live_streams(self) -> set[str]:
        """The live streams that active queries need."""
        runs = [run for run in self.runs.values() if run.active and (run._play is None or run._play.live)]
        return {name for run in runs if run._play is None or run._play.done for name in run.streams}

    def read(self, available_now: bool = False) -> list[str]:
        """Have the open streams read, or all of them for what there is now; streams of prods last."""
        with self._reading:
            return self._read(available_now)

    def _read(self, available_now: bool) -> list[str]:
        wanted = self.live_streams()
        histories = {run._play: run for run in self.runs.values() if run.active and self._has_history(run)}
        still = wanted.union(*(run.streams for run in self.runs.values() if run._play in histories))
        self._open = frozenset() if available_now else self._open & still
        for play in [play for play, run in histories.items() if play is not None and self._open & set(run.streams)]:
            self.histories.begin(play)
        names = sorted(wanted if available_now else self._open & wanted)
        for name in names:
            readers = [r for r in self.runs.values() if r.active and name in r.streams]
            columns = set().union(*(needed_columns(r.plan, r._routes_late)[name] for r in readers))
            # Spark gives no next batch before the last one is safe, and a page that waits for time may wait for it.
            wait = self.loop.executor.holds_back or any(n.runs_function for r in readers for n in walk(r.plan))
            self.readers.read(self._inputs[name], columns, wait, available_now)
        controls = self.controls.live if names else {}
        for declared in controls.values():
            self.readers.read(declared, set(declared.frame.columns), False, available_now)
        return [*names, *controls]

    @staticmethod
    def _has_history(run: Run) -> bool:
        """Whether a query has still to read the history of its streams, all or in part."""
        return run._play is not None and run._play.live and not run._play.done

    def read_on(self) -> None:
        """Read all live streams as rows come, also those of queries that were started with `hold=True`."""
        histories = (run.streams for run in self.runs.values() if run.active and self._has_history(run))
        self._open = self._open.union(self.live_streams(), *histories)
        self.read()

    def _stop_unread(self) -> None:
        wanted = self.live_streams()
        self.readers.stop_all_but(wanted | set(self.controls.live) if wanted else wanted)

    def look_after_readers(self) -> None:
        """Let the queries of streams fail that Spark has ended with an error."""
        if not self.loop.inside:
            for name, error in self.readers.failed().items():
                self.readers.stop({name})
                self.stream_failed(name, error)

    def stream_failed(self, name: str, error: Exception) -> None:
        """Spark has ended a stream with an error: the queries that read it fail."""
        if self.loop.error is None and source_label(name) in self.loop.executor.graph:
            self.loop.interrupt(lambda: self.loop.executor.fail(source_label(name), error))

    def replays(self, play: Play) -> list[Replay]:
        """The replays of a play."""
        runs = [run for run in self.runs.values() if run.active and run._play is play]
        names = dict.fromkeys(name for run in runs for name in run.streams)
        return [replay for name in names if (replay := self._inputs[name].replay) is not None]

    # --- stop

    def stop_run(self, run: Run) -> None:
        """Stop a query after the run under way; also from inside a sink's function, without waiting."""
        if not run.active:
            return
        run._end()

        def retire() -> None:
            resumable = self.loop.executor.retire(run.name)
            if resumable is not None:
                self._over(run, resumable)
                run.flush()

        if self.loop.inside:
            self.loop.soon(retire)
        elif self.loop.error is None:
            self.loop.interrupt(retire)
        event("query.stopped", query=run.name)
        self._stop_unread()

    def _over(self, run: Run, resumable: bool) -> None:
        run._resumable = self._noted.ended(run.name, resumable)

    def _query_failed(self, name: str, error: Exception, resumable: bool) -> None:
        """Called by the executor's thread: a query has failed and is out."""
        if self.controls.failed(name, error):
            return
        run = self.runs[name]
        run._end(error)
        self._over(run, resumable)
        _log.error("%s", run.failure)
        event("query.failed", query=name, error=run.failure, resumable=resumable)
        try:
            run.flush()
        except RunError as failure:  # it may be the sink that has failed
            decision("answers.not_shown", query=name, error=failure)
        self._stop_unread()

    def _all_failed(self, error: BaseException) -> None:
        """Called by the executor's thread: it has ended with an error."""
        while java_has_died(error) and error.__cause__ is not None:
            error = error.__cause__  # that Java has died says more than that the executor has failed
        for run in [r for r in self.runs.values() if r.active]:
            run._end(error)
        self.readers.stop_all_but(set())

    def stop(self, then: Callable[[], None]) -> None:
        """Stop all, without waiting; what comes after that is done when nothing runs any more."""
        for run in list(self.runs.values()):
            run._end()
        threading.Thread(target=self._stop, args=[then], name="slackwater-stop", daemon=True).start()

    def _stop(self, then: Callable[[], None]) -> None:
        try:
            self.readers.stop_all()
            self.loop.stop()
            self.readers.join()
            for run in list(self.runs.values()):
                try:
                    run.flush()
                except RunError as error:
                    _log.error("%s", error)
            then()
        finally:
            self._stopped.set()

    def await_stop(self) -> None:
        """Wait until nothing runs any more; not inside a sink's function, which runs."""
        if not self.loop.inside:
            self._stopped.wait()
