"""The thread of an executor: takes commands from other threads, works, and wakes when a timeout runs out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from slackwater.engine.executor import Executor
from slackwater.engine.records import History
from slackwater.errors import RunError
from slackwater.operators.page import Page

T = TypeVar("T")


class Loop:
    """Runs one executor in one thread; the first error stops it and is given to all who wait.

    Held, it takes commands but nothing runs: after a restart what waits at a shared source belongs to queries
    that have not been added again yet. Paused, it lets pages in, answers prods and stops queries, and nothing else
    runs.
    """

    def __init__(self, executor: Executor, held: bool = False) -> None:
        self.executor = executor
        self._urgent: deque[tuple[Callable[[], object], Future[object]]] = deque()
        executor.held = held
        self.error: BaseException | None = None
        self._commands: deque[tuple[Callable[[], object], Future[object]]] = deque()
        self._acknowledgements: set[Future[None]] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self.paused = False
        self._ended = threading.Event()
        self.history = History()
        """Figures for other threads."""
        executor.on_commit = self._publish
        executor.between = self._serve_urgent
        self.on_error: Callable[[BaseException], None] = lambda error: None
        """Called, by the loop's thread, with the error that has ended it."""
        self._thread = threading.Thread(target=self._work, name="slackwater-executor", daemon=True)
        self._thread.start()

    def call(self, command: Callable[[], T]) -> T:
        """Have the executor's thread do something, and wait for it."""
        return self.post(command).result()  # type: ignore[return-value]

    def interrupt(self, command: Callable[[], T]) -> T:
        """Run a command between two runs of operators, not behind a backlog."""
        return self.post(command, urgent=True).result()  # type: ignore[return-value]

    def post(self, command: Callable[[], object], urgent: bool = False) -> Future[object]:
        """Have the executor's thread do something: after the backlog, or with `urgent` between two runs."""
        self.check_outside()
        future: Future[object] = Future()
        with self._changed:
            if self.error is not None:
                raise RunError(f"the session has failed: {self.error}") from self.error
            if self._stopping:
                raise RunError("the session has been stopped")
            (self._urgent if urgent else self._commands).append((command, future))
            self._changed.notify()
        return future

    def check_outside(self) -> None:
        """Refuse a caller for whom the loop's thread would wait for itself."""
        if self.inside:
            raise RunError(
                "this was called from a sink's function or a map, for whose end the session waits; to ask for "
                "early answers, give back sw.prod(…) from the sink's function"
            )

    def soon(self, command: Callable[[], object]) -> None:
        """Have something done between two runs, without waiting for it; also from inside a sink's function."""
        with self._changed:
            if not self._stopping:
                self._urgent.append((command, Future()))
                self._changed.notify()

    @property
    def works(self) -> bool:
        """Whether it has not been stopped."""
        return not self._stopping

    @property
    def inside(self) -> bool:
        """Whether the caller is the loop's own thread, as a sink's function is."""
        return threading.current_thread() is self._thread

    def admit(self, pages: Sequence[tuple[str, Page]]) -> None:
        """Let pages in that come to their sources at one instant, and wait until they are safe."""
        safe: list[Future[None]] = [Future() for _ in pages]

        def command() -> None:
            for (source, page), future in zip(pages, safe, strict=True):
                self._let_in(source, page, future)

        self.post(command, urgent=True).result()
        for future in safe:
            future.result()

    def offer(self, source: str, page: Page) -> Future[None]:
        """Let a page in when there is time for it; the future is done when it is safe."""
        safe: Future[None] = Future()
        asked = self.post(lambda: self._let_in(source, page, safe), urgent=True)
        asked.add_done_callback(lambda _: _pass_error(asked, safe))
        return safe

    def _let_in(self, source: str, page: Page, safe: Future[None]) -> None:
        ticket = self.executor.admit(source, page)
        if ticket.done:
            safe.set_result(None)
        else:
            self._acknowledgements.add(safe)
            ticket.on_done = lambda: self._acknowledge(safe)
            ticket.on_refused = lambda error: self._acknowledge(safe, error)

    def release(self) -> None:
        """All queries are there: work from now on."""
        self.post(lambda: setattr(self.executor, "held", False))

    def set_paused(self, paused: bool) -> None:
        """Stop all work after the run under way, or go on."""
        self.interrupt(lambda: setattr(self, "paused", paused))

    def pause(self, seconds: float) -> None:
        """Wait in another thread, not longer than there is something to wait for."""
        self._ended.wait(seconds)

    def stop(self) -> None:
        """End the thread after the run that it is at; what has been done is committed, what waits is not run."""
        with self._changed:
            self._stopping = self.executor.stopping = True
            self._changed.notify()
        if not self.inside:
            self._thread.join()

    def _acknowledge(self, safe: Future[None], error: BaseException | None = None) -> None:
        self._acknowledgements.discard(safe)
        if error is None:
            safe.set_result(None)
        else:
            safe.set_exception(error)

    def _publish(self) -> None:
        """Publish the figures for other threads."""
        self.history.publish(self.executor.snapshot())

    def _serve_urgent(self) -> None:
        while self._urgent:
            self._serve(*self._urgent.popleft())
        if self.paused:
            self._stand()

    def _stand(self) -> None:
        """Commit what has been done, then serve urgent commands alone until work may go on."""
        if not self.executor.held:
            self.executor.commit()
        while self.paused and not self._stopping:
            with self._changed:
                if not self._urgent and not self._stopping:
                    self._changed.wait()
            while self._urgent:
                self._serve(*self._urgent.popleft())

    def _serve(self, command: Callable[[], object], future: Future[object]) -> None:
        try:
            value = command()
        except Exception as error:
            future.set_exception(error)
        else:
            try:
                self._publish()
            finally:  # who asked must not wait for ever
                future.set_result(value)

    def _work(self) -> None:
        try:
            while self._wait():
                self._serve_urgent()
                # A query that is added must not meet pages that were read without its columns.
                self.executor.run_until_idle()
                while self._commands:
                    self._serve(*self._commands.popleft())
                self.executor.run_until_idle()
            self.executor.run_until_idle()  # it runs nothing any more, but commits
        except BaseException as error:
            self._fail(error)
        else:
            self._fail(RunError("the session has been stopped"))

    def _wait(self) -> bool:
        with self._changed:
            if not self._commands and not self._urgent and not self._stopping:
                self._changed.wait(None if self.executor.held else self.executor.seconds_to_sleep())
            return not self._stopping

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if not isinstance(error, RunError) or not self._stopping:
                self.error = error
            self._stopping = True
            waiting = [future for _, future in (*self._urgent, *self._commands)]
            self._urgent.clear()
            self._commands.clear()
        everyone: list[Future[object] | Future[None]] = [*waiting, *self._acknowledgements]
        for future in everyone:
            if not future.done():
                future.set_exception(error)
        self._ended.set()
        if self.error is not None:
            self.on_error(self.error)


def _pass_error(asked: Future[object], waiting: Future[None]) -> None:
    error = asked.exception()
    if error is not None and not waiting.done():
        waiting.set_exception(error)
