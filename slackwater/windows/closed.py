"""Which windows have been emitted: up to one window for the whole stream, or up to one for each source (D4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.sources import Ints
from slackwater.windows.spec import WindowSpec

#: Hidden column with the source of a row, as text.
SOURCE = "__source"
CLOSED = "__closed"
#: Ticks further out than this are no times of rows; window arithmetic on them would overflow.
_FAR = 2**61


@dataclass(frozen=True, eq=False)
class Closed:
    """The last window that has been emitted; None where none has. Windows are emitted in order, so it says all.

    >>> spec = WindowSpec(range=10, slide=10)
    >>> closed = Closed().advanced(spec, Heartbeat(19), None)
    >>> closed.everyone
    1
    >>> beats = SourceHeartbeats(["a", "b"], np.array([9, 39]), others=19)
    >>> Closed(by_source=True).advanced(spec, Heartbeat(9), beats).named.rows()
    [('a', 0), ('b', 3)]
    """

    everyone: int | None = None
    """Of the stream; by source, of the sources that are not named."""
    named: pl.DataFrame | None = None
    """SOURCE and CLOSED."""
    by_source: bool = False

    def advanced(self, spec: WindowSpec, heartbeat: Heartbeat, sources: SourceHeartbeats | None) -> Closed:
        """After a punctuation; itself if that closes nothing."""
        if not self.by_source or sources is None:
            reached = spec.last_closed(Heartbeat(max(-_FAR, min(heartbeat.tick, _FAR))))
            if self._reaches(reached):
                return self
            lifted = None
            if self.named is not None:
                lifted = self.named.with_columns(pl.max_horizontal(CLOSED, pl.lit(reached)))
            return replace(self, everyone=_larger(self.everyone, reached), named=lifted)
        rest = int(_last_closed(spec, np.array([sources.others]))[0])
        named = pl.DataFrame(
            {SOURCE: sources.names, CLOSED: _last_closed(spec, sources.ticks)},
            schema={SOURCE: pl.String, CLOSED: pl.Int64},
        )
        if self.named is None:
            return replace(self, everyone=_larger(self.everyone, rest), named=self._lifted(named))
        # Usually the same sources in the same order.
        known = self.named
        if known.height == named.height and known[SOURCE].equals(named[SOURCE]):
            highest = pl.max_horizontal(known[CLOSED], named[CLOSED])
            named = known.with_columns(pl.select(highest).to_series().alias(CLOSED))
        else:
            named = pl.concat([known, self._lifted(named)]).group_by(SOURCE, maintain_order=True).max()
        if named.equals(known) and self._everyone_reaches(rest):
            return self
        return replace(self, everyone=_larger(self.everyone, rest), named=named)

    def _lifted(self, named: pl.DataFrame) -> pl.DataFrame:
        """A source that was not named before had what was emitted for everyone."""
        if self.everyone is None:
            return named
        return named.with_columns(pl.max_horizontal(CLOSED, pl.lit(self.everyone)))

    def _everyone_reaches(self, window: int) -> bool:
        return self.everyone is not None and self.everyone >= window

    def _reaches(self, window: int) -> bool:
        lowest = None if self.named is None else self.named[CLOSED].min()
        assert lowest is None or isinstance(lowest, int)
        return self._everyone_reaches(window) and (lowest is None or lowest >= window)

    def beside(self, frame: pl.DataFrame, source: pl.Expr, name: str = CLOSED) -> pl.DataFrame:
        """The frame with a column of the last emitted window of each row; null where there is none."""
        rest = pl.lit(self.everyone, pl.Int64)
        if self.named is None:
            return frame.with_columns(rest.alias(name))
        mine = self.named.rename({SOURCE: "__of", CLOSED: name})
        joined = frame.with_columns(source.alias("__of")).join(mine, on="__of", how="left").drop("__of")
        return joined.with_columns(pl.col(name).fill_null(rest))

    def open_panes(self, frame: pl.DataFrame, spec: WindowSpec, pane: str, source: pl.Expr) -> pl.DataFrame:
        """The rows whose pane counts for some window that has not been emitted."""
        if self.named is None:
            if self.everyone is None:
                return frame
            return frame.filter(pl.col(pane) >= (self.everyone + 1) * spec.panes_per_slide)
        low = (pl.col(CLOSED) + 1) * spec.panes_per_slide
        return self.beside(frame, source).filter(low.is_null() | (pl.col(pane) >= low)).drop(CLOSED)

    def lowest_open_pane(self, spec: WindowSpec) -> int | None:
        """No source needs a pane below this one; None if all may be needed."""
        if self.everyone is None:
            return None
        least = self.everyone
        if self.named is not None and self.named.height:
            lowest = self.named[CLOSED].min()
            assert isinstance(lowest, int)
            least = min(least, lowest)
        return (least + 1) * spec.panes_per_slide

    def highest_closed(self) -> int | None:
        """The last window that has been emitted for any source."""
        highest = None if self.named is None else self.named[CLOSED].max()
        assert highest is None or isinstance(highest, int)
        return self.everyone if highest is None else _larger(self.everyone, highest)

    def late_before(self, spec: WindowSpec) -> tuple[int, pl.DataFrame | None]:
        """A row below this tick is in an emitted window: for everyone, and by source where that differs."""
        everyone = (
            -(2**63) if self.everyone is None else max(-(2**63), min(spec.bounds(self.everyone)[1], 2**63 - 1))
        )
        if self.named is None:
            return everyone, None
        end = pl.col(CLOSED) * spec.slide + (spec.offset + spec.range)
        return everyone, self.named.select(SOURCE, end.alias("__before"))

    def saved(self) -> dict[str, int | None]:
        """Its small part, as JSON values; `named` is kept as a table."""
        return {"everyone": self.everyone}


def _last_closed(spec: WindowSpec, ticks: Ints) -> Ints:
    """`WindowSpec.last_closed` of many heartbeats."""
    inside = np.clip(ticks, -_FAR, _FAR)
    closed: Ints = (inside + (1 - spec.range - spec.offset)) // spec.slide
    return closed


def ends_reached(spec: WindowSpec, ticks: Ints) -> Ints:
    """For each heartbeat the last tick of the last window that it closes: how far results of windows have come.

    >>> ends_reached(WindowSpec(range=30, slide=10), np.array([28, 29, 38, 39])).tolist()
    [19, 29, 29, 39]
    """
    ends: Ints = _last_closed(spec, ticks) * spec.slide + (spec.offset + spec.range - 1)
    return np.where(np.abs(ticks) < _FAR, ends, ticks)


def _larger(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)
