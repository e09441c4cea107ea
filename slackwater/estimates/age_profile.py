"""The profile of early answers of one age: how much was missing, which guess came closest, how far it was off.

S5 answers with what has arrived (section 3.4). For counts and sums the rest can be guessed: from the seen rows and
the share that is usually in, or from what usually came after; the one that has been closer is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.aggregates.growth import Growth
from slackwater.estimates.accuracy import accuracy
from slackwater.estimates.completeness import FADE, Floats
from slackwater.estimates.conformal import Conformal
from slackwater.estimates.group_history import (
    COUNT,
    ERROR,
    FIGURES,
    FINAL,
    MOST_GROUPS,
    SEEN,
    SIZE,
    GroupHistory,
    Keys,
)
from slackwater.progress.sources import Ints

#: Guesses of one value that compete; the first is taken until others have been closer.
GUESSES = 6
#: By how much an other guess must have been closer, and over how many windows.
CLOSER = 0.97
TRIED = 8
#: From so few windows nothing is known, not even how far one is off.
BLIND = 4
#: History of all groups counts for so many windows of one group's own; the curve for so many of these.
COMMON = 4.0
FROM_CURVE = 2.0
#: With less than this share of the rows in, the rest is anybody's guess.
LEAST = 0.05
#: At the least so many rows are thought to be missing, however complete a window looks.
MISSING = 0.25
#: An error counts for at most so many times the usual one: one surprise does not make a group a wild one.
WILD = 8.0
#: Nor does an error in the number of rows beyond so many times those that are missing make arrivals wild.
FAR_OFF = 3.0


#: A guess may add the usual change to these; other values are best as they are seen.
_SHIFTS = {Growth.SETTLES, Growth.RISES, Growth.FALLS}
_SUMS = {Growth.COUNTS, Growth.ADDS}
_SIDES = {Growth.RISES: 1, Growth.FALLS: -1}


@dataclass
class Guess:
    """Early answers of one age, by group and column; the first column is the number of rows."""

    keys: Keys
    seen: Floats
    guesses: Floats
    """By group, column and guess."""
    center: Floats
    """The guess that was taken: errors are counted from it, and the interval is made around it."""
    estimate: Floats
    """What is said: the same, made to fit its type and its interval."""
    scale: Floats
    unit: Floats
    low: Floats
    high: Floats

    def take(self, places: Ints) -> Guess:
        """Some of the groups."""
        return Guess(self.keys[places], *(part[places] for part in self.parts()))

    def parts(self) -> list[Floats]:
        """All but the keys."""
        return [self.seen, self.guesses, self.center, self.estimate, self.scale, self.unit, self.low, self.high]

    @property
    def rest(self) -> Floats:
        """Rows that are believed to be missing."""
        return np.asarray(self.center[:, 0] - self.seen[:, 0])


class AgeProfile:
    """Learns from the windows that were answered early at about the same age, and guesses for the next ones."""

    def __init__(self, columns: list[Growth], coverage: float) -> None:
        self._columns = columns
        self.windows = 0
        self._latest: int | None = None
        """The last window that it has learned from."""
        self._common = np.zeros((len(columns), FIGURES))
        self._off = np.zeros((len(columns), GUESSES))
        """Faded relative errors of the guesses."""
        self._excess = np.array([0.1, 1.0])
        """Variance of the rest beyond that of independent arrivals, and what it is measured against."""
        self._groups = GroupHistory(len(columns))
        self._intervals = [Conformal(coverage, _SIDES.get(g, 0)) for g in columns]

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to choose between guesses."""
        return self.windows >= TRIED

    def guess(self, keys: Keys, seen: Floats, curve: Floats) -> Guess:
        """Estimates of final values, given what is seen and the completeness by the curve."""
        own = self._groups.of(keys)
        guesses = np.repeat(seen[:, :, None], GUESSES, axis=2)
        estimate = seen.copy()
        for j, growth in enumerate(self._columns):
            if growth in _SUMS:
                self._guess_sum(j, seen, guesses, estimate, own[:, j], curve)
            elif growth in _SHIFTS:
                count, early, final = own[:, j, COUNT], own[:, j, SEEN], own[:, j, FINAL]
                guesses[:, j, 1] += (final - early) / (count + FROM_CURVE)
            estimate[:, j] = guesses[:, j, self._choice(j)]
        rest = np.nan_to_num(estimate[:, 0] - seen[:, 0])
        unit = self._units(seen, rest, own)
        scale = unit * self._spread(own)
        low, high = self._bounds(seen, estimate, scale)
        return Guess(keys, seen, guesses, estimate, estimate.copy(), scale, unit, low, high)

    def completeness(self, guess: Guess, curve: Floats) -> Floats:
        """The share of each group's rows that is probably in; not a number where nothing is known."""
        seen, rows = guess.seen[:, 0], guess.center[:, 0]
        share = self._share(0, self._groups.of(guess.keys)[:, 0], curve)
        return np.where(rows > seen, seen / rows, share)

    def _choice(self, j: int) -> int:
        if not self.ready:
            return 0
        best = int(np.argmin(self._off[j]))
        return best if self._off[j, best] < CLOSER * self._off[j, 0] else 0

    def _guess_sum(
        self, j: int, seen: Floats, guesses: Floats, estimate: Floats, own: Floats, curve: Floats
    ) -> None:
        x, rows = seen[:, j], seen[:, 0]
        share = self._share(j, own, curve)
        ratio = x * (1 / np.where(share >= LEAST, share, np.nan) - 1)
        if j == 0:
            first = ratio
        else:  # rows that are missing, with values like those that are here
            first = (estimate[:, 0] - rows) * x / rows
            ratio = np.where(np.isnan(ratio), first, ratio)
        weight = own[:, COUNT] + FROM_CURVE
        usual = (own[:, FINAL] - own[:, SEEN] + FROM_CURVE * first) / weight
        whole = (own[:, FINAL] + FROM_CURVE * (x + first)) / weight - x  # as much in all as usual
        if self._columns[j] is Growth.COUNTS:
            whole = np.maximum(whole, 0.0)
        for k, rest in enumerate((first, usual, (first + usual) / 2, ratio, whole)):  # the last stays what is seen
            guesses[:, j, k] = x + np.where(np.isnan(rest), 0.0, rest)

    def _share(self, j: int, own: Floats, curve: Floats) -> Floats:
        """What share of a value is in: by the group's history, that of all groups, and the curve of the rows."""
        count, seen, final = self._common[j, COUNT], self._common[j, SEEN], self._common[j, FINAL]
        common = curve
        if count and 0 < seen / (final or -seen or -1.0) <= 1:
            share = seen / final
            common = np.where(np.isnan(curve), share, (count * share + FROM_CURVE * curve) / (count + FROM_CURVE))
        elif j:
            return np.full(len(own), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            mine = own[:, SEEN] / own[:, FINAL]
        usable = (mine > 0) & (mine <= 1)
        weight = np.where(usable, own[:, COUNT], 0.0)
        share = (weight * np.where(usable, mine, 0.0) + COMMON * common) / (weight + COMMON)
        return np.minimum(share, 1.0)

    def _units(self, seen: Floats, rest: Floats, own: Floats) -> Floats:
        """How far values would be off if rows came independently; groups of all sizes become comparable by it."""
        rows = seen[:, 0]
        missing = np.maximum(rest, MISSING)
        excess = max(self._excess[0] / self._excess[1], 0.0)
        arrivals = np.sqrt(missing + excess * missing**2)
        share = missing / (rows + missing)
        units = np.empty_like(seen)
        for j, growth in enumerate(self._columns):
            if growth in _SUMS:
                size = (np.abs(seen[:, j]) / rows + own[:, j, SIZE]) / (1 + own[:, j, COUNT])
                usual = self._common[j, SIZE] / max(self._common[j, COUNT], 1.0) or 1.0
                units[:, j] = arrivals if j == 0 else arrivals * np.where(size > 0, size, usual)
            elif growth is Growth.SETTLES:
                units[:, j] = np.sqrt(share / rows)
            elif growth is Growth.SPREADS:
                units[:, j] = share * np.maximum(seen[:, j], 1.0)
            elif growth is Growth.JUMPS:
                units[:, j] = 1.0
            else:
                units[:, j] = share
        return units

    def _spread(self, own: Floats) -> Floats:
        """How much larger than usual the errors of a group are, by its history."""
        usual = self._usual_error()
        size = np.where(usual > 0, own[:, :, ERROR] / np.where(usual > 0, usual, 1.0), own[:, :, COUNT])
        return (size + COMMON) / (own[:, :, COUNT] + COMMON)

    def _usual_error(self) -> Floats:
        """In units, over all groups; 0 where no error is known."""
        return np.asarray(self._common[:, ERROR] / np.maximum(self._common[:, COUNT], 1e-9))

    def _bounds(self, seen: Floats, estimate: Floats, scale: Floats) -> tuple[Floats, Floats]:
        low, high = np.full_like(seen, np.nan), np.full_like(seen, np.nan)
        for j, growth in enumerate(self._columns):
            ends = self._intervals[j].bounds()
            if ends is not None:
                low[:, j] = estimate[:, j] + ends[0] * scale[:, j]
                high[:, j] = estimate[:, j] + ends[1] * scale[:, j]
            # What is seen is the least that a maximum or a count can become, the most that a minimum can.
            if growth is Growth.RISES or growth is Growth.FALLS:
                near, far = (low, high) if growth is Growth.RISES else (high, low)
                near[:, j] = np.where(np.isnan(far[:, j]), np.nan, seen[:, j])
            if growth is Growth.RISES or growth is Growth.COUNTS:
                low[:, j], high[:, j] = np.maximum(low[:, j], seen[:, j]), np.maximum(high[:, j], seen[:, j])
            elif growth is Growth.FALLS:
                low[:, j] = np.minimum(low[:, j], seen[:, j])
        return low, high

    def learn(
        self, window: int, said: Guess, final: Floats, curve: Floats, behind: int, most: int = MOST_GROUPS
    ) -> None:
        """The same groups' final values have come, of one window; so many groups may be known one by one.

        Groups that close on their own heartbeats come one after the other; their window counts once. The first
        early answers are blind guesses without an interval. They are scored as they would be given now, with the
        history that is known by now.

        `behind` windows have been answered since. What comes so late is forgotten no faster than it is learned.
        """
        new = self._latest is None or window > self._latest
        if new:
            self.windows, self._latest = self.windows + 1, window
        blind = bool(np.isnan(said.low[:, 0]).any())
        guess = self.guess(said.keys, said.seen, curve) if blind else said
        fade = 1 - 1 / (1 / (1 - FADE) + behind)
        error = final - guess.center
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(final) / final[:, :1]
            score = np.where(error == 0, 0.0, error / guess.scale)
            ratio = np.where(error == 0, 0.0, np.abs(error) / guess.unit)
            usual = self._usual_error()
            ratio = np.minimum(ratio, np.where(usual > 0, WILD * usual * guess.scale / guess.unit, np.inf))
        figures = np.stack([np.ones_like(final), guess.seen, final, size, ratio], axis=2)
        self._groups.learn(guess.keys, figures, fade, most)
        self._learn_common(figures, fade)
        self._learn_guesses(guess, final, fade, blind)
        self._learn_excess(guess.rest, error[:, 0], fade)
        if self.windows <= BLIND:
            return
        outside = (final < guess.low) | (final > guess.high)
        for j, interval in enumerate(self._intervals):
            known = ~np.isnan(guess.low[:, j]) & ~np.isnan(final[:, j])
            missed = float(outside[known, j].mean()) if known.any() else None
            interval.learn(score[np.isfinite(score[:, j]), j], missed, behind, new)

    def _learn_common(self, figures: Floats, fade: float) -> None:
        for j in range(len(self._columns)):
            usable = figures[np.isfinite(figures[:, j]).all(axis=1), j]
            if len(usable):
                self._common[j] = fade * self._common[j] + usable.mean(axis=0)

    def _learn_guesses(self, guess: Guess, final: Floats, fade: float, blind: bool) -> None:
        """Note how far each guess was off.

        In hindsight windows are like the last ones before them, for they overlap; that is no sign of a good shift.
        """
        relative = 1 - accuracy(guess.guesses, final[:, :, None])
        known = np.asarray(~np.isnan(relative).any(axis=2))
        for j, growth in enumerate(self._columns):
            if known[:, j].any() and not (blind and growth in _SHIFTS):
                self._off[j] = fade * self._off[j] + relative[known[:, j], j].mean(axis=0)

    def _learn_excess(self, rest: Floats, error: Floats, fade: float) -> None:
        missing = np.maximum(rest, MISSING)
        square = np.minimum(error**2, FAR_OFF**2 * (missing**2 + 1))
        self._excess = fade * self._excess + [float((square - missing).mean()), float((missing**2).mean())]

    def pack(self) -> tuple[list[Ints], list[Floats]]:
        """All that a restart needs."""
        ints, floats = self._groups.pack()
        fixed = np.concatenate([self._common.ravel(), self._off.ravel(), self._excess])
        return (
            [np.array([self.windows] if self._latest is None else [self.windows, self._latest]), ints],
            [fixed, floats, *(i.pack() for i in self._intervals)],
        )

    def unpack(self, ints: list[Ints], floats: list[Floats]) -> None:
        """Continue from an earlier `pack()`."""
        self.windows, *latest = ints[0].tolist()
        self._latest = latest[0] if latest else None
        cuts = [self._common.size, self._common.size + self._off.size]
        common, off, self._excess = (a.copy() for a in np.split(floats[0], cuts))
        self._common, self._off = common.reshape(self._common.shape), off.reshape(self._off.shape)
        self._groups.unpack(ints[1], floats[1])
        for interval, packed in zip(self._intervals, floats[2:], strict=True):
            interval.unpack(packed)
