"""What an early answer says: the value of what has arrived (S5), and later our estimate of the final one."""

from __future__ import annotations

from typing import Any

import polars as pl

from slackwater.progress.sources import Ints
from slackwater.windows.early import Early
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMPLETENESS, high, low, seen


class Estimates:
    """Learns from past windows what is still missing at a given age, and how far estimates were off."""

    def __init__(self, kernel: PaneKernel, settings: Early) -> None:
        self._kernel = kernel
        self._settings = settings

    def page(self, now: int, lasts: Ints, pairs: Ints) -> None:
        """A page has been folded at this instant: its rows by window, each window given by its last tick."""

    def early(self, merged: pl.DataFrame, values: pl.DataFrame, now: int) -> pl.DataFrame:
        """Values of merged partials (WINDOW, groups, aggregates) with estimates, intervals and completeness."""
        made = []
        for a in self._kernel.aggregates:
            made += [pl.col(a.name).alias(seen(a.name))]
            made += [pl.lit(None, pl.Float64).alias(low(a.name)), pl.lit(None, pl.Float64).alias(high(a.name))]
        return values.with_columns(*made, pl.lit(None, pl.Float64).alias(COMPLETENESS))

    def final(self, merged: pl.DataFrame, values: pl.DataFrame, now: int) -> None:
        """The same windows are final now."""

    def state(self) -> dict[str, Any]:
        """All that a restart needs, as JSON values or arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""

    def metrics(self) -> dict[str, Any]:
        """Accuracy of early answers."""
        return {}
