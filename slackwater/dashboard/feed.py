"""The feed of server-sent events: one look at the figures for all who watch, at most ten times a second.

Nothing is kept for a reader that is slow: it gets what has changed by the time it reads again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor

from slackwater.dashboard.board import Board

_log = logging.getLogger(__name__)
#: Seconds between two looks.
EVERY = 0.1
#: Seconds after which it sees whether something has been published since.
_POLL = 0.01
#: At least so often there is one, though nothing was published: the lag grows with the clock.
_AT_LEAST = 1.0
#: Looks and what is sent of them may take this share of a core; if it takes long, the next one comes later.
_SHARE = 0.04
#: So often something is sent, or the reader would take the connection for lost.
_ALIVE = 10.0
#: So many may watch at once.
MOST_READERS = 32


class Feed:
    """Looks as long as somebody watches."""

    def __init__(self, board: Board, latest: Callable[[], object], pool: Executor) -> None:
        self._board = board
        self._latest = latest
        self._pool = pool
        self._sections: dict[str, tuple[int, str, bytes]] = {}
        """By name: in which version it has changed, its text, and the event that tells it."""
        self._version = 0
        self._news = asyncio.Condition()
        self._wanted = asyncio.Event()
        self.readers = 0
        self.looks = 0
        self.ending = False

    async def look(self) -> tuple[dict[str, str], float]:
        """The sections now, and the processor's seconds that they took."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._look)

    def _look(self) -> tuple[dict[str, str], float]:
        began = time.thread_time()
        return self._board.sections(), time.thread_time() - began

    async def run(self) -> None:
        """Look again and again, until the end."""
        seen, looked, due, worked = None, 0.0, 0.0, time.thread_time()
        while not self.ending:
            await self._wanted.wait()
            if self.readers == 0:
                self._wanted.clear()
                continue
            latest, now = self._latest(), time.monotonic()
            if now >= due and (latest is not seen or now - looked >= _AT_LEAST or not self._sections):
                seen, looked = latest, now
                spent = await self._look_once()
                # What this thread has worked is mostly the sending to readers.
                spent += time.thread_time() - worked
                worked = time.thread_time()
                # A look that came late does not put off the next one: else there would be fewer than are published.
                due = max(due, now - EVERY) + max(EVERY, spent / _SHARE)
            await asyncio.sleep(min(EVERY, max(_POLL, due - time.monotonic())))

    async def _look_once(self) -> float:
        """Look and publish; a look that fails is told, and the next one comes all the same."""
        try:
            sections, spent = await self.look()
            await self._publish(sections)
        except Exception:
            _log.exception("the live page could not read the figures")
            return _SHARE
        return spent

    async def _publish(self, sections: dict[str, str]) -> None:
        self.looks += 1
        changed = {
            n: text for n, text in sections.items() if n not in self._sections or self._sections[n][1] != text
        }
        if not changed:
            return
        async with self._news:
            self._version += 1
            self._sections = {
                n: self._sections[n] for n in sections if n in self._sections and n not in changed
            } | {n: (self._version, text, _event(n, text)) for n, text in changed.items()}
            self._news.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """Events for one reader: at first all sections, then what changes."""
        self.readers += 1
        self._wanted.set()
        try:
            yield b"retry: 1000\n\n"
            had = 0
            while not self.ending:
                news = [told for version, _, told in self._sections.values() if version > had]
                had = self._version
                if news:
                    yield b"".join(news)
                elif not await self._changed(had):
                    yield b": alive\n\n"
        finally:
            self.readers -= 1
            if self.readers == 0:
                self._sections = {}  # nobody looks on, so the next reader would see what is old

    async def _changed(self, had: int) -> bool:
        try:
            async with asyncio.timeout(_ALIVE), self._news:
                await self._news.wait_for(lambda: self._version > had or self.ending)
        except TimeoutError:
            return False
        return True

    async def end(self) -> None:
        """Let all readers go."""
        self.ending = True
        self._wanted.set()
        async with self._news:
            self._news.notify_all()


def _event(section: str, text: str) -> bytes:
    return f"event: {section.partition('/')[0]}\ndata: {text}\n\n".encode()
