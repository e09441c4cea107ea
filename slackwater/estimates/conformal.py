"""Intervals that hold the final value with a stated share: split-conformal over the errors of past windows.

Errors are divided by the scale of their group, so that errors of all groups can be compared. Each guess with each
scale makes an interval. The result is their weighted mean: those with the lowest score of Winkler (1972), which
adds width and misses, count most. Each group has a share of its own that it leaves outside; it is moved by adaptive
conformal inference (Gibbs and Candès 2021): a miss makes the group's next intervals wider, a hit a little narrower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.estimates.small_arrays import finite, within
from slackwater.progress.source_numbers import Floats, Ints

#: There is no interval before ENOUGH errors of ENOUGH_WINDOWS windows are known.
ENOUGH = 20
ENOUGH_WINDOWS = 8
#: Errors that are kept: at most OF_A_WINDOW of one window, because its groups often err together.
KEPT = 256
OF_A_WINDOW = 16
#: Keep the latest 85 % of errors. The first ones come from an untrained model.
LATEST = 0.85
#: By how much a miss moves the share of errors that are left outside; if errors are those of many groups, by more.
STEP = 0.007
OF_OTHERS = 2.0
#: Errors: intervals made of this many are twice as wide.
FEW = 5
#: If neighbouring windows err together, a run of errors says as much as one error. We estimate the length of runs
#: by how often an error is on the same side as the one before. For the first ALONE windows we assume that this is
#: chance. Without it windows that overlap twenty times were held in 80 % of the cases (of the first four hundred).
ALONE, LONGEST = 10.0, 0.9
MOST_WIDER = 0.5
#: With fewer errors than TELLING in the tail, one outlier sets the end. We shrink it towards 2.5 × the quantile at
#: four times the tail share (normal errors: 1.95 ×, exponential ones: 2.5 ×). Without it, two far errors among the
#: first fifty made intervals four times as wide.
TELLING = 8.0
OF_SHARE, TIMES = 4.0, 2.5
#: While fewer windows are known, it moves less.
SETTLED = 50.0
#: With so many windows between an answer and its error, twice as many errors are kept (but never more than some),
#: and a miss moves half as much: within that time windows err together, and nobody sees what a miss has moved.
LATER = 20
MOST_KEPT = 1_024
#: The share outside stays between these: where values repeat, intervals hold more than was asked, for a while.
LEAST_OUTSIDE, MOST_OUTSIDE = 0.002, 4.0
#: Beyond all known errors, an end that leaves a sixteenth outside is twice as far away.
TAIL = 0.25
#: How fast scores are forgotten, and by how much that of another kind must be better than the first one's.
FADE = 0.995
BETTER = 0.95
#: A kind whose score is worse by a fiftieth counts a third as much as the best one. At first all are thought to be
#: alike, for so many windows. Those that hardly count are left out. The best one alone scores worse by up to 6 %.
SHARPER = 50.0
AT_FIRST = 20.0
NEGLIGIBLE = 0.02


def moved(
    outside: Floats, target: float, missed: Floats, known: Floats, behind: int, others: bool = False
) -> Floats:
    """The shares outside after intervals have missed (1) or held (0), so many windows later.

    The first misses teach little: guesses are still new. So a miss moves less while few windows are known.
    """
    most = STEP * (OF_OTHERS if others else 1.0) / (1 + behind / LATER)
    step = most * np.minimum(known / SETTLED, 1.0) * (target - missed)
    return within(outside + finite(step), LEAST_OUTSIDE, MOST_OUTSIDE * target)


def _beyond(outside: Floats, least: float) -> Floats:
    """How much wider than all known errors an end is that leaves less outside than they can tell."""
    return np.asarray(np.maximum(least / np.maximum(outside, LEAST_OUTSIDE / 2), 1.0) ** TAIL)


class Conformal:
    """Quantiles of scaled errors, (final − guess) / scale, of so many guesses and scales.

    >>> interval = Conformal(kinds=2)
    >>> interval.ready
    False
    >>> for error in (37 * np.arange(101) % 101 - 50).tolist():
    ...     interval.learn(np.array([[error / 5, error / 10]]), np.ones((1, 2)), 0.05, 0.05)
    >>> interval.best(), interval.weights([0, 1])
    (1, (array([1]), array([1.])))
    >>> low, high = interval.bounds(np.array([1]), below=np.array([0.05, 0.2]), above=np.array([0.05, 0.1]))
    >>> [ends[:, 0].round(2) for ends in (low, high)]
    [array([-4.7 , -3.03]), array([4.89, 4.34])]
    """

    def __init__(self, kinds: int) -> None:
        self._errors = np.zeros((0, kinds))
        self._sorted: Floats | None = None
        self._windows = self._learned = 0
        """Windows and errors, also those that are no longer kept."""
        self._scores = np.zeros(kinds)
        """Faded scores."""
        self._side = np.zeros(kinds)
        self._same = np.zeros(kinds)
        """On which side of the middle the last window's errors were, and how much oftener on the same than not."""

    @property
    def ready(self) -> bool:
        """Whether enough errors are known for an interval."""
        return len(self._errors) >= ENOUGH and self._windows >= ENOUGH_WINDOWS

    def best(self, kinds: Sequence[int] | None = None) -> int:
        """The kind whose intervals have scored best, of all or of some; the first unless others are better."""
        some = range(len(self._scores)) if kinds is None else kinds
        best = min(some, key=lambda kind: float(self._scores[kind]))
        return best if self._scores[best] < BETTER * self._scores[some[0]] else some[0]

    def weights(self, kinds: Sequence[int]) -> tuple[Ints, Floats]:
        """Those of some kinds that count, and how much: more, the better their intervals have scored."""
        scored = (1 - FADE ** max(self._windows - ENOUGH_WINDOWS, 1)) / (1 - FADE)
        some = np.asarray(kinds)
        scores = self._scores[some] + AT_FIRST / scored * self._scores[some[0]]
        if not scores.min():
            return some[[np.argmin(scores)]], np.ones(1)
        weights = (scores.min() / scores) ** SHARPER
        counts = weights >= NEGLIGIBLE
        return some[counts], weights[counts] / weights[counts].sum()

    def bounds(self, kinds: Ints, below: Floats, above: Floats) -> tuple[Floats, Floats]:
        """The lower and upper ends, in scales of each kind from its guess, that leave such shares outside."""
        errors = self._ordered()[:, kinds]
        middle = errors[len(errors) // 2]
        # Where one end is what is seen, most errors may be nothing: those tell nothing of the others.
        both = (below > 0) & (above > 0)
        wider = 1 + np.where(both[:, None], self._wider()[kinds], FEW / self._learned)
        low, high = self._reach(below, (middle - errors)[::-1], both), self._reach(above, errors - middle, both)
        return middle - wider * low, middle + wider * high

    def _wider(self) -> Floats:
        """By what share intervals are wider because few errors are known, by kind."""
        together = within(np.sin(np.pi / 2 * self._same / (self._windows + ALONE)), 0, LONGEST)
        run = (1 + together) / (1 - together)
        return np.asarray(np.minimum(FEW * run / self._learned, MOST_WIDER))

    def _reach(self, share: Floats, distances: Floats, draw_in: NDArray[np.bool_]) -> Floats:
        """How far an end is that leaves such a share of distances outside, which increase, by share and kind."""
        count = len(distances)
        both = self._at(np.concatenate([1 - share, 1 - OF_SHARE * share]), distances)
        far = _beyond(share, 1 / (count + 1))[:, None] * both[: len(share)]
        near = TIMES * both[len(share) :]
        telling = np.where(draw_in, np.minimum(count * share / TELLING, 1.0), 1.0)[:, None]
        surprise = (near > 0) & (far > near)
        near = np.where(surprise, near, 1.0)
        return np.where(surprise, near * (np.where(surprise, far, 1.0) / near) ** telling, far)

    def _at(self, shares: Floats, ordered: Floats) -> Floats:
        """The errors below which such shares lie, by share and kind."""
        places = within(shares * (len(ordered) + 1) - 1, 0, len(ordered) - 1)
        floor = places.astype(np.int64)
        part = (places - floor)[:, None]
        return np.asarray(ordered[floor] * (1 - part) + ordered[np.minimum(floor + 1, len(ordered) - 1)] * part)

    def _ordered(self) -> Floats:
        if self._sorted is None:
            self._sorted = np.sort(self._errors, axis=0)
        return self._sorted

    def learn(
        self, errors: Floats, sizes: Floats, below: float, above: float, behind: int = 0, new: bool = True
    ) -> None:
        """Errors of one window, by group and kind, and how large the scales are beside each other.

        They are scored with such shares outside. So many windows have been answered since. It is new unless other
        groups of it have been learned before.
        """
        if self.ready:
            self._scores = (FADE if new else 1.0) * self._scores + self._score(errors, sizes, below, above)
        if new and len(self._errors):
            ordered = self._ordered()
            side = np.sign(errors - ordered[len(ordered) // 2]).mean(axis=0)
            self._same, self._side = self._same + np.sign(side * self._side), side
        if len(errors) > OF_A_WINDOW:
            places = (np.arange(OF_A_WINDOW) + 0.5) / OF_A_WINDOW * len(errors)
            errors = errors[np.argsort(errors[:, self.best()])[places.astype(np.int64)]]
        self._windows += new
        self._learned += len(errors)
        latest = max(int(LATEST * self._learned), ENOUGH)
        kept = min(int(KEPT * (1 + behind / LATER)), MOST_KEPT, latest)
        self._errors = np.concatenate([self._errors, errors])[-kept:]
        self._sorted = None

    def _score(self, errors: Floats, sizes: Floats, below: float, above: float) -> Floats:
        low, high = self._at(np.array([below, 1 - above]), self._ordered())
        score = high - low
        if below:
            score = score + np.maximum(low - errors, 0) / below
        if above:
            score = score + np.maximum(errors - high, 0) / above
        return np.asarray((score * sizes).mean(axis=0))

    def pack(self) -> Floats:
        """All that a restart needs."""
        counts = [self._windows, self._learned]
        return np.concatenate([counts, self._scores, self._side, self._same, self._errors.ravel()])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`."""
        kinds = len(self._scores)
        self._windows, self._learned = packed[:2].astype(np.int64).tolist()
        fixed = packed[2 : 2 + 3 * kinds].reshape(3, kinds)
        self._scores, self._side, self._same = (part.copy() for part in fixed)
        self._errors, self._sorted = packed[2 + 3 * kinds :].reshape(-1, kinds).copy(), None
