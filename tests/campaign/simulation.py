"""One run: processes one after another on one store, what they read and write, and what the user does.

What is outside of a process outlives it: the store, the sinks, the sources with their notes of what is safe, and
the user's program, which starts its queries again after each death.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.errors import JournalError, RunError
from slackwater.operators.prod import Prod
from slackwater.plan.change import kept_by
from slackwater.plan.node import describe
from slackwater.progress.clock import ManualClock
from slackwater.spark.api.journal_queries import JournalQueries
from slackwater.spark.storage.journal_files import FileJournal, QueryNote
from slackwater.testing import arrow_page
from slackwater.testing.pages import ArrowPages
from tests.campaign.kinds import LATE, PUNCTUAL, Counted, as_before
from tests.campaign.queries import Query, Rows, check_all, streams_read
from tests.campaign.schedule import STREAMS, Schedule
from tests.campaign.store import Died, Fate, Store, StoreFiles, die, refuse
from tests.kit.labels import LEVELS
from tests.kit.several_streams import Came
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import SAMPLE, frame
from tests.kit.streams_of_samples import CODES


class World:
    """All of it."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.store, self.fate = Store(), Fate()
        self.wall = 0
        """The machine's clock."""
        self.slow = 0
        self.batches: dict[str, list[list[list[Any]]]] = {s: [] for s in STREAMS}
        self.kept = dict.fromkeys(STREAMS, 0)
        """Batches at the end that wait for the next one."""
        self.safe = dict.fromkeys(STREAMS, -1)
        self.queries: dict[str, Query] = {}
        """Those that the program wants to run."""
        self.past: list[Query] = []
        self.names = 0
        self.trace: list[str] = []
        self.wrong: list[str] = []
        """What sinks have noticed: the engine would take their errors for those of a query."""
        self.counts = dict.fromkeys(("deaths", "restarts", "rewritten", "refused", "takeovers", "failures"), 0)
        self.process: Process
        self._open()

    # --- processes

    def _open(self) -> None:
        """The next process: it may die while it opens; a fault that does not pass would be a mistake."""
        for _ in range(40):
            try:
                mine = Process(self)
            except (Died, JournalError, RunError) as error:
                self._died(error)
            else:
                self.process = mine  # if another session took over meanwhile, this one will notice
                return
        raise AssertionError("no process can open the journal any more")

    def _died(self, error: BaseException | None) -> None:
        self.counts["deaths"] += 1
        self.trace.append(f"died {type(error).__name__}")

    def act(self, what: Callable[[Process], None]) -> None:
        """Do something in the process; if that ends it, another one goes on."""
        process = self.process
        try:
            what(process)
        except (Died, JournalError, RunError, OSError) as error:
            if process is self.process:  # else another session has taken over, and this one had to end
                self._died(error)
                self._open()

    def restart(self, step: int) -> None:
        """The process ends between two steps."""
        self.counts["restarts"] += 1
        self.wall = self.process.clock.now() + step
        self._open()

    # --- events

    def do(self, event: list[Any]) -> None:
        """Let one event happen."""
        what, *rest = event
        getattr(self, f"_{what}")(*rest)

    def _rows(self, stream: str, rows: list[list[Any]]) -> None:
        self.batches[stream].append(rows)
        self.kept[stream] = 0
        self.act(self.deliver)

    def _keep(self, stream: str, rows: list[list[Any]]) -> None:
        self.batches[stream].append(rows)
        self.kept[stream] += 1

    def deliver(self, process: Process) -> None:
        """All streams give what is not safe, as far as somebody reads them."""
        for stream in filter(process.reads, STREAMS):
            for number in range(self.safe[stream] + 1, len(self.batches[stream]) - self.kept[stream]):
                process.give(stream, number)
        process.executor.run_until_idle()

    def _again(self, stream: str) -> None:
        def again(process: Process) -> None:
            if self.safe[stream] >= 0 and process.reads(stream):
                process.give(stream, self.safe[stream])
                process.executor.run_until_idle()

        self.act(again)

    def _clock(self, by: int) -> None:
        def tick(process: Process) -> None:
            process.clock.advance(by)
            process.executor.run_until_idle()

        self.act(tick)

    def _start(self, which: int) -> None:
        kinds = LATE if self.schedule.late else PUNCTUAL
        self.names += 1
        query = Query(f"q{self.names}", kinds[which % len(kinds)], Rows(self), Rows(self))
        self.queries[query.name] = query
        self.act(lambda process: process.start(query))

    def _one_of(self, which: int, what: Callable[[Process, str], None]) -> None:
        """Do something with one of the running queries."""
        if names := sorted(self.process.running):
            self.act(lambda process: what(process, names[which % len(names)]))

    def _prod(self, which: int) -> None:
        def prod(process: Process, name: str) -> None:
            process.executor.prod(Prod(query=name))
            process.executor.run_until_idle()

        self._one_of(which, prod)

    def _stop(self, which: int) -> None:
        def stop(process: Process, name: str) -> None:
            resumable = process.executor.retire(name)
            if resumable is not None:
                process.ended(name, resumable)

        self._one_of(which, stop)

    def _remove(self, which: int) -> None:
        def remove(process: Process, name: str) -> None:
            process.executor.remove(name)
            process.ended(name, False)

        self._one_of(which, remove)

    def _change(self, which: int, form: int) -> None:
        """The program is changed; that shows when it starts again."""
        if self.queries:
            self.queries[sorted(self.queries)[which % len(self.queries)]].form = form
            self.restart(0)

    def _sink(self, which: int, how: str, often: int) -> None:
        if self.queries:
            query = self.queries[sorted(self.queries)[which % len(self.queries)]]
            query.sink.failures = [how] * often

    def _restart(self, step: int) -> None:
        self.restart(step)

    def _crash(self, points: int) -> None:
        self.fate.after(points, die)

    def _error(self, points: int) -> None:
        self.fate.after(points, refuse)

    def _between(self, runs: int) -> None:
        self.process.dies_after(runs)

    def _slow(self, by: int) -> None:
        self.slow = by
        self.fate.each = lambda: self.process.clock.advance(by)

    def _damage(self, seed: int) -> None:
        """The store loses or changes a file while nobody runs. The next process refuses it, or nothing is lost."""
        before = dict(self.store.files)
        self.wall = self.process.clock.now()
        self.fate.left = None
        self.store.damage(Random(seed))
        try:
            process = Process(self)
            if any(process.next_batch(s) <= self.safe[s] for s in STREAMS):
                raise JournalError("Spark goes on with a later batch")
        except JournalError:
            self.counts["refused"] += 1
            self.store.files = before
            self._open()
        except (RunError, OSError):
            self._open()

    def _takeover(self, points: int) -> None:
        """In the middle of a step of this process another session opens the journal, and works."""

        def another() -> None:
            self.counts["takeovers"] += 1
            self.wall = self.process.clock.now()
            self._open()
            self.act(self.deliver)

        self.fate.after(points, another)

    # --- the end

    def live(self) -> None:
        """All events, then an end without faults; each query has given what is its own."""
        for event in self.schedule.events:
            self.do(event)
            self.check(whole=False)
        self.fate.left, self.slow, self.fate.each = None, 0, lambda: None
        self.kept = dict.fromkeys(STREAMS, 0)
        for query in self.queries.values():
            query.sink.failures = []
        self.restart(0)
        self.deliver(self.process)
        self.process.executor.drain()
        self.check(whole=True)
        assert all(number == len(self.batches[s]) - 1 for s, number in self.safe.items() if self.process.reads(s))

    def check(self, whole: bool) -> None:
        """What has been given is right; in the end all of it is there."""
        assert not self.wrong, self.wrong[0]
        for query in (*self.queries.values(), *self.past):
            ended = query.last or {s: len(self.batches[s]) for s in STREAMS}
            came: Came = {"c": SAMPLE.clear()}
            for s in STREAMS:
                cut = self.batches[s][query.first.get(s, len(self.batches[s])) : ended[s]]
                came[s] = frame(row for batch in cut for row in batch)
            rows = [as_before(row) for row in query.sink.rows]
            if isinstance(query.kind, Counted):
                query.kind.check(rows, query.late.rows, came, whole and query.last is None)
            elif whole:
                check_all(query, rows, came)


