"""For how long late rows correct final answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Correction:
    """For how long final answers are corrected, as a number of windows."""

    windows: int
    """This number of latest closed windows are corrected."""
    text: str
    """The length that the user wrote, as text."""
    filters: tuple[str, ...] = ()
    """HAVING and other filters over the results, as text: they may drop answers."""

    def describe(self) -> str:
        """In words."""
        return f"corrections for {self.text}"
