"""What share of a window's rows has arrived at an age: learned from the windows that have become final.

An age is counted in slides from the window's end, below 0 before it. S5 section 3.4 names this share as what
decides how accurate an early result is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.source_numbers import Floats, Ints

_FINE = np.arange(33) / 16
_COARSE = 2 * 1.15 ** np.arange(1, 56)
_SIDE = np.concatenate([_FINE, _COARSE])
#: Ages at which shares are known: each sixteenth of a slide around the end, rarer further away.
KNOTS: Floats = np.concatenate([-_SIDE[:0:-1], _SIDE])
#: What a window counts for when one more has become final.
FADE = 0.95
#: So many open windows are followed, the oldest; and where more than some overlap, every second, third, ... only.
MOST_OPEN = 256
OVERLAPPING = 64
#: A window counts with at most this multiple of the usual number of rows, so that one burst does not set the rule.
BURST = 2.0


class Curve:
    """Completeness by age, over all groups.

    >>> curve = Curve(range=10, slide=10)
    >>> curve.page(8, np.array([9]), np.array([1]))
    >>> curve.page(15, np.array([19]), np.array([30]))
    >>> curve.page(22, np.array([19, 29]), np.array([10, 20]))
    >>> curve.at(np.array([-0.5, 0.2]))
    array([nan, nan])
    >>> curve.close(19)
    >>> curve.at(np.array([-0.5, 0.0, 0.25]))
    array([0.75, 0.75, 1.  ])
    """

    def __init__(self, range: int, slide: int) -> None:
        self._range = range
        self._slide = slide
        self._every = max(1, -(-range // (slide * OVERLAPPING)))
        """One in so many windows is followed."""
        self._begin: int | None = None
        """Windows with last ticks below this had begun before the stream did: they are not like others."""
        self._open: dict[int, dict[int, int]] = {}
        """Rows by knot, by the window's last tick."""
        self._passed: tuple[int, int] | None = None
        """From the one to the other windows were passed over: they are not followed from their middle."""
        self._through: int | None = None
        """Windows that end here or before count no more."""
        self._ahead: list[tuple[int, int]] = []
        """Nor do these, from the first to the last of each run."""
        self._arrived = np.zeros(len(KNOTS))
        self._all = 0.0
        self._usual = 0.0

    def page(self, time: int, last_ticks: Ints, pairs: Ints) -> None:
        """So many rows have come by this time for windows with these last ticks, which increase."""
        if self._begin is None:
            self._begin = int(last_ticks.min()) + self._range
        ages = (time - 1 - last_ticks) / self._slide
        followed = (last_ticks // self._slide % self._every == 0) & (last_ticks >= self._begin) & (ages >= KNOTS[0])
        followed &= ~self._closed(last_ticks)
        places = np.minimum(np.searchsorted(KNOTS, ages[followed]), len(KNOTS) - 1)
        for last, place, rows in zip(
            last_ticks[followed].tolist(), places.tolist(), pairs[followed].tolist(), strict=True
        ):
            by_knot = self._open.get(last)
            if by_knot is None:
                if self._passed is not None and self._passed[0] <= last <= self._passed[1]:
                    continue
                by_knot = self._open[last] = {}
            by_knot[place] = by_knot.get(place, 0) + rows
        if len(self._open) > MOST_OPEN:
            self._pass_over(sorted(self._open)[MOST_OPEN:])

    def _pass_over(self, newest: list[int]) -> None:
        for last in newest:
            del self._open[last]
        low, high = self._passed or (newest[0], newest[-1])
        self._passed = (min(low, newest[0]), max(high, newest[-1]))

    def close(self, through: int | None, ahead: Sequence[tuple[int, int]] = ()) -> None:
        """Windows up to this last tick are final, and those of some later runs, given by their last ticks."""
        if through is not None:
            self._through = through if self._through is None else max(self._through, through)
        self._ahead = list(ahead)
        last_ticks: Ints = np.array(sorted(self._open), np.int64)
        for last in last_ticks[self._closed(last_ticks)].tolist():
            self._learn(self._open.pop(last))
        if self._passed is not None and self._through is not None and self._passed[1] <= self._through:
            self._passed = None

    def _closed(self, last_ticks: Ints) -> NDArray[np.bool_]:
        closed = np.zeros(len(last_ticks), bool) if self._through is None else last_ticks <= self._through
        for first, last in self._ahead:
            closed |= (first <= last_ticks) & (last_ticks <= last)
        return closed

    def whole(self, last: int) -> bool:
        """Whether the stream was there when the window with this last tick began."""
        return self._begin is not None and last >= self._begin

    def rows(self, last: int) -> float:
        """Rows so far of the window with this last tick; not a number if it is not followed."""
        if last in self._open:
            return float(sum(self._open[last].values()))
        passed = self._passed is not None and self._passed[0] <= last <= self._passed[1]
        followed = self.whole(last) and last // self._slide % self._every == 0 and not passed
        return 0.0 if followed and not self._closed(np.array([last]))[0] else np.nan

    def _learn(self, by_knot: dict[int, int]) -> None:
        rows = np.zeros(len(KNOTS))
        rows[list(by_knot)] = list(by_knot.values())
        total = float(rows.sum())
        if not total:
            return
        self._usual = total if not self._all else FADE * self._usual + (1 - FADE) * min(total, BURST * self._usual)
        weight = min(1.0, BURST * self._usual / total)
        self._arrived = FADE * self._arrived + weight * np.cumsum(rows)
        self._all = FADE * self._all + weight * total

    def at(self, ages: Floats) -> Floats:
        """The share of rows that are in at these ages; not a number while no window has become final."""
        if not self._all:
            return np.full(len(ages), np.nan)
        return np.interp(ages, KNOTS, self._arrived / self._all)

    def of_slide(self, age: float) -> float:
        """The share of a single slide's rows that are in at an age; it is counted from the slide's end.

        A window is the slides in it. A slide later it has one more and one less of them: the difference between
        both is that of a slide's rows at two ages.
        """
        span = self._range / self._slide
        # Nothing is in before the first knot: a window of a corrupt time may lie as far ahead as it likes.
        age += span * max(0.0, (KNOTS[0] - 1 - age) // span)
        steps = np.arange(age, max(KNOTS[-1], age + span), span)
        return min(max(1 - span * float((self.at(steps + 1) - self.at(steps)).sum()), 0.0), 1.0)

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "open": [
                [last, *(n for pair in by_knot.items() for n in pair)] for last, by_knot in self._open.items()
            ],
            "passed": self._passed,
            "through": self._through,
            "ahead": self._ahead,
            "begin": self._begin,
            "arrived": [] if not self._all else self._arrived.tolist(),
            "all": [self._all, self._usual],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._open = {last: dict(zip(rest[::2], rest[1::2], strict=True)) for last, *rest in state["open"]}
        self._passed = None if state["passed"] is None else (state["passed"][0], state["passed"][1])
        self._through, self._begin = state["through"], state["begin"]
        self._ahead = [(first, last) for first, last in state["ahead"]]
        self._all, self._usual = state["all"]
        if self._all:
            self._arrived = np.array(state["arrived"])
