"""Rows with a time, an arrival and perhaps a source, and what a back-test asks of them.

Polars reduces the rows of a frame, here; Spark those of a Spark DataFrame (`slackwater/spark/api/back_test.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from slackwater.columns import BEFORE, PANE, ROWS, SOURCE, TIME
from slackwater.progress.arrival import sketch_of
from slackwater.windows.spec import WindowSpec

#: When a row arrived, and in which page.
ARRIVAL, PAGE = "__arrival", "__page"
#: Of the rows of a page, source and pane: the smallest and largest time, and the sum of times since the pane began.
LOW, HIGH, SINCE_PANE = "__low", "__high", "__since_pane"
SKETCH = "__sketch"
#: Lateness in steps of this part of a doubling, from a microsecond on.
STEP, LATENESS = 0.5, "__lateness"
#: Shares of rows at which the delay, arrival less time, is measured; and the columns that hold it.
SHARES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
DELAYS = tuple(f"q{share}" for share in SHARES)
FIRST, LAST, LEAST, MOST = "__first", "__last", "__least", "__most"
#: Rows whose time is ahead of their arrival.
AHEAD = "__ahead"


@dataclass(frozen=True)
class Extent:
    """How many rows there are, and when they arrived."""

    rows: int
    timed: int
    """Rows that have a time and an arrival."""
    first: int
    last: int


class TuneRows(Protocol):
    """What a back-test asks of rows; times and arrivals in microseconds."""

    def extent(self) -> Extent:
        """Over what they extend; a QueryError where no row can be used."""

    def cells(self, page: int, spec: WindowSpec) -> pl.DataFrame:
        """PAGE, SOURCE where rows have one, PANE, ROWS, LOW, HIGH, SINCE_PANE; rows without a time have no PANE.

        Rows without an arrival have no PAGE, and count as rows without a time.
        """

    def sketches(self, page: int) -> pl.DataFrame:
        """PAGE and SKETCH: of the times of each page."""

    def delays(self, by_source: bool) -> pl.DataFrame:
        """ROWS, DELAYS, LEAST, MOST, AHEAD and FIRST, LAST arrival, of all rows that have a time or by SOURCE."""

    def lateness(self, page: int, before: pl.DataFrame) -> pl.DataFrame:
        """LATENESS and ROWS: how much older rows are than the largest time before their page (PAGE, BEFORE).

        LATENESS is the number of STEPs; null for rows that are not late.
        """

    def row_by_row(self, delay: int, ahead: int | None, spec: WindowSpec) -> tuple[float, float] | None:
        """What a watermark this far behind the largest time loses where each row moves it: two shares of pairs.

        The first counts pairs whose window has ended, the second all pairs of rows behind the watermark. Rows more
        than `ahead` ahead of their arrival are left out. None where rows are not in one place.
        """


@dataclass(frozen=True)
class FrameRows:
    """Rows of a lazy polars frame with the columns TIME, ARRIVAL and perhaps SOURCE."""

    frame: pl.LazyFrame
    has_source: bool

    @property
    def _timed(self) -> pl.LazyFrame:
        return self.frame.filter(pl.col(TIME).is_not_null() & pl.col(ARRIVAL).is_not_null())

    def extent(self) -> Extent:
        known = pl.col(TIME).is_not_null() & pl.col(ARRIVAL).is_not_null()
        rows, timed, first, last = (
            self.frame.select(
                pl.len(),
                known.sum().alias("timed"),
                pl.col(ARRIVAL).min().alias(FIRST),
                pl.col(ARRIVAL).max().alias(LAST),
            )
            .collect()
            .row(0)
        )
        return Extent(rows, timed, first or 0, last or 0)

    def cells(self, page: int, spec: WindowSpec) -> pl.DataFrame:
        time = pl.when(pl.col(ARRIVAL).is_not_null()).then(pl.col(TIME))
        keys = [pl.col(ARRIVAL).floordiv(page).alias(PAGE), *([pl.col(SOURCE)] if self.has_source else [])]
        pane = (time - spec.offset).floordiv(spec.pane).alias(PANE)
        rest = (time - spec.offset) - (time - spec.offset).floordiv(spec.pane) * spec.pane
        made = self.frame.group_by(*keys, pane).agg(
            pl.len().cast(pl.Int64).alias(ROWS),
            time.min().alias(LOW),
            time.max().alias(HIGH),
            rest.sum().alias(SINCE_PANE),
        )
        return made.collect()

    def sketches(self, page: int) -> pl.DataFrame:
        rows = self._timed.select(pl.col(ARRIVAL).floordiv(page).alias(PAGE), TIME).collect().sort(PAGE)
        numbers, times = rows[PAGE].to_numpy(), rows[TIME].to_numpy()
        pages, begins = np.unique(numbers, return_index=True)
        ends = [*begins[1:], len(times)]
        made = [sketch_of(times[first:end]) for first, end in zip(begins, ends, strict=False)]
        return pl.DataFrame({PAGE: pages, SKETCH: made}, schema={PAGE: pl.Int64, SKETCH: pl.Binary})

    def row_by_row(self, delay: int, ahead: int | None, spec: WindowSpec) -> tuple[float, float] | None:
        rows = self._timed.select(ARRIVAL, TIME)
        if ahead is not None:
            rows = rows.filter(pl.col(TIME) - pl.col(ARRIVAL) <= ahead)
        rows = rows.sort(ARRIVAL, maintain_order=True)
        both = rows.select(TIME, mark=pl.col(TIME).cum_max().shift(1).fill_null(pl.col(TIME)) - delay).collect()
        times, mark = both[TIME].to_numpy(), both["mark"].to_numpy()
        first, last = spec.windows_of((times - spec.offset) // spec.pane)
        pairs = last - first + 1
        ended = np.clip((mark - spec.first_end - spec.offset) // spec.slide - first + 1, 0, pairs)
        total = max(1, int(pairs.sum()))
        return float(ended.sum() / total), float(pairs[times < mark].sum() / total)

    def delays(self, by_source: bool) -> pl.DataFrame:
        delay = pl.col(ARRIVAL) - pl.col(TIME)
        asked = [
            pl.len().cast(pl.Int64).alias(ROWS),
            *(delay.quantile(s, "nearest").cast(pl.Int64).alias(n) for s, n in zip(SHARES, DELAYS, strict=True)),
            delay.min().alias(LEAST),
            delay.max().alias(MOST),
            (delay < 0).sum().cast(pl.Int64).alias(AHEAD),
            pl.col(ARRIVAL).min().alias(FIRST),
            pl.col(ARRIVAL).max().alias(LAST),
        ]
        return (self._timed.group_by(SOURCE).agg(asked) if by_source else self._timed.select(asked)).collect()

    def lateness(self, page: int, before: pl.DataFrame) -> pl.DataFrame:
        rows = self._timed.select(pl.col(ARRIVAL).floordiv(page).alias(PAGE), TIME)
        late = pl.col(BEFORE) - pl.col(TIME)
        steps = pl.when(late > 0).then((late.log(2) / STEP).floor().cast(pl.Int64)).alias(LATENESS)
        counted = rows.join(before.lazy(), on=PAGE, how="left").group_by(steps)
        return counted.agg(pl.len().cast(pl.Int64).alias(ROWS)).collect().sort(LATENESS)
