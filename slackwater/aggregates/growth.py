"""How the value of an aggregate changes as rows come: what an early answer can say of the final one."""

from __future__ import annotations

from enum import Enum


class Growth(Enum):
    """How a value changes as rows come."""

    COUNTS = "counts"
    """Counts: a row adds one or nothing."""
    ADDS = "adds"
    """Sums: a row adds its value."""
    SETTLES = "settles"
    """Averages, deviations, quantiles: it comes to rest."""
    RISES = "rises"
    FALLS = "falls"
    SPREADS = "spreads"
    """Distinct values."""
    JUMPS = "jumps"
    """First and last values."""