class Process:
    """A process: its executor, and what it does for the user, as the API on Spark does it."""

    def __init__(self, world: World) -> None:
        self.world, schedule = world, world.schedule
        world.process = self
        self.clock = ManualClock(world.wall)
        self.running: set[str] = set()
        self.runs: set[str] = set()
        """All that were started here, those that are over too."""
        self.resumable: dict[str, Query] = {}
        self._left: int | None = None
        journal = FileJournal(StoreFiles(world.store, world.fate), "journal")  # type: ignore[arg-type]
        self.noted = JournalQueries(journal)
        self.executor = Executor(
            self.clock,
            journal,
            ArrowPages({"codes": CODES}),
            EngineSettings(STRATEGIES[schedule.strategy], heartbeat_scope=LEVELS[schedule.level]),
        )
        self.executor.keep_only(journal.queries.keys(), journal.shared)
        self.executor.on_failed = self._failed
        self.executor.between = self._between
        self.executor.held = True
        # What the journal knows comes back first: a program that ends before is no mistake.
        for query in sorted(world.queries.values(), key=lambda q: q.name not in journal.queries):
            if query.started and query.name not in journal.queries:
                self._is_over(query)  # it had failed for good when the process died
            else:
                self.start(query)
        missing = self.noted.missing(self.runs)
        for name in missing:  # those that were over when the process died
            self.noted.forget(name, self.runs)
            self.executor.forget(name, self.noted.shared)
        self._release()

    def dies_after(self, runs: int) -> None:
        """Die between two runs of operators."""
        self._left = runs

    def _between(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Died

    def reads(self, stream: str) -> bool:
        """Whether a query reads it."""
        return source_label(stream) in self.executor.graph

    def start(self, query: Query) -> None:
        """Start a query: one that the journal has goes on."""
        world, name = self.world, query.name
        plan = query.plan(world)
        if not query.started and name not in self._journaled():
            query.first = {s: self.next_batch(s) for s in STREAMS}
        over = [q for q in self.resumable.values() if streams_read(q, world) & streams_read(query, world)]
        parts, reserved = self.noted.parts(name, plan, "continue"), self.noted.reserved(name)
        late = query.late if isinstance(query.kind, Counted) else None
        settings = QuerySettings(late=late, labels=parts, reserved=reserved)
        self.running.add(name)
        self.runs.add(name)
        try:
            labels = add_query(self.executor, name, plan, query.sink, settings)
            noted = QueryNote(describe(plan), labels, None, kept_by(plan))
            try:
                self.noted.note(name, noted, self.runs, [q.name for q in over])
            except BaseException:
                self.executor.withdraw(name)
                raise
        except BaseException:
            self.running.discard(name)
            self.runs.discard(name)
            raise
        query.started = True
        for stopped in over:
            self._is_over(self.resumable.pop(stopped.name))
            self.executor.forget(stopped.name, self.noted.shared)
        if not self.noted.missing(self.runs):
            self._release()

    def _journaled(self) -> dict[str, str]:
        journal = self.noted._journal
        assert journal is not None
        return journal.queries

    def _release(self) -> None:
        if self.executor.held:
            self.executor.resume()
            self.executor.held = False

    def next_batch(self, stream: str) -> int:
        """The first one that the journal does not have."""
        last = self.executor.consumed(source_label(stream))
        return 0 if last is None else last + 1

    def give(self, stream: str, number: int) -> None:
        """Spark gives a batch: the last one taken again, or the one after it."""
        world, label = self.world, source_label(stream)
        last = self.executor.consumed(label)
        assert number <= (-1 if last is None else last) + 1, "the journal has lost a batch that was safe"
        page = arrow_page(frame(world.batches[stream][number]), number, self.clock.now(), "t")
        ticket = self.executor.admit(label, page)

        def acknowledge() -> None:
            if world.process is self:
                world.safe[stream] = max(world.safe[stream], number)

        if ticket.done:
            acknowledge()
        ticket.on_done = acknowledge

    def ended(self, name: str, resumable: bool) -> None:
        """A query has been stopped, or has failed."""
        self.running.discard(name)
        kept, query = self.noted.ended(name, resumable), self.world.queries.get(name)
        if self.world.process is not self or query is None:
            return  # whatever it thinks: another session has gone on
        if kept:
            self.resumable[name] = query
        else:
            self._is_over(query)

    def _is_over(self, query: Query) -> None:
        self.world.queries.pop(query.name, None)
        query.last = {s: len(self.world.batches[s]) for s in STREAMS}
        self.world.past.append(query)

    def _failed(self, name: str, error: Exception, resumable: bool) -> None:
        self.world.counts["failures"] += 1
        self.ended(name, resumable)


def simulate(schedule: Schedule) -> World:
    """Live through a schedule; raises what is wrong."""
    world = World(schedule)
    world.live()
    return world
