"""The contract of a scheduling strategy: it sees what waits and names the operator to run; it does no work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ready:
    """An operator that could run now."""

    label: str
    oldest: int
    """Admission number of the page that its oldest waiting element comes from."""
    depth: int
    """Arcs between it and the source."""
    waiting: int
    """Elements on its inputs."""


class Strategy(Protocol):
    """Picks one of the ready operators."""

    def pick(self, ready: Sequence[Ready]) -> Ready:
        """The operator to run next; `ready` is never empty."""
        ...
