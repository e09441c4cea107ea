"""A punctuation as its sender wrote it (S5 section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """No later row has a time in (since, until] and these values."""

    until: int
    since: int | None = None
    """None: from the beginning of all time."""
    values: tuple[str | None, ...] = ()
    """By attribute, as text; None stands for `*`, any value."""
