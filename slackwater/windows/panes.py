"""The ring of panes in the driver (S5 section 2.3): partials come in, windows are merges of their panes.

State is proportional to open panes x groups: pages are merged into it, closed panes leave it.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from slackwater.windows.kernel import PANE, WINDOW, PaneKernel

#: Appended partials are merged into the base once there are this many pieces, or more rows than the base has.
_MOST_PIECES = 64
_SMALL = 20_000


class PaneRing:
    """Resident partials of the open panes, as a merged base and the pieces that came since."""

    def __init__(self, kernel: PaneKernel) -> None:
        self._kernel = kernel
        self._base: pl.DataFrame | None = None
        self._pieces: list[pl.DataFrame] = []
        self._fresh: list[pl.DataFrame] = []
        self._low: int | None = None

    def add(self, partials: pl.DataFrame) -> None:
        """Take partials of a page; those of purged panes are passed over."""
        if self._low is not None:
            partials = partials.filter(pl.col(PANE) >= self._low)
        if partials.height == 0:
            return
        self._pieces.append(partials)
        self._fresh.append(partials)
        pending = sum(p.height for p in self._pieces)
        resident = 0 if self._base is None else self._base.height
        if len(self._pieces) >= _MOST_PIECES or pending > max(resident, _SMALL):
            self._compact()

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        bounds = [p.select(low=pl.col(PANE).min(), high=pl.col(PANE).max()).row(0) for p in self._parts()]
        if not bounds:
            return None
        return min(b[0] for b in bounds), max(b[1] for b in bounds)

    def windows(self, first: int, last: int) -> pl.DataFrame:
        """Merged partials of the windows first…last, by window and group; for a ring that is not empty."""
        spec = self._kernel.spec
        low, high = spec.panes(first)[0], spec.panes(last)[1]
        inside = [p.filter(pl.col(PANE).is_between(low, high, closed="left")) for p in self._parts()]
        panes = pl.concat(inside, how="vertical")
        keys = self._kernel.keys
        if first == last:
            single = panes.with_columns(pl.lit(first, pl.Int64).alias(WINDOW))
            return self._kernel.merge(single.group_by([WINDOW, *keys]))
        # Polars lays the windows over the sorted panes, and merges each without copying its partials.
        span, step = spec.panes_per_window, spec.panes_per_slide
        windows = panes.sort(PANE).group_by_dynamic(
            PANE,
            every=f"{step}i",
            period=f"{span}i",
            offset=f"{-(-(1 - span) // step) * step}i",
            closed="left",
            start_by="window",
            group_by=keys or None,
        )
        number = (pl.col(PANE) // step).alias(WINDOW)
        return self._kernel.merge(windows).filter(number.is_between(first, last)).select(number, pl.exclude(PANE))

    def purge(self, low: int) -> None:
        """Drop all panes below `low`; they count for no open window."""
        self._low = low if self._low is None else max(self._low, low)
        kept = []
        for piece in self._pieces:
            left = piece.filter(pl.col(PANE) >= low)
            if left.height:
                kept.append(left)
        self._pieces = kept
        if self._base is not None:
            self._base = self._base.filter(pl.col(PANE) >= low)
            if self._base.height == 0:
                self._base = None

    @property
    def bytes(self) -> int:
        """Size of the state."""
        return int(sum(p.estimated_size() for p in self._parts()))

    @property
    def rows(self) -> int:
        """How many (pane, group) partials are held."""
        return sum(p.height for p in self._parts())

    @property
    def pane_count(self) -> int:
        """How many panes are held."""
        parts = self._parts()
        return pl.concat([p.select(PANE) for p in parts])[PANE].n_unique() if parts else 0

    def take_fresh(self) -> pa.Table | None:
        """The partials that came since this was last asked: what the journal has not yet got."""
        fresh, self._fresh = self._fresh, []
        return pl.concat(fresh).to_arrow() if fresh else None

    def all(self) -> pa.Table | None:
        """The whole state, merged."""
        self._compact()
        self._fresh = []
        return None if self._base is None else self._base.to_arrow()

    def restore(self, tables: list[pa.Table], low: int | None) -> None:
        """Continue from the tables that a journal kept."""
        self._low = low
        for table in tables:
            self.add(_frame(table))
        self._fresh = []

    def _parts(self) -> list[pl.DataFrame]:
        return ([] if self._base is None else [self._base]) + self._pieces

    def _compact(self) -> None:
        parts = self._parts()
        if len(parts) > 1:
            self._base = self._kernel.merge(pl.concat(parts).group_by([PANE, *self._kernel.keys])).select(
                parts[0].columns
            )
        elif parts:
            self._base = parts[0]
        self._pieces = []


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
