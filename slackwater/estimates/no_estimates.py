"""Early answers over results and joins: S5's values, without an estimate of what is still to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.estimates.estimates import Estimates
from slackwater.progress.arrival import Arrival
from slackwater.progress.source_numbers import Ints
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMPLETENESS, high, low, seen


class NoEstimates(Estimates):
    """Early answers without estimates. Early results of the lower aggregate say nothing of their final values."""

    def __init__(self, kernel: PaneKernel) -> None:
        self._kernel = kernel
        self.measured = []

    def page(self, now: int, last_ticks: Ints, pairs: Ints, arrival: Arrival | None = None) -> None:
        """Learn nothing."""

    def early(self, values: pl.DataFrame, now: int, timed: bool = False) -> pl.DataFrame:
        """The values of what has arrived."""
        made = [pl.lit(None, pl.Float64).alias(COMPLETENESS)]
        for a in self._kernel.aggregates:
            made += [pl.col(a.name).alias(seen(a.name))]
            made += [pl.lit(None, pl.Float64).alias(n) for n in (low(a.name), high(a.name))]
        return values.with_columns(made)

    def final(self, values: pl.DataFrame, now: int, ended: bool = False) -> None:
        """Learn nothing."""

    def closed(self, closed: Closed) -> None:
        """Learn nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def table(self, whole: bool) -> pa.Table | None:
        """Nothing."""
        return None

    def settle(self) -> None:
        """Nothing."""

    def restore(self, state: dict[str, Any], tables: Sequence[pa.Table] = ()) -> None:
        """Nothing."""

    def metrics(self) -> dict[str, Any]:
        """Nothing."""
        return {}
