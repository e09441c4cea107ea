"""What operators that keep rows for a while ask of the store that keeps them. Contracts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from slackwater.operators.operator import State
from slackwater.operators.page import Page


class KeptRows(Protocol):
    """Rows that a journal knows of."""

    def state(self, whole: bool) -> State:
        """Changes since this was last asked, or all."""

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""

    def settle(self) -> None:
        """The journal has all that `state` gave; what went may be deleted."""

    @property
    def size(self) -> dict[str, int]:
        """Figures for a person."""


class MadeRows(KeptRows, Protocol):
    """Rows that others are made of: pairs."""

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows of a page; gives how many have a time at or below `after`: these may have lost partners."""

    def trial(self) -> AbstractContextManager[None]:
        """Rows that are added within it are forgotten at its end; pages that were made of them stay good."""

    def counted(self) -> int:
        """Rows of pages that were lazy when they were given, and have been counted since this was last asked."""


class WaitingRows(KeptRows, Protocol):
    """Rows that wait until time has passed them."""

    @property
    def waiting(self) -> int:
        """Rows above the last heartbeat that some were released by; of a file that has some, all."""
        ...

    def next_time(self, after: int) -> int | None:
        """The time of the next row above this one, or one that is not much later."""
