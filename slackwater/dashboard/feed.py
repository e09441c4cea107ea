"""The feed of server-sent events: one look at the figures for all who watch, at most ten times a second.

Nothing is kept for a reader that is slow: it gets what has changed by the time it reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor

from slackwater.dashboard.board import Board
from slackwater.engine.records import History

_log = logging.getLogger(__name__)
#: Seconds between two looks.
EVERY = 0.1
#: Seconds after which there is a look in any case: the lag grows with the clock.
_AT_LEAST = 1.0
#: Share of a core for looking and sending. If a look takes long, the next one comes later.
_SHARE = 0.045
#: Seconds over which that share is a mean.
_EVENED = 4.0
#: Seconds after which a line is sent in any case, so that readers do not take the connection for lost.
_ALIVE = 10.0
#: How many may watch at once.
MOST_READERS = 32


class Feed:
    """Looks as long as somebody watches."""

    def __init__(self, board: Board, history: History, pool: Executor) -> None:
        self._board = board
        self._history = history
        self._pool = pool
        self._sections: dict[str, tuple[int, bytes, bytes]] = {}
        """For each section the version in which it changed, its text, and the event that sends it."""
        self._version = 0
        self._latest = b""
        """The events of the last version: most readers have all before it, and get the same bytes."""
        self._sent = 0.0
        """When something was last sent to the readers."""
        self._news = asyncio.Event()
        """Set when there is something to send, and then replaced: so each reader waits for the next one."""
        self._wanted = asyncio.Event()
        self._published = asyncio.Event()
        self._waits = False
        """Whether the history will call when the next snapshot is there."""
        self.readers = 0
        self.looks = 0
        self.ending = False

    async def look(self, whole: bool = True) -> tuple[dict[str, bytes], float]:
        """The sections now, and the processor's seconds that they took."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._look, whole)

    def _look(self, whole: bool) -> tuple[dict[str, bytes], float]:
        began = time.thread_time()
        return self._board.sections(whole), time.thread_time() - began

    async def run(self) -> None:
        """Look again and again, until it is cancelled."""
        due, paid, worked = 0.0, 0.0, time.thread_time()
        while True:
            await self._wanted.wait()
            if self.readers == 0:
                self._wanted.clear()
                continue
            snapshot, looked = self._history.latest, time.monotonic()
            spent = await self._look_once()
            # What this thread has worked is mostly the sending to readers.
            spent += time.thread_time() - worked
            worked = time.thread_time()
            if looked - self._sent >= _ALIVE:
                self._tell(looked)
            # A look that came late does not put off the next one: else there would be fewer than are published.
            due = max(due, looked - EVERY) + EVERY
            paid = max(paid, looked - _EVENED) + spent / _SHARE
            await asyncio.sleep(max(due, paid) - time.monotonic())
            if self._history.latest is snapshot and self._sections:
                await self._next_snapshot(snapshot, looked + _AT_LEAST - time.monotonic())

    async def _next_snapshot(self, snapshot: object, seconds: float) -> None:
        """Wait until something has been published, but not for longer."""
        self._published.clear()
        if not self._waits:
            self._waits, loop = True, asyncio.get_running_loop()
            self._history.tell_next(lambda: _call(loop, self._tell_published))
        if self._history.latest is snapshot:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._published.wait()

    def _tell_published(self) -> None:
        self._waits = False
        self._published.set()

    async def _look_once(self) -> float:
        """Look and publish. A look that fails is logged, and the next one comes as usual."""
        before = self._sections
        try:
            # A reader's first events are whole; what comes later than the figures does so within a second.
            sections, spent = await self.look(whole=not before)
            if self._sections is before:  # else all have left, and a new reader would see what is old
                self._publish(sections)
        except Exception:
            _log.exception("the live page could not read the figures")
            return _SHARE
        return spent

    def _publish(self, sections: dict[str, bytes]) -> None:
        self.looks += 1
        changed = {
            n: text for n, text in sections.items() if n not in self._sections or self._sections[n][1] != text
        }
        if not changed:
            return
        self._version += 1
        fresh = {n: (self._version, text, _event(n, text)) for n, text in changed.items()}
        same = {n: self._sections[n] for n in sections if n in self._sections and n not in changed}
        self._sections = same | fresh
        self._latest = b"".join(event for _, _, event in fresh.values())
        self._tell(time.monotonic())

    def _tell(self, now: float) -> None:
        """Wake all readers that wait."""
        self._sent = now
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self) -> AsyncIterator[bytes]:
        """Events for one reader: at first all sections, then what changes."""
        self.readers += 1
        self._wanted.set()
        try:
            yield b"retry: 1000\n\n"
            had = 0
            while not self.ending:
                events, had = self._since(had), self._version
                if events:
                    yield events
                    continue
                await self._news.wait()
                if self._version == had and not self.ending:
                    yield b": alive\n\n"
        finally:
            self.readers -= 1
            if self.readers == 0:
                self._sections = {}  # nobody looks on, so the next reader would see what is old

    def _since(self, version: int) -> bytes:
        """The events of what has changed since a version."""
        if not self._sections or version == self._version:
            return b""
        if version == self._version - 1 and version > 0:
            return self._latest
        return b"".join(event for changed, _, event in self._sections.values() if changed > version)

    def end(self) -> None:
        """Let all readers go."""
        self.ending = True
        self._tell(time.monotonic())


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Have it called by the loop's thread; a page that has been closed needs no news."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


def _event(section: str, text: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (section.partition("/")[0].encode(), text)
