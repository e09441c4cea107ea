"""Ctrl-C while a program waits: what is under way is finished and committed, and the message says how to go on.

PySpark's own handler would cancel the Spark job of a page, and end its query with an error. And an exception in the
middle of a call to Java breaks the connection. So the handler here only notes the wish; those who wait look at it
between two pages.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType

#: How often those who wait look whether the user has waited enough.
_LOOK_SECONDS = 0.1


class Interrupts:
    """Whether the user wants a wait to end. `standing` says whether nothing can be finished, because of a pause."""

    def __init__(self, standing: Callable[[], bool], journal: str | None) -> None:
        self._standing = standing
        self._journal = journal
        self._wished = threading.Event()

    @property
    def wished(self) -> bool:
        """Whether to end now."""
        return self._wished.is_set()

    def wait(self, seconds: float, pause: Callable[[float], None]) -> None:
        """Wait as `pause` does, but not on after Ctrl-C."""
        while seconds > 0 and not self.wished:
            pause(min(seconds, _LOOK_SECONDS))
            seconds -= _LOOK_SECONDS

    def await_end(self, work: Future[object]) -> None:
        """Wait for the executor's thread, but not on after Ctrl-C: it goes on by itself."""
        while not self.wished:
            try:
                work.result(_LOOK_SECONDS)
            except TimeoutError:
                if not work.done():
                    continue
                raise
            return

    @contextmanager
    def heard(self, then: str) -> Iterator[None]:
        """Inside, Ctrl-C is noted; the end is a KeyboardInterrupt that says what is done and how to go on.

        A second Ctrl-C is raised at once. In other threads than the main one there are no signals to hear.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._wished.clear()
        before = signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        if self.wished:
            self._wished.clear()
            raise KeyboardInterrupt(self._told(then))

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wished or self._standing():
            raise KeyboardInterrupt("interrupted; what was done before is committed")
        self._wished.set()

    def _told(self, then: str) -> str:
        if self._journal is None:
            later = "to go on after the end of the program, it needs a journal: sw.Session(journal='a-folder')"
        else:
            later = f"or start the program again: the journal {self._journal!r} has all that was done"
        return f"interrupted: {then}; {later}"
