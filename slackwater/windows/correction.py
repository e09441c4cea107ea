"""For how long late rows correct final answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Correction:
    """What a user has asked for, in windows."""

    windows: int
    """How many windows of a group are corrected: the latest that are closed."""
    text: str
    """The length of time as people read it."""
    filtered: bool
    """Whether HAVING may leave answers out."""

    def describe(self) -> str:
        """In words."""
        return f"corrections for {self.text}"
