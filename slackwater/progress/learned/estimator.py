"""Estimates of the skew at arrival between streams, δ_ij[t]: S1 section 6.1, and 6.2 with Figure 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints, lowered
from slackwater.progress.time import MIN_TICK

#: The weight alpha is kept as a whole number of this many parts, so that lowering an estimate is exact in 64 bits.
PARTS = 2**20
#: Stands for W = ∞.
NEVER = 2**62
#: Adaptive adaptivity: W is doubled if the estimate is exceeded again within this many windows.
OFTEN = 4
#: W is halved if the estimate falls in this many windows in a row.
LONG = 8
#: and it stays within this factor of what was asked for.
FURTHEST = 16

_ENTRIES = ("delta", "win", "start", "window", "calm", "falls")
_MOVING = ("window", "calm", "falls")


@dataclass(frozen=True, slots=True)
class Settings:
    """How an estimator estimates."""

    tmax: int
    """t goes from 0 to this, in units of the clock."""
    window: int = NEVER
    """W: in tuples of S_j, or in ticks of the clock."""
    timed: bool = False
    """Whether W is a length of time."""
    alpha: int = PARTS
    """The weight of the old estimate when it is lowered, in `PARTS`."""
    adaptive: bool = False
    """Whether W itself moves."""
    initial: int | None = None
    """What δ_ij[t] starts from; None: from how the two streams stand when they are first seen together."""


class SkewEstimator(Restorable):
    """Figure 4 of S1 for m streams that become known one after the other, page by page.

    Of a page it takes, for each stream S_j, the number of tuples, the smallest and the largest timestamp. Figure 4
    takes tuples one at a time; a page of one tuple is just that. In a larger page
    - rows are never late for each other, so τ_i^max[c − t] is what the pages *before* it showed (for t = 0 all of
      them, for t > 0 those that arrived t units of the clock ago or earlier);
    - the largest of the estimates that the page's tuples of S_j give is that of the smallest timestamp, and it
      alone goes through lines 7 to 14;
    - num_ij[t] grows by all of the page's tuples of S_j, and an estimate is lowered at most once.

    The figure starts with δ = 0 for all streams. Here streams are met as they come: an entry starts when both of
    its streams are known, from `initial` (with 0 it is the figure), or else from the distance between their largest
    timestamps, so that a stream which is far ahead when it is first seen makes no promise for the others that
    nothing supports. The first estimate proper takes its place, at the second page of S_j; until then δ^win is −1.

    Lowering rounds down to whole ticks, so that repeated lowering reaches δ^win. Entries are arrays [i, j, t].

    With `adaptive`, every entry has its own W. Let a window be complete when line 12 holds. If an estimate is
    exceeded after 1 to 3 complete windows, W was too short and is doubled; in the first window after an
    exceedance nothing has been lowered, so W is not to blame. If complete windows have decreased the estimate 8
    times running, W is halved. It stays between 1/16 and 16 times what was asked for.

    >>> e = SkewEstimator(Settings(tmax=0, window=2, alpha=PARTS // 2))
    >>> a = e.add(1)
    >>> def after(tau):
    ...     one = np.array([tau])
    ...     e.arrive(a, np.array([1]), one, one, unit_now=0, clock=0)
    ...     return int(e.delta[0, 0, 0])
    >>> [after(tau) for tau in (50, 40, 60, 58, 59)]      # after three calm tuples (11 + 3) / 2
    [0, 11, 11, 11, 7]
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        cells = settings.tmax + 1
        self.delta: Ints = np.zeros((0, 0, cells), dtype=np.int64)
        self.win, self.calm, self.falls = self.delta.copy(), self.delta.copy(), self.delta.copy()
        self.start, self.window = self.delta.copy(), self.delta.copy()
        #: seen[t, i] is τ_i^max[c − t]: what had been seen when the clock was t units back; seen[0] is all.
        self.seen: Ints = np.zeros((cells, 0), dtype=np.int64)
        #: Tuples of each stream so far.
        self.tuples: Ints = np.zeros(0, dtype=np.int64)
        self.unit_now = MIN_TICK
        #: How often a page had tuples of a stream that came later than δ_ij[0] of some i said.
        self.exceeded = 0

    def __len__(self) -> int:
        return len(self.tuples)

    def add(self, streams: int) -> Ints:
        """Make room for more streams; their numbers."""
        before = len(self)
        for name in _ENTRIES:
            grown = np.pad(getattr(self, name), ((0, streams), (0, streams), (0, 0)))
            setattr(self, name, grown)
        self.seen = np.pad(self.seen, ((0, 0), (0, streams)), constant_values=MIN_TICK)
        self.tuples = np.pad(self.tuples, (0, streams))
        return np.arange(before, before + streams, dtype=np.int64)

    def arrive(self, streams: Ints, rows: Ints, lowest: Ints, highest: Ints, unit_now: int, clock: int) -> Ints:
        """A page with tuples of some streams, each named once. The heartbeats that follow: [j, t], for c + t.

        `unit_now` is c, in units of the clock; `clock` is what a W that is a length of time is measured with.
        """
        self._advance(unit_now)
        self._meet(streams, highest, clock)
        known = self.tuples[streams] > 0
        self.tuples[streams] += rows
        self._estimate(streams, lowest, clock, known)
        self.seen[0, streams] = np.maximum(self.seen[0, streams], highest)
        promised: Ints = lowered(highest[:, None, None], self.delta[streams]).max(axis=0)
        promised[self.tuples == 0] = MIN_TICK
        return promised

    def moved(self, origin: Ints, target: Ints, highest: Ints) -> None:
        """Sources change from stream `origin` to `target`, and what they had sent, up to `highest`, with them.

        When in the last tmax they had sent it is not known; not before any source of their old stream had.
        """
        np.maximum.at(self.seen.T, target, np.minimum(self.seen.T[origin], highest[:, None]))

    def _advance(self, unit_now: int) -> None:
        if unit_now > self.unit_now:
            back = np.arange(self.settings.tmax + 1) - min(unit_now - self.unit_now, self.settings.tmax + 1)
            self.seen = self.seen[np.maximum(back, 0)]
            self.unit_now = unit_now

    def _meet(self, streams: Ints, highest: Ints, clock: int) -> None:
        """Line 1, for the streams of which this page is the first."""
        fresh = np.zeros(len(self), dtype=bool)
        fresh[streams] = self.tuples[streams] == 0
        if not fresh.any():
            return
        met = fresh[:, None] | fresh[None, :]
        if self.settings.initial is None:
            top = self.seen[0].copy()
            top[streams] = np.maximum(top[streams], highest)
            apart = _distance(top[:, None], top[None, :])
            unknown = ~fresh & (self.tuples == 0)
            apart[unknown[:, None] | unknown[None, :]] = 0
            self.delta[met] = apart[met][:, None]
        else:
            self.delta[met] = self.settings.initial
        self.win[met] = 0 if self.settings.initial is not None else -1
        self.calm[met] = self.falls[met] = 0
        begin = np.broadcast_to(clock if self.settings.timed else self.tuples, met.shape)
        self.start[met] = begin[met][:, None]
        self.window[met] = self.settings.window

    def _estimate(self, streams: Ints, lowest: Ints, clock: int, known: NDArray[np.bool_]) -> None:
        """Lines 5 to 14, for all i and t, and every j that the page has tuples of; `known` says which are not new.

        A new j is measured against the pages before its own. The others may have gone on in this page, so the
        distance between the largest timestamps stands until j comes again, unless it is exceeded.
        """
        delta, win, start, window, calm, falls = (getattr(self, name)[:, streams] for name in _ENTRIES)
        measured = np.broadcast_to(clock if self.settings.timed else self.tuples[streams], (len(streams),))
        counter = np.broadcast_to(measured[None, :, None], delta.shape)
        estimate = _estimates(self.seen.T[:, None, :], lowest[None, :, None])
        above = estimate > delta
        self.exceeded += int(above[:, :, 0].any(axis=0).sum())
        waiting = win < 0
        first = waiting & (self.seen.T[:, None, :] > MIN_TICK) & known[None, :, None]
        above |= first
        whole = ~above & ~waiting & (counter - start > window)
        win = np.where(above, 0, np.where(waiting, win, np.maximum(win, estimate)))
        reduced = np.where(whole, win + _part(delta - win, self.settings.alpha), delta)
        if self.settings.adaptive:
            window = self._adapt(window, calm, falls, above, whole, reduced < delta)
        for name, entries in zip(
            _ENTRIES,
            (
                np.where(above, estimate, reduced),
                np.where(whole, 0, win),
                np.where(above | whole, counter, start),
                window,
                calm,
                falls,
            ),
            strict=True,
        ):
            getattr(self, name)[:, streams] = entries

    def _adapt(
        self,
        window: Ints,
        calm: Ints,
        falls: Ints,
        above: NDArray[np.bool_],
        whole: NDArray[np.bool_],
        fell: NDArray[np.bool_],
    ) -> Ints:
        """Move W; `calm` counts complete windows since an exceedance, `falls` the decreases one after the other."""
        longest = min(self.settings.window * FURTHEST, NEVER // 2)
        shortest = max(1, self.settings.window // FURTHEST)
        window = np.where(above & (calm > 0) & (calm < OFTEN), np.minimum(window * 2, longest), window)
        calm += whole
        calm[above] = 0
        falls += fell
        falls[above | (whole & ~fell)] = 0
        window = np.where(falls >= LONG, np.maximum(window // 2, shortest), window)
        falls[falls >= LONG] = 0
        return window

    def grouped(self, place: Ints, groups: int) -> SkewEstimator:
        """The same with streams gathered in groups (S1 section 5.2): of each entry the weakest, by the ⊔ operator.

        `place` is the group of each stream. A window that is longest under way stays so, and W is the longest.
        """
        other = SkewEstimator(self.settings)
        other.add(groups)
        at = (place[:, None], place[None, :])
        for name in ("delta", "win", "window", "calm", "falls"):
            np.maximum.at(getattr(other, name), at, getattr(self, name))
        np.maximum.at(other.seen.T, place, self.seen.T)
        np.add.at(other.tuples, place, self.tuples)
        clock = self.start if self.settings.timed else self.start - self.tuples[None, :, None]
        latest = np.full_like(other.start, MIN_TICK)
        np.maximum.at(latest, at, clock)
        known = latest > MIN_TICK
        other.start = np.where(known, latest if self.settings.timed else latest + other.tuples[None, :, None], 0)
        other.unit_now, other.exceeded = self.unit_now, self.exceeded
        return other

    def _kept(self) -> tuple[str, ...]:
        return _ENTRIES if self.settings.adaptive else tuple(name for name in _ENTRIES if name not in _MOVING)

    def state(self) -> dict[str, Any]:
        """All of it: arrays, flat, and a few numbers. What only an adaptive W moves is kept for that alone."""
        kept = {name: getattr(self, name).flatten() for name in (*self._kept(), "seen")}
        return {**kept, "tuples": self.tuples.copy(), "unit_now": self.unit_now, "exceeded": self.exceeded}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()` of the same settings, but for W and alpha."""
        cells = self.settings.tmax + 1
        self.tuples = np.array(state["tuples"], dtype=np.int64)
        n = len(self)
        self.window = np.full((n, n, cells), self.settings.window, dtype=np.int64)
        self.calm, self.falls = np.zeros_like(self.window), np.zeros_like(self.window)
        for name in self._kept():
            setattr(self, name, np.array(state[name], dtype=np.int64).reshape(n, n, cells))
        self.seen = np.array(state["seen"], dtype=np.int64).reshape(cells, n)
        self.unit_now, self.exceeded = state["unit_now"], state["exceeded"]


def _distance(ahead: Ints, behind: Ints) -> Ints:
    """`ahead` − `behind` where that is positive, else 0; the largest number where it does not fit into 64 bits.

    >>> _distance(np.array([9, 2, 2**62]), np.array([4, 7, -(2**62)])).tolist() == [5, 0, 2**63 - 2]
    True
    """
    # Differences of 64-bit numbers are exact without a sign.
    apart = np.minimum(ahead.astype(np.uint64) - behind.astype(np.uint64), 2**63 - 2).astype(np.int64)
    result: Ints = np.where(ahead > behind, apart, 0)
    return result


def _estimates(seen: Ints, lowest: Ints) -> Ints:
    """Line 6: max(τ_i^max[c − t] − τ + 1, 0); 0 where nothing had been seen."""
    result: Ints = np.where((seen >= lowest) & (seen > MIN_TICK), _distance(seen, lowest) + 1, 0)
    return result


def _part(values: Ints, alpha: int) -> Ints:
    """That part of each value, rounded down, without leaving 64 bits.

    >>> _part(np.array([7, 2**62]), PARTS // 2).tolist() == [3, 2**61]
    True
    """
    whole, rest = np.divmod(values, PARTS)
    result: Ints = whole * alpha + (rest * alpha) // PARTS
    return result
