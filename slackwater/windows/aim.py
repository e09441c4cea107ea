"""Where in its last slide a window is prodded; moves by feedback to hold an accuracy (S5 section 4.4)."""

from __future__ import annotations

from typing import Any


class Aim:
    """How far into a window's last slide it is prodded, in ticks; None if prods do not go by windows."""

    def __init__(self, offset: int | None, slide: int, accuracy: float | None = None) -> None:
        self.offset = offset
        self._slide = slide
        self._target = accuracy

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {"offset": self.offset}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self.offset = state["offset"]

    def metrics(self) -> dict[str, Any]:
        """Figures for a person."""
        return {} if self.offset is None else {"prodded_at": self.offset / self._slide}
