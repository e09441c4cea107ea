"""The profile of early answers of one age: how much was missing, which guess came closest, how far it was off.

Errors are divided by a scale: the error of independent rows, times how much larger the group's errors have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slackwater.aggregates.growth import Growth
from slackwater.estimates.arrival_variance import ArrivalVariance
from slackwater.estimates.completeness import FADE
from slackwater.estimates.conformal import Conformal, moved
from slackwater.estimates.early_guess import Guess
from slackwater.estimates.group_history import (
    CHANGED,
    COUNT,
    FINAL,
    LONG,
    LONG_FINAL,
    LONG_SEEN,
    MOST_GROUPS,
    OFF,
    SIZE,
    GroupHistory,
    Keys,
)
from slackwater.estimates.guesses import (
    EXPECTING,
    FROM_CURVE,
    GUESSES,
    PACED,
    SHIFTS,
    SUMS,
    guess_shift,
    guess_sum,
    share_in,
)
from slackwater.estimates.season import Season
from slackwater.estimates.season_width import SeasonWidth
from slackwater.estimates.small_arrays import finite, side_by_side, within
from slackwater.estimates.traffic import AS_USUAL, BY_PACE, AfterChanges, Pace, Traffic
from slackwater.progress.source_numbers import Floats, Ints

#: A group takes another guess than the first if that one has been closer by 3 % over TRIED windows.
CLOSER = 0.97
TRIED = 8
#: Windows of a group's own that the history of all groups weighs as much as: for its choice, and for its errors.
COMMON_CHOICE = 20.0
COMMON_SPREAD = 4.0
#: Windows: from the first ones we learn no errors, because those of an untrained model say nothing.
BLIND = 4
#: Windows: after this many, errors are known roughly.
MEASURED = 6
#: Rows: we assume that at least this many are missing, however complete a window looks.
LEAST_MISSING = 0.25
#: Times the usual error: larger errors are cut off here, so that one surprise does not spoil a group.
WILD = 3.0
#: Errors fade at this share of the speed at which figures of rows and values fade.
SLOWER = 0.2
#: Units by the rows that are usually missing, and by those that are missing now. Later errors do not rescale
#: earlier ones: else intervals lag behind a day, too narrow in the morning and too wide at night.
UNITS, USUAL, NOW = 2, 0, 1
#: Kinds of intervals that go by the pace, and that of the first guess.
FIRST_KINDS = [*range(UNITS)]
PACED_KINDS = [PACED * UNITS, PACED * UNITS + 1, *FIRST_KINDS]
_SIDES = {Growth.RISES: 1, Growth.FALLS: -1}


class AgeProfile:
    """Learns from the windows that were answered early at about the same age, and guesses for the next ones.

    Args:
        columns: how the number of rows, and each aggregate, grows.
        coverage: share of final values that should lie within their intervals.
        seasons: that there may be, each with its length in windows and in days.
        span: of a window, in slides.
    """

    def __init__(
        self, columns: list[Growth], coverage: float, seasons: Sequence[tuple[float, int]] = (), span: float = 1.0
    ) -> None:
        self._columns = columns
        self._target = 1 - coverage
        self._guesses = GUESSES + len(seasons)
        self.windows = 0
        self._latest: int | None = None
        """The last window that it has learned from."""
        self._common = np.zeros((len(columns), OFF + self._guesses))
        self._traffic = Traffic()
        self._changes = AfterChanges(len(columns))
        self._arrivals = ArrivalVariance()
        self._outside = np.full(len(columns), self._target)
        self._groups = GroupHistory(len(columns), OFF + self._guesses)
        self._kinds = [*range(self._guesses * UNITS)]
        self._unusual = [kind for kind in self._kinds if kind // UNITS not in EXPECTING]
        """Kinds of intervals, and those that do not expect what was usual."""
        self._intervals = [Conformal(len(self._kinds)) for _ in columns]
        self._seasons = [Season(length, days, span, len(columns)) for length, days in seasons]
        self._widths = [SeasonWidth(length, len(columns)) for length, _ in seasons[:1]]
        """Of the day: a week comes too rarely to tell how large errors are in it."""

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to choose between guesses."""
        return self.windows >= TRIED

    def guess(self, window: Floats, keys: Keys, seen: Floats, curve: Floats, traffic: Floats) -> Guess:
        """Estimates of final values, given what is seen, the completeness by the curve and the traffic figures."""
        own = self._groups.of(keys)
        faster = [s.faster(window) for s in self._seasons]
        left = [s.left(window) for s in self._seasons]
        shifts = [s.shift(window) for s in self._seasons]
        guesses = np.repeat(seen[:, :, None], self._guesses, axis=2)
        center = seen.copy()
        rows = np.arange(len(keys))
        missing, pace = np.zeros(len(keys)), self._traffic.pace(seen[:, 0], own[:, 0], traffic)
        spread, unit = self._spread(own) / self._level()[:, None], np.ones((*seen.shape, UNITS))
        for j, growth in enumerate(self._columns):
            by_pace = self._changes.best(j) == BY_PACE
            if growth in SUMS:
                values = None if j == 0 else (center[:, 0] - seen[:, 0]) * seen[:, j] / seen[:, 0]
                seasons = [(f, more[:, j]) for f, more in zip(faster, left, strict=True)]
                share = share_in(own[:, j], self._common[j], curve, rows=j == 0)
                mine = self._pace(j, pace)
                guesses[:, j] = guess_sum(growth, seen[:, j], share, own[:, j], values, mine, by_pace, seasons)
            elif growth in SHIFTS:
                scale = spread[:, j, 0] * unit[:, j, USUAL]
                guesses[:, j] = guess_shift(seen[:, j], missing, own[:, j], [by[:, j] * scale for by in shifts])
            choice = self._choice(j, own[:, j])
            if growth in SUMS and by_pace and self._intervals[j].best(PACED_KINDS) // UNITS == PACED:
                choice[pace.known & ~pace.usual] = PACED
            center[:, j] = guesses[rows, j, choice]
            if j == 0:
                missing = finite(1 - seen[:, 0] / np.maximum(center[:, 0], seen[:, 0]))
                unit = self._units(seen, finite(center[:, 0] - seen[:, 0]), own)
                for width in self._widths:
                    unit[:, :, NOW] *= width.at(window)
        low, high = self._bounds(keys, seen, guesses, spread, unit, pace)
        return Guess(keys, seen, guesses, center, unit, spread, low, high, own[:, :, LONG].copy(), traffic)

    def _pace(self, j: int, pace: Pace) -> Pace:
        """The pace of a count or sum, if windows unlike those before have gone by it."""
        return pace.as_usual() if self._changes.best(j) == AS_USUAL else pace

    def completeness(self, guess: Guess, curve: Floats) -> Floats:
        """The share of each group's rows that is probably in; not a number where nothing is known."""
        seen, rows = guess.seen[:, 0], guess.center[:, 0]
        share = share_in(self._groups.of(guess.keys)[:, 0], self._common[0], curve, rows=True)
        return np.where(rows > seen, seen / rows, share)

    def _choice(self, j: int, own: Floats) -> Ints:
        """The guess that has been closest for each group."""
        if not self.ready or not self._common[j, LONG]:
            return np.zeros(len(own), np.int64)
        common = self._common[j, OFF:] / self._common[j, LONG]
        off = (own[:, OFF:] + COMMON_CHOICE * common) / (own[:, [LONG]] + COMMON_CHOICE)
        best = np.argmin(off, axis=1)
        closer = off[np.arange(len(off)), best] < CLOSER * off[:, 0]
        return np.where(closer, best, 0)

    def _units(self, seen: Floats, rest: Floats, own: Floats) -> Floats:
        """How far values would be off if rows came independently; groups of all sizes become comparable by it."""
        count = own[:, 0, LONG] + FROM_CURVE
        usual = (own[:, 0, LONG_FINAL] - own[:, 0, LONG_SEEN] + FROM_CURVE * rest) / count
        usual_rows = (own[:, 0, LONG_SEEN] + FROM_CURVE * seen[:, 0]) / count
        units = np.empty((*seen.shape, UNITS))
        for u, (rows, missing) in enumerate(((usual_rows, usual), (seen[:, 0], rest))):
            missing = np.maximum(missing, LEAST_MISSING)
            arrivals = np.sqrt(missing if u == USUAL else self._arrivals.at(missing))
            share = missing / (rows + missing)
            for j, growth in enumerate(self._columns):
                if growth in SUMS:
                    size = (np.abs(seen[:, j]) / seen[:, 0] + own[:, j, SIZE]) / (1 + own[:, j, COUNT])
                    typical = self._common[j, SIZE] / max(self._common[j, COUNT], 1.0) or 1.0
                    units[:, j, u] = arrivals if j == 0 else arrivals * np.where(size > 0, size, typical)
                elif growth is Growth.SETTLES:
                    units[:, j, u] = np.sqrt(share / rows)
                elif growth is Growth.SPREADS:
                    units[:, j, u] = share * np.maximum(seen[:, j], 1.0)
                elif growth is Growth.JUMPS:
                    units[:, j, u] = 1.0
                else:
                    units[:, j, u] = share
        return units

    def _spread(self, own: Floats) -> Floats:
        """How many units the errors of each guess have had: those of the group, and of all groups."""
        usual = self._common[:, OFF:] / np.maximum(self._common[:, [LONG]], 1e-9)
        spread = (own[:, :, OFF:] + COMMON_SPREAD * usual) / (own[:, :, [LONG]] + COMMON_SPREAD)
        return np.where(spread > 0, spread, 1.0)

    def _level(self) -> Floats:
        """How many units the errors of the first guess have had lately, over all groups, by column."""
        level = self._common[:, OFF] / np.maximum(self._common[:, LONG], 1e-9)
        return np.where(level > 0, level, 1.0)

    def _split(self, j: int, outside: Floats) -> tuple[Floats, Floats]:
        """The shares that are left outside below and above.

        Where a maximum often stays as it is seen, no final value lies below: all of the share is above.
        """
        side = _SIDES.get(self._columns[j], 0)
        if side and self._common[j, CHANGED] < (1 - self._target / 2) * self._common[j, LONG]:
            none = np.zeros_like(outside)
            return (none, outside) if side > 0 else (outside, none)
        return outside / 2, outside / 2

    def _bounds(
        self, keys: Keys, seen: Floats, guesses: Floats, spread: Floats, unit: Floats, pace: Pace
    ) -> tuple[Floats, Floats]:
        """Of a window unlike those before, intervals that expect the usual say nothing."""
        low, high = np.full_like(seen, np.nan), np.full_like(seen, np.nan)
        outside = self._groups.outside(keys, self._outside)
        all_groups: list[tuple[list[int], Any]] = [(self._kinds, slice(None))]
        for j, growth in enumerate(self._columns):
            interval = self._intervals[j]
            if interval.ready:
                usual = growth not in SUMS or bool(self._pace(j, pace).usual.all())
                for kinds, mine in all_groups if usual else self._by_pace(j, pace):
                    some, weights = interval.weights(kinds)
                    guess, scale = np.divmod(some, UNITS)
                    scales = spread[mine, j][:, guess] * unit[mine, j][:, scale]
                    more = guesses[mine, j][:, guess] - seen[mine, j, None]
                    shares = self._split(j, outside[mine, j])
                    for ends, share, end in zip((low, high), shares, interval.bounds(some, *shares), strict=True):
                        # Where nothing is left outside, or nothing is added, what is seen stays as it is.
                        ends[mine, j] = seen[mine, j] + np.where(share > 0, (more + end * scales) @ weights, 0.0)
            # What is seen is the least that a maximum or a count can become, the most that a minimum can.
            if growth is Growth.RISES or growth is Growth.COUNTS:
                low[:, j], high[:, j] = np.maximum(low[:, j], seen[:, j]), np.maximum(high[:, j], seen[:, j])
            elif growth is Growth.FALLS:
                low[:, j], high[:, j] = np.minimum(low[:, j], seen[:, j]), np.minimum(high[:, j], seen[:, j])
            elif growth is Growth.JUMPS:  # what is left as it is seen lies within its interval
                low[:, j], high[:, j] = np.minimum(low[:, j], seen[:, j]), np.maximum(high[:, j], seen[:, j])
        return low, high

    def _by_pace(self, j: int, pace: Pace) -> list[tuple[list[int], Any]]:
        """The kinds of intervals of a sum, each with the groups that they are for."""
        unlike = ~pace.usual
        paced = PACED_KINDS if self._changes.best(j) == BY_PACE else FIRST_KINDS
        sets = (self._kinds, pace.usual), (paced, unlike & pace.known), (self._unusual, unlike & ~pace.known)
        return [(kinds, mine) for kinds, mine in sets if mine.any()]

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
        guess = said
        if blind:
            windows = np.full(len(said.keys), float(window))
            guess = self.guess(windows, said.keys, said.seen, curve, said.traffic)
        fade = np.full(OFF + self._guesses, 1 - 1 / (1 / (1 - FADE) + behind))
        fade[LONG:] = 1 - SLOWER * (1 - fade[0])
        known = ~np.isnan(guess.low) & ~np.isnan(final)
        missed = np.where(known, (final < guess.low) | (final > guess.high), np.nan)
        outside = moved(
            self._groups.outside(guess.keys, self._outside),
            self._target,
            missed,
            guess.known,
            behind,
            self._groups.many,
        )
        errors = final[:, :, None] - guess.guesses
        scales = guess.spread[:, :, :, None] * guess.unit[:, :, None, :]
        if self.windows > MEASURED:
            self._learn_intervals(errors, scales, behind, new)
            share = np.nansum(missed, axis=0) / np.maximum(known.sum(axis=0), 1)
            share[~known.any(axis=0)] = np.nan
            self._outside = moved(self._outside, self._target, share, self._common[:, LONG], behind)
        figures = self._figures(guess, final, errors, scales, blind)
        self._learn_changes(guess, final, figures)
        self._groups.learn(guess.keys, figures, fade, outside, most)
        self._learn_common(figures, fade)
        if new and self.windows > BLIND:
            self._traffic.learn(guess.traffic[0], float(fade[LONG]))
        missing = np.maximum(guess.rest, LEAST_MISSING)
        self._arrivals.learn(missing, final[:, 0] - guess.center[:, 0], float(fade[LONG]))
        self._learn_seasons(window, guess, final, new, behind)

    def _figures(self, guess: Guess, final: Floats, errors: Floats, scales: Floats, blind: bool) -> Floats:
        """What the groups' histories get of a window."""
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(final) / final[:, :1]
            missing = within(1 - guess.seen[:, :1] / final[:, :1], 0, 1) + np.zeros_like(final)
            # Where most errors are nothing, the others are many times their mean.
            own = self._groups.of(guess.keys)
            changed = (own[:, :, CHANGED] + 1) / (own[:, :, LONG] + 1)
            most = WILD * self._level()[:, None] * scales[:, :, :, USUAL] / np.sqrt(changed)[:, :, None]
            off = np.minimum(np.abs(errors), most if self.ready else np.inf)
            off /= guess.unit[:, :, [USUAL]]
        if blind:  # In hindsight windows are like the last ones before them: that is no sign of a good shift.
            for j, growth in enumerate(self._columns):
                if growth in SHIFTS:
                    off[:, j] = off[:, j, :1]
        one = np.ones_like(final)
        varied = np.abs(guess.seen - own[:, :, LONG_SEEN] / np.maximum(own[:, :, LONG], 1.0))
        lasting = [one, guess.seen, final, (final != guess.seen) * 1.0, np.where(own[:, :, LONG] > 0, varied, 0.0)]
        parts = [one, guess.seen, final, size, missing, *lasting]
        figures = np.concatenate([side_by_side(parts), off], axis=2)
        if self.windows <= BLIND:  # errors of those who know nothing: it takes long to forget them
            figures[:, :, LONG:] = 0.0
        return figures

    def _learn_changes(self, guess: Guess, final: Floats, figures: Floats) -> None:
        """How far off windows unlike those before were: by their pace, by what was seen of them, and as usual."""
        own = self._groups.of(guess.keys)
        pace = self._traffic.pace(guess.seen[:, 0], own[:, 0], guess.traffic)
        unlike = pace.known & ~pace.usual
        if unlike.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                as_usual = np.abs(final - own[:, :, FINAL] / own[:, :, COUNT]) / guess.unit[:, :, USUAL]
            errors = [figures[:, :, OFF + PACED], figures[:, :, OFF], as_usual]
            self._changes.learn(side_by_side(errors)[unlike])

    def _learn_common(self, figures: Floats, fade: Floats) -> None:
        for j in range(len(self._columns)):
            usable = figures[np.isfinite(figures[:, j]).all(axis=1), j]
            if len(usable):
                self._common[j] = fade * self._common[j] + usable.mean(axis=0)

    def _learn_seasons(self, window: int, guess: Guess, final: Floats, new: bool, behind: int) -> None:
        usual = self._common[0, FINAL] / self._common[0, COUNT] * len(final)
        rows = float(guess.traffic[0, 0]) if new else np.nan
        shifts = self._shifts(guess, final)
        for season in self._seasons:
            faster = season.faster(np.array([float(window)]))[0]
            first = finite(guess.seen + (guess.guesses[:, :, 0] - guess.seen) * faster).sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.nansum(final, axis=0) / first - 1
            weight = min(float(first[0] / max(usual, 1.0)), 4.0)
            season.learn(window, rows, shares, shifts, weight, behind)
        for width in self._widths:
            width.learn(window, self._sizes(guess, final) * width.at(np.array([float(window)]))[0], behind)

    def _shifts(self, guess: Guess, final: Floats) -> Floats:
        """By how many scales late rows moved averages, over all groups, by column; extremes know no season."""
        settles = np.array([growth is Growth.SETTLES for growth in self._columns])
        return np.where(settles, guess.in_scales(final - guess.seen, USUAL, WILD * self._level()), 0.0)

    def _sizes(self, guess: Guess, final: Floats) -> Floats:
        """How many scales estimates were off, over all groups, by column; extremes know no season."""
        known = np.array([growth in SUMS or growth is Growth.SETTLES for growth in self._columns])
        return np.where(known, guess.in_scales(np.abs(final - guess.center), NOW, WILD * self._level()), 0.0)

    def _learn_intervals(self, errors: Floats, scales: Floats, behind: int, new: bool) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(errors == 0, 0.0, errors)[:, :, :, None] / scales
            sizes = scales / scales[:, :, :1, [USUAL]]
        for j in range(len(self._columns)):
            usable = np.isfinite(scores[:, j]).all(axis=(1, 2))
            count = np.count_nonzero(usable)
            if not count:
                continue
            shares = self._split(j, np.array([self._target]))
            by_kind = scores[usable, j].reshape(count, -1), sizes[usable, j].reshape(count, -1)
            below, above = (float(s[0]) for s in shares)
            self._intervals[j].learn(*by_kind, below, above, behind, new)

    # --- the journal

    def _arrays(self) -> list[Floats]:
        return [self._common, self._arrivals.sums, self._outside, self._traffic.sums, self._changes.sums]

    def _learned(self) -> list[Conformal | Season | SeasonWidth]:
        return [*self._intervals, *self._seasons, *self._widths]

    def pack(self) -> tuple[list[Ints], list[Floats]]:
        """All that a restart needs."""
        ints, floats = self._groups.pack()
        fixed = np.concatenate([a.ravel() for a in self._arrays()])
        windows = np.array([self.windows] if self._latest is None else [self.windows, self._latest])
        return [windows, ints], [fixed, floats, *(one.pack() for one in self._learned())]

    def unpack(self, ints: list[Ints], floats: list[Floats]) -> None:
        """Continue from an earlier `pack()`."""
        self.windows, *latest = ints[0].tolist()
        self._latest = latest[0] if latest else None
        arrays = self._arrays()
        parts = np.split(floats[0], np.cumsum([a.size for a in arrays])[:-1])
        for array, part in zip(arrays, parts, strict=True):
            array[...] = part.reshape(array.shape)
        self._groups.unpack(ints[1], floats[1])
        for one, packed in zip(self._learned(), floats[2:], strict=True):
            one.unpack(packed)
