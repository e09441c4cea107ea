"""The settings of a window aggregate."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming


@dataclass(frozen=True)
class WindowSettings:
    """What a query asks of a window aggregate, and where the aggregate is in the plan."""

    resident_limit: int = 256 * 2**20
    """Bytes of partials that the driver keeps at most."""
    route_late: bool = False
    """Whether somebody takes late rows."""
    early: Early | None = None
    timing: ProdTiming | None = None
    inner: bool = False
    """Whether its results are rows of another aggregate."""
    asks_all: bool = False
    """Whether that one needs all open windows for a prod, also those that end later than it asks for."""


NO_SETTINGS = WindowSettings()
