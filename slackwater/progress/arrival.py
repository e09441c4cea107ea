"""What a page tells about time: made by the job that does the page's work, before any filter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """Arrival statistics of one page."""

    rows: int
    """All rows of the page."""
    missing: int
    """Rows whose time is null or could not be read."""
    lowest: int | None
    """Smallest timestamp; None when no row has one."""
    highest: int | None
    """Largest timestamp; None when no row has one."""
    at: int
    """Wall-clock instant of arrival."""
