"""A connection to the live page: one that is silent, or does not read, takes no place from the others."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Most connections. For each further one, the connection that has been idle for longest is closed.
MOST_CONNECTIONS = 256
#: Seconds in which the head of a request must have come.
HEAD_SECONDS = 10.0
#: Seconds after which a reader that takes nothing is closed. A browser's tab reads in the background, too.
READ_SECONDS = 60.0


class Connection(H11Protocol):
    """Closes itself when it is of no use, and makes room for others when it is idle."""

    _idle_since: float = 0.0
    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, but not for ever."""
        super().connection_made(transport)
        self._await_head()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """A part of a request has come."""
        super().data_received(data)
        if self.idle:
            self._await_head()
        else:
            self._forget_head()

    def on_response_complete(self) -> None:
        """The next request may come, as long as the connection is kept alive."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The other side does not read."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self._forget_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._forget_head()
        self._forget_unread()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head is None:
            self._idle_since = self.loop.time()
            self._head = self.loop.call_later(HEAD_SECONDS, self.give_way)

    def give_way(self) -> None:
        """Close it, if no request is being answered."""
        self._forget_head()
        if self.idle and not self.transport.is_closing():
            self.transport.close()

    def _make_room(self) -> None:
        if len(self.connections) < MOST_CONNECTIONS:
            return
        others: list[Any] = [c for c in self.connections if c is not self]
        idle = [c for c in others if c.idle and not c.transport.is_closing()]
        if idle:
            min(idle, key=lambda connection: connection._idle_since).give_way()

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
