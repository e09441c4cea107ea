"""Intervals that hold the final value with a stated share: split-conformal over the errors of past windows.

Errors come in scales of their group, so that those of all groups can stand side by side. Several guesses and scales
compete: an interval is the mean of theirs, and those count most that had the lowest score of Winkler (1972), width
and misses.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats

#: Windows: no interval before so many have become final.
ENOUGH = 5
#: Errors that are kept, of a window at most OF_A_WINDOW: its groups often err together. With so many windows
#: between an answer and its error (LATER) twice as many are kept, but never more than MOST_KEPT.
KEPT, OF_A_WINDOW, LATER, MOST_KEPT = 256, 16, 20, 1_024
#: The share of errors that is kept at the most: the first ones come from an untrained model.
LATEST = 0.85
#: Errors: intervals made of so many are twice as wide, of ten times as many a tenth wider.
FEW = 5
#: Beyond all known errors, an end that leaves a sixteenth outside is twice as far away.
TAIL = 0.25
#: What a score counts for when there is one more.
FADE = 0.995
#: A kind whose score is worse by a fiftieth counts a third as much as the best one. At first all are thought to be
#: alike, for AT_FIRST windows. The best one alone scores worse by up to 6 %.
SHARPER, AT_FIRST = 50.0, 20.0


class Conformal(Restorable):
    """Quantiles of scaled errors, (final − guess) / scale, by column and kind of guess and scale.

    >>> interval = Conformal(columns=1, kinds=2)
    >>> shares = np.array([0.05])
    >>> for error in (37 * np.arange(101) % 101 - 50).tolist():
    ...     interval.learn(np.array([[[error / 5, error / 10]]]), np.ones((1, 1, 2)), shares, shares)
    >>> interval.weights().round(2)
    array([[0., 1.]])
    >>> low, high = interval.ends(shares[None], shares[None])
    >>> low[0, 0].round(1), high[0, 0].round(1)
    (array([-9.6, -4.8]), array([9.6, 4.8]))
    """

    STATE: ClassVar[tuple[str, ...]] = ("_errors", "_scores", "_scored", "windows", "_learned")

    def __init__(self, columns: int, kinds: int) -> None:
        self._shape = columns, kinds
        self._errors = np.zeros((0, columns * kinds))
        self._scores = np.zeros((columns, kinds))
        self._scored = 0.0
        """Faded number of windows that were scored."""
        self.windows = self._learned = 0
        """Windows and errors, also those that are no longer kept."""
        self._sorted: Floats | None = None

    @property
    def ready(self) -> bool:
        """Whether enough is known for an interval."""
        return self.windows >= ENOUGH

    def weights(self) -> Floats:
        """How much each kind counts, by column: more, the better its intervals have scored."""
        scores = self._scores + AT_FIRST * self._scores[:, :1] / max(self._scored, 1.0)
        best = scores.min(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            weights = np.where(best > 0, (best / np.maximum(scores, best)) ** SHARPER, scores == best)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def ends(self, below: Floats, above: Floats) -> tuple[Floats, Floats]:
        """The ends, in scales, that leave such shares outside, by group, column and kind."""
        if self._sorted is None:
            self._sorted = np.sort(self._errors, axis=0).reshape(-1, *self._shape)
        count = len(self._sorted)
        middle = self._sorted[count // 2]
        wider = 1 + FEW / self._learned
        found = []
        for shares, places in ((below, below * (count + 1) - 1), (above, (1 - above) * (count + 1) - 1)):
            places = np.minimum(np.maximum(places, 0), count - 1)
            floor = places.astype(np.int64)
            part, columns = (places - floor)[:, :, None], np.arange(self._shape[0])
            above_it = self._sorted[np.minimum(floor + 1, count - 1), columns]
            end = self._sorted[floor, columns] * (1 - part) + above_it * part
            beyond = np.maximum(1 / (count + 1) / np.maximum(shares, 1e-3), 1.0) ** TAIL
            found.append(middle + (end - middle) * (wider * beyond)[:, :, None])
        return found[0], found[1]

    def learn(
        self, errors: Floats, sizes: Floats, below: Floats, above: Floats, behind: int = 0, new: bool = True
    ) -> None:
        """Errors of one window, by group, column and kind, and the sizes of their scales.

        They are scored with such shares outside, by column; where a share is 0, that end is what was seen. So many
        windows have been answered since. It is new unless other groups of it have been learned before.
        """
        if self.ready:
            low, high = (end[0] for end in self.ends(below[None], above[None]))
            under, over = (
                np.where(shares > 0, 1 / np.maximum(shares, 1e-9), 0.0)[:, None] for shares in (below, above)
            )
            misses = np.maximum(low - errors, 0) * under + np.maximum(errors - high, 0) * over
            width = high * (over > 0) - low * (under > 0)
            fade = FADE if new else 1.0
            self._scores = fade * self._scores + ((width + misses) * sizes).mean(axis=0)
            self._scored = fade * self._scored + 1
        if len(errors) > OF_A_WINDOW:
            places = ((np.arange(OF_A_WINDOW) + 0.5) / OF_A_WINDOW * len(errors)).astype(np.int64)
            errors = np.take_along_axis(errors, np.argsort(errors[:, :, :1], axis=0)[places], axis=0)
        self.windows += new
        self._learned += len(errors)
        kept = min(int(KEPT * (1 + behind / LATER)), MOST_KEPT, max(int(LATEST * self._learned), 2 * OF_A_WINDOW))
        self._errors = np.concatenate([self._errors, errors.reshape(len(errors), -1)])[-kept:]
        self._sorted = None

    def restore(self, state: dict[str, object]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._sorted = None
