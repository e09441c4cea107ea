"""The queue on an arc: elements in order, each with the number of the admission it comes from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slackwater.operators.element import Element
from slackwater.operators.page import Page


@dataclass(slots=True)
class Entry:
    """An element that waits."""

    element: Element
    admission: int
    saved: dict[str, Any] | None = None
    """Where a page's rows are durable, once they are."""

    @property
    def holds_rows(self) -> bool:
        """Whether it is a page whose rows would be lost in a crash."""
        return isinstance(self.element, Page) and self.saved is None


class Queue:
    """First in, first out."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self.taken = 0
        """Admission of the element taken last: what follows from it belongs there too."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def push(self, entry: Entry) -> None:
        """Append an element."""
        self._entries.append(entry)

    def peek(self) -> Element:
        """The element that waits longest."""
        return self._entries[0].element

    def pop(self) -> Element:
        """Take that element."""
        entry = self._entries.popleft()
        self.taken = entry.admission
        return entry.element

    @property
    def oldest(self) -> int:
        """Admission of the element that waits longest."""
        return self._entries[0].admission

    @property
    def rows(self) -> int:
        """Rows that wait, as far as they are known."""
        return sum(e.element.rows or 0 for e in self._entries if isinstance(e.element, Page))
