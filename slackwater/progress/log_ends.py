"""The ends of a log that keeps its rows, such as a topic of Kafka: how far each partition has been read.

Whoever asks a log after a page was read learns which partitions have been read to their end. All rows that such a
partition still gets are written after that, and so after every row that has been read up to that page.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LogEnds:
    """The answer of a log.

    >>> LogEnds(3, frozenset({"0"}), frozenset()).all_read
    True
    """

    page: int
    """The number of the last page that had been read when the log was asked."""
    read: frozenset[str]
    """The partitions that had been read to their end."""
    unread: frozenset[str]
    """Those that had more rows."""

    @property
    def all_read(self) -> bool:
        """Whether the log had no more rows at all."""
        return not self.unread


class Log(Protocol):
    """What can be asked for its ends. The answer comes later, from another thread."""

    def ask(self, page: int) -> None:
        """The pages up to this number have been read: how far is that? Asking again for a page does nothing."""


#: An answer is about one of this many last pages, or too old to be of use: a log answers within milliseconds.
_REMEMBERED = 64


class ReadLog:
    """What a source knows of the log that it reads: how far it has read, and whether nothing was ever written.

    >>> log = ReadLog(); log.learn(1, 70); log.learn(2, 90)
    >>> log.answer(LogEnds(1, frozenset(), frozenset()))
    70
    """

    def __init__(self) -> None:
        self.last: int | None = None
        """The last page of which, and of all before it, the times are known."""
        self.empty = False
        """Whether the log had no more rows and none of those before had a time: others need not wait for it."""
        self._highest: deque[tuple[int, int | None]] = deque(maxlen=_REMEMBERED)
        """The largest time of all pages up to a number."""

    def learn(self, page: int | None, highest: int | None) -> None:
        """The times of all pages up to this one are known now; None: of no page yet."""
        self.last = page
        if page is not None:
            self._highest.append((page, highest))

    def ask(self, log: Log | None) -> None:
        """Ask for its ends, if there is a log and something to ask about."""
        if log is not None and self.last is not None:
            log.ask(self.last)

    def answer(self, ends: LogEnds) -> int | None:
        """Take the answer; gives the largest time of all rows that had been read when the log was asked."""
        highest = next((highest for page, highest in self._highest if page == ends.page), None)
        self.empty = ends.all_read and ends.page == self.last and highest is None
        return highest
