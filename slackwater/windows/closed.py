"""Which windows time has closed: up to one window for the whole stream, or up to one for each source (D4).

A window is emitted when it is closed. By source, one that had no row then is emitted if a row comes later (D10).
Range punctuations (S5 section 6.2) close windows ahead of that one, while earlier ones wait for sidelined rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from slackwater.columns import CLOSED, PANE, SOURCE
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.intervals import Interval, Intervals, united
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import LAST_TIME, LONGEST_SPAN, MIN_TICK
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec

#: All windows of rows end before this. Heartbeats further out would leave 64 bits in window arithmetic.
_FAR = LAST_TIME + 2 * LONGEST_SPAN


@dataclass(frozen=True, eq=False)
class Closed:
    """The last window up to which all are closed; None where none is.

    Most pages close windows for every source at once.

    >>> spec = WindowSpec(range=10, slide=10)
    >>> closed = Closed().advanced(spec, Heartbeat(19), None)
    >>> closed.emitted_through
    1
    >>> beats = SourceHeartbeats(["a", "b"], np.array([9, 39]), others=19)
    >>> Closed(by_source=True).advanced(spec, Heartbeat(9), beats).named.rows()
    [('a', 0), ('b', 3)]
    >>> ahead = closed.ranged(spec, 39, Heartbeat(69))
    >>> ahead.emitted_through, ahead.ahead, ahead.advanced(spec, Heartbeat(39), None).emitted_through
    (1, ((4, 6),), 6)
    """

    emitted_through: int | None = None
    """The heartbeat of the stream; by source, of the sources that are not named."""
    named: pl.DataFrame | None = None
    """SOURCE and CLOSED."""
    by_source: bool = False
    given: GivenWindows | None = None
    """By source: the closed windows that have been emitted. One object for all that follow from each other.

    None where these are all closed windows."""
    ahead: Intervals = ()
    """Windows emitted ahead of that one, as first and last of each run: in order, apart, few. Not by source."""

    def ranged(self, spec: WindowSpec, after: int, heartbeat: Heartbeat) -> Closed:
        """After a range punctuation, which closes the windows wholly in (after, heartbeat]; itself if none is new.

        By source it closes nothing: windows of each source are closed in order.
        """
        first = spec.next_begin(max(-_FAR, min(after, _FAR)))
        last = spec.last_closed(Heartbeat(max(-_FAR, min(heartbeat.tick, _FAR))))
        if self.by_source or first > last:
            return self
        return self._with(self.emitted_through, (*self.ahead, (first, last)))

    def _with(self, emitted_through: int | None, runs: Iterable[Interval]) -> Closed:
        """With these runs of windows closed ahead: joined where they touch, or touch what is closed in order."""
        in_order = [] if emitted_through is None else [(MIN_TICK, emitted_through)]
        ahead = united((*in_order, *runs), touching=1)
        if in_order:
            (_, emitted_through), *rest = ahead
            ahead = tuple(rest)
        if emitted_through == self.emitted_through and ahead == self.ahead:
            return self
        return replace(self, emitted_through=emitted_through, ahead=ahead)

    def steps(self, after: Closed) -> list[tuple[Closed, Closed]]:
        """The windows that `after` has closed and this had not, as pairs with none closed ahead.

        >>> done = Closed(emitted_through=1, ahead=((4, 6),))
        >>> [(b.emitted_through, a.emitted_through) for b, a in done.steps(Closed(emitted_through=8))]
        [(1, 3), (6, 8)]
        """
        if not self.ahead and not after.ahead:
            return [(self, after)]
        pairs: list[tuple[Closed, Closed]] = []
        runs = after.ahead if after.emitted_through is None else ((None, after.emitted_through), *after.ahead)
        for begin, last in runs:
            before = self.emitted_through
            if begin is not None:
                before = begin - 1 if before is None else max(before, begin - 1)
            for done in (*self.ahead, (last + 1, last + 1)):
                until = min(done[0] - 1, last)
                if before is None or before < until:
                    plain = replace(self, emitted_through=before, ahead=())
                    pairs.append((plain, replace(plain, emitted_through=until)))
                before = done[1] if before is None else max(before, done[1])
        return pairs

    def advanced(self, spec: WindowSpec, heartbeat: Heartbeat, sources: SourceHeartbeats | None) -> Closed:
        """After a punctuation; itself if that closes nothing."""
        if not self.by_source or sources is None:
            reached = spec.last_closed(Heartbeat(max(-_FAR, min(heartbeat.tick, _FAR))))
            if self._reaches(reached):
                return self
            lifted = None
            if self.named is not None:
                lifted = self.named.with_columns(pl.max_horizontal(CLOSED, pl.lit(reached)))
            if not self.ahead:
                return replace(self, emitted_through=_larger(self.emitted_through, reached), named=lifted)
            return self._with(_larger(self.emitted_through, reached), self.ahead)
        # Most policies promise nothing of a source that they have not seen.
        through = self.emitted_through
        if sources.others > -_FAR:
            through = _larger(through, int(_last_closed(spec, np.array([sources.others]))[0]))
        named = pl.DataFrame(
            {SOURCE: sources.names, CLOSED: _last_closed(spec, sources.ticks)},
            schema={SOURCE: pl.String, CLOSED: pl.Int64},
        )
        known = self.named
        if known is not None and known.height == named.height and known[SOURCE].equals(named[SOURCE]):
            # Usually the same sources in the same order.
            highest = pl.max_horizontal(known[CLOSED], named[CLOSED])
            named = known.with_columns(pl.select(highest).to_series().alias(CLOSED))
        elif known is not None:
            named = pl.concat([known, named]).group_by(SOURCE, maintain_order=True).max()
        if known is not None and named.equals(known) and through == self.emitted_through:
            return self
        return replace(self, emitted_through=through, named=named)

    def news(self, known: pl.DataFrame | None) -> pl.DataFrame | None:
        """The sources whose windows have changed since `known`; None if there are none.

        There may be a hundred thousand sources: a journal gets only these.
        """
        if self.named is None or self.named is known:
            return None
        return self.named if known is None else self.named.join(known, on=self.named.columns, how="anti")

    def with_news(self, news: pl.DataFrame) -> Closed:
        """With what `news` gave."""
        known = [] if self.named is None else [self.named]
        return replace(self, named=pl.concat([*known, news]).group_by(SOURCE, maintain_order=True).max())

    def _emitted_reaches(self, window: int) -> bool:
        return self.emitted_through is not None and self.emitted_through >= window

    def _reaches(self, window: int) -> bool:
        lowest = None if self.named is None else self.named[CLOSED].min()
        assert lowest is None or isinstance(lowest, int)
        return self._emitted_reaches(window) and (lowest is None or lowest >= window)

    def beside(self, frame: pl.DataFrame, source: pl.Expr, name: str = CLOSED) -> pl.DataFrame:
        """The frame with a column of the last closed window of each row; null where there is none."""
        rest = pl.lit(self.emitted_through, pl.Int64)
        if self.named is None:
            return frame.with_columns(rest.alias(name))
        mine = self.named.rename({SOURCE: "__of", CLOSED: name})
        joined = frame.with_columns(source.alias("__of")).join(mine, on="__of", how="left").drop("__of")
        return joined.with_columns(pl.col(name).fill_null(rest))

    def open_panes(self, frame: pl.DataFrame, spec: WindowSpec, pane: str, source: pl.Expr) -> pl.DataFrame:
        """The rows whose pane counts for some window that is not closed."""
        if self.named is None:
            for first, last in self.ahead:
                between = pl.col(pane).is_between(spec.panes(first - 1)[1], spec.panes(last + 1)[0], closed="left")
                frame = frame.filter(~between)
            low = None if self.emitted_through is None else spec.first_pane(self.emitted_through + 1)
            return frame if low is None or _all_from(frame[pane], low) else frame.filter(pl.col(pane) >= low)
        highest = self.highest_closed()
        if highest is None or _all_from(frame[pane], spec.first_pane(highest + 1)):
            return frame
        through = spec.first_pane(pl.col(CLOSED) + 1)
        return self.beside(frame, source).filter(through.is_null() | (pl.col(pane) >= through)).drop(CLOSED)

    def taken(self, frame: pl.DataFrame, spec: WindowSpec, pane: str, source: pl.Expr) -> pl.DataFrame:
        """The rows whose pane counts for some window that has not been emitted."""
        if self.given is None:
            return self.open_panes(frame, spec, pane, source)
        highest = self.highest_closed()
        if highest is None or _all_from(frame[pane], spec.first_pane(highest + 1)):
            return frame
        low = spec.first_pane(pl.col(CLOSED) + 1)
        passed = (pl.col(pane) < low).fill_null(False)
        beside = self.beside(frame, source).with_columns(passed.alias(CLOSED))
        asked = beside.filter(CLOSED).drop(CLOSED)
        if asked.height == 0:
            return frame
        first, last = spec.windows_of(asked[pane].to_numpy())
        lost = self.given.count(asked.select(source).to_series().to_list(), first, last)
        return pl.concat(
            [beside.filter(~pl.col(CLOSED)).drop(CLOSED), asked.filter(pl.Series(lost <= last - first))]
        )

    def reopened(self, counts: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
        """The rows, by pane and source, that count for a closed window which was not emitted."""
        highest = self.highest_closed()
        if self.given is None or highest is None or _all_from(counts[PANE], spec.panes(highest)[1]):
            return counts.clear()
        end = spec.end_pane(pl.col(CLOSED))
        passed = self.beside(counts, pl.col(SOURCE)).filter(pl.col(PANE) < end)
        if passed.height == 0:
            return passed
        first, last = spec.windows_of(passed[PANE].to_numpy())
        last = np.minimum(last, passed[CLOSED].to_numpy())
        missing = last - first + 1 - self.given.count(passed[SOURCE].to_list(), first, last)
        return passed.filter(pl.Series(missing > 0))

    def end(self, spec: WindowSpec) -> int | None:
        """The end of the last window that is closed for any source, as a pane; None if none is."""
        highest = self.highest_closed()
        return None if highest is None else spec.panes(highest)[1]

    def lowest_open_pane(self, spec: WindowSpec) -> int | None:
        """No source that is known needs a pane below this one; None if all may be needed."""
        least = self.lowest_closed()
        return None if least is None else spec.first_pane(least + 1)

    def lowest_closed(self) -> int | None:
        """The last window that is closed for all sources that are known; None if there is none."""
        least = self.emitted_through
        if self.named is not None and self.named.height:
            lowest = self.named[CLOSED].min()
            assert isinstance(lowest, int)
            least = lowest if least is None else min(least, lowest)
        return least

    def before(self, windows: int, first: int | None) -> Closed:
        """The windows that were closed before the latest ones, this many of each source, or before the `first`.

        >>> Closed(emitted_through=9).before(4, None).emitted_through
        5
        """
        least = -_FAR if first is None else first - 1

        def earlier(closed: int) -> int:
            return max(closed - windows, least)

        through = None if self.emitted_through is None else earlier(self.emitted_through)
        if self.named is None:
            return replace(self, emitted_through=through, given=self.given and self.given.until({}, through))
        named = self.named.with_columns(pl.max_horizontal(pl.col(CLOSED) - windows, pl.lit(least)))
        given = self.given and self.given.until(dict(named.select(SOURCE, CLOSED).iter_rows()), through)
        return replace(self, emitted_through=through, named=named, given=given)

    def highest_closed(self) -> int | None:
        """The last window that is closed for any source."""
        highest = None if self.named is None else self.named[CLOSED].max()
        assert highest is None or isinstance(highest, int)
        return self.emitted_through if highest is None else _larger(self.emitted_through, highest)

    def late_before(self, spec: WindowSpec) -> int:
        """A row below this tick is in an emitted window; by source `given` tells."""
        if self.emitted_through is None or self.given is not None:
            return -(2**63)
        return max(-(2**63), min(spec.bounds(self.emitted_through)[1], 2**63 - 1))

    def late_within(self, spec: WindowSpec) -> list[tuple[int, int]]:
        """A row from the one tick on and before the other is in a window that was emitted ahead."""
        return [(spec.bounds(first)[0], min(spec.bounds(last)[1], 2**63 - 1)) for first, last in self.ahead]


def _last_closed(spec: WindowSpec, ticks: Ints) -> Ints:
    """`WindowSpec.last_closed` of many heartbeats."""
    inside = np.clip(ticks, -_FAR, _FAR)
    closed: Ints = (inside + (1 - spec.first_end - spec.offset)) // spec.slide
    return closed


def ends_reached(spec: WindowSpec, ticks: Ints) -> Ints:
    """For each heartbeat the last tick of the last window that it closes: how far results of windows have come.

    >>> ends_reached(WindowSpec(range=30, slide=10), np.array([28, 29, 38, 39])).tolist()
    [19, 29, 29, 39]
    """
    ends: Ints = _last_closed(spec, ticks) * spec.slide + (spec.offset + spec.first_end - 1)
    return np.where((ticks > -_FAR) & (ticks < _FAR), ends, ticks)


def _all_from(panes: pl.Series, pane: int) -> bool:
    """Whether no pane is below this one: as it is with rows on time."""
    return len(panes) == 0 or bool(panes.to_numpy().min() >= pane)


def _larger(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)
