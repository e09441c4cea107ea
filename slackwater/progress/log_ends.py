"""The ends of a log that keeps its rows, such as a topic of Kafka: which partitions have been read to their end.

We ask the log after a page was read. If a partition has been read to its end, its later rows are written after
this question. So they are written after every row that has been read up to this page.
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
    """The number of the last page that had been read at the time of the question."""
    read: frozenset[str]
    """The partitions that had been read to their end."""
    unread: frozenset[str]
    """The partitions that had more rows."""

    @property
    def all_read(self) -> bool:
        """Whether the log had no more rows at all."""
        return not self.unread


class Log(Protocol):
    """A log that can be asked for its ends. The answer comes later, from another thread."""

    def ask(self, page: int) -> None:
        """Ask for the ends, after the pages up to this number were read. A second call for a page does nothing."""


#: Pages whose times we remember. A log answers within milliseconds; an answer about an older page is of no use.
_REMEMBERED = 64


class ReadLog:
    """What a source knows of the log that it reads: how far it has read, and whether the log is empty.

    >>> log = ReadLog(); log.learn(1, 70); log.learn(2, 90)
    >>> log.answer(LogEnds(1, frozenset(), frozenset()))
    70
    """

    def __init__(self) -> None:
        self.last: int | None = None
        """The times of all pages up to this one are known."""
        self.empty = False
        """Whether the log has no unread rows, and no row so far had a time. Then other streams need not wait."""
        self._highest: deque[tuple[int, int | None]] = deque(maxlen=_REMEMBERED)
        """Pairs of a page and the largest time of all pages up to it."""

    def learn(self, page: int | None, highest: int | None) -> None:
        """Note the largest time of all pages up to this one; None: no page has been read yet."""
        self.last = page
        if page is not None:
            self._highest.append((page, highest))

    def ask(self, log: Log | None) -> None:
        """Ask for its ends, if there is a log and something to ask about."""
        if log is not None and self.last is not None:
            log.ask(self.last)

    def answer(self, ends: LogEnds) -> int | None:
        """Take the answer. Return the largest time of all rows that had been read at the time of the question."""
        highest = next((highest for page, highest in self._highest if page == ends.page), None)
        self.empty = ends.all_read and ends.page == self.last and highest is None
        return highest
