"""The profile of early answers of one age: what is still to come, and how far guesses of it were off.

Guesses compete, and a mix of them is learned (`Ridge`). Windows unlike those before, as where sources fall silent,
have intervals of their own, made of the errors in such windows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from slackwater.aggregates.growth import Growth
from slackwater.estimates.completeness import FADE
from slackwater.estimates.conformal import LATER, Conformal
from slackwater.estimates.group_history import MOST_GROUPS, GroupHistory, Keys
from slackwater.estimates.guesses import (
    ADDED,
    BORROWED,
    CHANGED,
    FIGURES,
    GUESSES,
    LONG,
    LONG_SEEN,
    MIX,
    NOW,
    OFF,
    OUTSIDE,
    PACED,
    SHARE,
    SHIFTS,
    SUMS,
    UNITS,
    USUAL,
    VARIED,
    WAVY,
    WAYS,
    Flags,
    rests,
    units,
)
from slackwater.estimates.ridge import Ridge
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints

#: Another guess is taken instead of the first if it has been closer by 3 %, and that over TRIED windows.
CLOSER, TRIED = 0.97, 8
#: From the first windows only rows and values are learned: errors of those who know nothing tell nothing.
BLIND = 2
#: Errors and histories of groups fade at this share of the speed of what rows and values are like lately.
SLOWER = 0.2
#: What the mix has learned counts for this much when there is one more window: a day of 144 is known after a few.
MIX_FADE = 0.997
#: What the mix has left is expected again if it lasted: over the last ten windows.
LEFT_FADE = 0.9
#: Share of a season: errors that are known later than that tell of another time of the day.
LATE = 0.25
#: Times the usual error: a larger one counts for no more.
WILD = 3.0
#: Waves of a day.
WAVES = np.arange(1.0, 5.0)
#: Intervals become at most so many times as wide by the time of the day.
WIDER = 2.0
#: A window is unlike those before if its rows, or those that came last, differ by more than so many times what they
#: usually do; at first that is thought to be chance, for AT_FIRST windows.
UNLIKE, AT_FIRST = 4.0, 2.0
#: By how much a miss moves the share left outside (adaptive conformal inference, Gibbs and Candès 2021), once
#: SETTLED windows are known; within LEAST_OUTSIDE and MOST_OUTSIDE times the target.
STEP, SETTLED, LEAST_OUTSIDE, MOST_OUTSIDE = 0.007, 50.0, 0.002, 4.0


@dataclass
class Guess:
    """Early answers of one age, by group and column; the first column is the number of rows."""

    keys: Keys
    seen: Floats
    recent: Floats
    """Rows of all groups that came last, and their usual number."""
    guesses: Floats
    center: Floats
    """The guess that was taken; `fit_to_type` makes it fit its type and its interval."""
    features: Floats
    """What the mix is made of, by group, column and feature; the last ones are waves and what was left."""
    waves: Floats
    unit: Floats
    spread: Floats
    """How many units errors have had, by group, column and guess."""
    low: Floats
    high: Floats
    known: Floats
    """How many windows of the group are known; with few of them the interval is that of other groups."""
    unlike: Floats
    """1 for a window unlike those before."""

    def parts(self) -> list[Floats]:
        """All but the keys."""
        return [getattr(self, field.name) for field in fields(self)[1:]]

    def take(self, places: Ints) -> Guess:
        """Some of the groups."""
        return Guess(self.keys[places], *(part[places] for part in self.parts()))

    def joined(self, others: Sequence[Guess]) -> Guess:
        """These groups and those of others."""
        every = [self, *others]
        parts = (np.concatenate(part) for part in zip(*(guess.parts() for guess in every), strict=True))
        return Guess(np.concatenate([guess.keys for guess in every]), *parts)


class AgeProfile(Restorable):
    """Learns from the windows that were answered early at about the same age, and guesses for the next ones.

    Args:
        columns: how the number of rows, and each aggregate, grows.
        coverage: share of final values that should lie within their intervals.
        season: after how many windows the stream repeats itself, if it may.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "windows", "_latest", "_common", "_outside", "_recent", "_left", "_groups", "_usual", "_unlike",
        "_mix", "_width",
    )  # fmt: skip

    def __init__(self, columns: Sequence[Growth], coverage: float, season: float | None = None) -> None:
        def of(*some: Growth) -> Flags:
            return np.array([growth in some for growth in columns])

        n = len(columns)
        self._columns, self._target, self._season = columns, 1 - coverage, season
        self._sums, self._shifts = of(*SUMS), of(*SHIFTS)
        self._rises, self._falls = of(Growth.RISES, Growth.COUNTS), of(Growth.FALLS)
        self._stays = of(Growth.JUMPS)
        self._side = of(Growth.RISES) * 1 - of(Growth.FALLS) * 1
        self.windows = 0
        self._latest: int | None = None
        """The last window that it has learned from."""
        self._common = np.zeros((n, FIGURES))
        self._outside = np.full(n, self._target)
        self._recent = np.zeros(2)
        """How many windows, and by how many rows those that came last differed from the usual."""
        self._left = np.zeros((n, 2))
        self._groups = GroupHistory(n * FIGURES)
        self._usual, self._unlike = Conformal(n, GUESSES * UNITS), Conformal(n, GUESSES * UNITS)
        waves = 0 if season is None else 2 * len(WAVES)
        prior = np.zeros((n, WAYS + waves + 1))
        prior[self._sums, SHARE] = prior[self._sums, ADDED] = 0.5
        self._mix, self._width = Ridge(prior), Ridge(np.eye(1, 1 + waves).repeat(n, axis=0))

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to choose between guesses."""
        return self.windows >= TRIED

    def guess(self, window: Floats, keys: Keys, seen: Floats, curve: Floats, recent: Floats) -> Guess:
        """Estimates of final values: from what is seen, the curve, and the rows that came last."""
        n, c = seen.shape
        own = self._groups.of(keys).reshape(n, c, FIGURES)
        guesses = np.empty((n, c, GUESSES))
        guesses[:, :, :WAYS] = rests(seen, curve, recent, own, self._common, self._sums, self._shifts)
        unit = units(self._columns, seen, np.maximum(guesses[:, 0, :WAYS].mean(axis=1), 0), own)
        waves = np.ones((n, 1))
        if self._season is not None:
            angle = 2 * np.pi * window[:, None] / self._season * WAVES
            waves = np.concatenate([waves, np.cos(angle), np.sin(angle)], axis=1)
        level = np.where(self._sums, guesses[:, :, SHARE], unit[:, :, USUAL] * self._level() * self._shifts)
        left = self._left[:, 1] / np.maximum(self._left[:, 0], 1e-9)
        varying = [guesses[:, :, :WAYS], level[:, :, None] * waves[:, None, 1:], (level * left)[:, :, None]]
        features = np.concatenate(varying, axis=2)
        guesses[:, :, MIX] = self._mix.at(features)
        guesses[:, 0, MIX] = np.maximum(guesses[:, 0, MIX], 0)
        rest = guesses.copy()
        guesses += seen[:, :, None]
        center = np.take_along_axis(guesses, self._choice(own)[:, :, None], axis=2)[:, :, 0]
        unlike = self._is_unlike(seen[:, 0], recent, own[:, 0])
        if unlike.any():
            weights = self._unlike.weights().reshape(c, GUESSES, UNITS).sum(axis=2)
            mean = (guesses * weights).sum(axis=2) if self._unlike.ready else guesses[:, :, PACED]
            center = np.where(unlike[:, None] & self._sums, mean, center)
        more: Floats = np.maximum(np.nan_to_num(center[:, 0] - seen[:, 0]), 0)
        unit = units(self._columns, seen, more, own)
        waves = waves[:, None, :].repeat(c, axis=1)
        unit[:, :, WAVY] *= self._wider(waves)
        spread = self._spread(own)
        low, high = self._bounds(seen, rest, spread, unit, own, unlike)
        known = own[:, :, LONG].copy()
        parts = [guesses, center, features, waves, unit, spread, low, high, known, unlike.astype(float)]
        return Guess(keys, seen, recent, *parts)

    def completeness(self, guess: Guess, curve: Floats) -> Floats:
        """The share of each group's rows that is probably in; not a number where nothing is known."""
        seen, rows = guess.seen[:, 0], guess.center[:, 0]
        return np.where(rows > seen, seen / rows, 1.0 if self.windows else curve)

    def _wider(self, waves: Floats) -> Floats:
        """How many times as large errors are at this time of the day."""
        return np.minimum(np.maximum(self._width.at(waves), 1 / WIDER), WIDER)

    def _level(self) -> Floats:
        """How many units the errors of the first guess have had lately, over all groups, by column."""
        level = self._common[:, OFF] / np.maximum(self._common[:, LONG], 1e-9)
        return np.where(level > 0, level, 1.0)

    def _mean_off(self, own: Floats) -> Floats:
        """How many units the errors of each guess have had: those of the group, and of all groups."""
        usual = self._common[:, OFF:] / np.maximum(self._common[:, [LONG]], 1e-9)
        return np.asarray((own[:, :, OFF:] + BORROWED * usual) / (own[:, :, [LONG]] + BORROWED))

    def _spread(self, own: Floats) -> Floats:
        spread = self._mean_off(own)
        return np.where(spread > 0, spread, 1.0) / self._level()[:, None]

    def _choice(self, own: Floats) -> Ints:
        """The guess that has been closest for each group."""
        off = self._mean_off(own)
        closer = off.min(axis=2) < CLOSER * off[:, :, SHARE] if self.ready else np.zeros(off.shape[:2], bool)
        return np.where(closer, np.argmin(off, axis=2), SHARE)

    def _is_unlike(self, rows: Floats, recent: Floats, own: Floats) -> Flags:
        """Whether windows are unlike those before: in their rows, or in those that came last."""
        n = np.maximum(own[:, LONG], 1)
        usual = own[:, LONG_SEEN] / n
        varies = (own[:, VARIED] + AT_FIRST * np.sqrt(usual)) / (own[:, LONG] + AT_FIRST)
        windows, varied = self._recent
        lately = (varied + AT_FIRST * np.sqrt(recent[:, 1])) / (windows + AT_FIRST)
        far = (own[:, LONG] >= AT_FIRST) & (np.abs(rows - usual) > 1 + UNLIKE * varies)
        return np.asarray(far | (np.abs(recent[:, 0] - recent[:, 1]) > 1 + UNLIKE * lately))

    def _split(self, outside: Floats) -> tuple[Floats, Floats]:
        """The shares that are left outside below and above.

        Where a maximum often stays as it is seen, no final value lies below: all of the share is above.
        """
        stays = self._common[:, CHANGED] < (1 - self._target / 2) * self._common[:, LONG]
        side = self._side * stays
        return outside * (1 - side) / 2, outside * (1 + side) / 2

    def _bounds(
        self, seen: Floats, rest: Floats, spread: Floats, unit: Floats, own: Floats, unlike: Flags
    ) -> tuple[Floats, Floats]:
        if not self._usual.ready:
            return np.full_like(seen, np.nan), np.full_like(seen, np.nan)
        below, above = self._split(np.where(own[:, :, OUTSIDE] > 0, own[:, :, OUTSIDE], self._outside))
        scales = (spread[:, :, :, None] * unit[:, :, None, :]).reshape(*seen.shape, -1)
        rest = np.repeat(rest, UNITS, axis=2)

        def ends(interval: Conformal, whole: bool) -> tuple[Floats, Floats]:
            lows, highs = interval.ends(below, above)
            lows, highs = rest + lows * scales, rest + highs * scales
            if whole:  # no errors of such windows are known: whatever any guess allows
                return lows.min(axis=2), highs.max(axis=2)
            weights = interval.weights()
            return (lows * weights).sum(axis=2), (highs * weights).sum(axis=2)

        low, high = ends(self._usual, whole=False)
        if unlike.any():
            ready, which = self._unlike.ready, unlike[:, None] & self._sums
            lows, highs = ends(self._unlike if ready else self._usual, whole=not ready)
            low, high = np.where(which, lows, low), np.where(which, highs, high)
        # A value that is left as it is seen lies within its interval.
        low, high = (np.where(self._stays, end(0.0, by), by) for end, by in ((np.minimum, low), (np.maximum, high)))
        # Where nothing is left outside, what is seen stays as it is. It is the least that a count can become.
        low, high = seen + np.where(below > 0, low, 0.0), seen + np.where(above > 0, high, 0.0)
        low = np.where(self._rises, np.maximum(low, seen), np.where(self._falls, np.minimum(low, seen), low))
        return low, np.where(
            self._rises, np.maximum(high, seen), np.where(self._falls, np.minimum(high, seen), high)
        )

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
        n, c = final.shape
        guess = said
        if np.isnan(said.low[:, 0]).any():
            guess = self.guess(np.full(n, float(window)), said.keys, said.seen, curve, said.recent)
        own = self._groups.of(guess.keys).reshape(n, c, FIGURES)
        quick = 1 / (1 / (1 - FADE) + behind) if new else 0.0
        fade = np.full(FIGURES, 1 - SLOWER * quick)
        fade[:LONG] = 1 - quick
        errors = final[:, :, None] - guess.guesses
        with np.errstate(all="ignore"):
            if self.windows > BLIND:
                self._learn_intervals(guess, errors, behind, new)
            outside = self._learn_outside(guess, final, own, behind)
            figures = self._figures(guess, final, errors, own)
            usable: Flags = np.asarray(np.isfinite(figures).all(axis=2))
            kept = np.where(usable[:, :, None], fade * own + np.where(usable[:, :, None], figures, 0.0), own)
            kept[:, :, OUTSIDE] = outside
            self._groups.put(guess.keys, kept.reshape(n, -1), most)
            count = usable.sum(axis=0)[:, None]
            mean = np.where(usable[:, :, None], figures, 0.0).sum(axis=0) / np.maximum(count, 1)
            self._common = np.where(count > 0, fade * self._common + mean, self._common)
            self._learn_mix(guess, final, behind, new)
        if new and np.isfinite(guess.recent[0]).all():
            differs = abs(guess.recent[0, 0] - guess.recent[0, 1])
            self._recent = fade[LONG] * self._recent + [1.0, differs]

    def _learn_intervals(self, guess: Guess, errors: Floats, behind: int, new: bool) -> None:
        scales = guess.spread[:, :, :, None] * guess.unit[:, :, None, :]
        scores = (np.where(errors == 0, 0.0, errors)[:, :, :, None] / scales).reshape(*errors.shape[:2], -1)
        sizes = (scales / scales[:, :, :1, :1]).reshape(scores.shape)
        usable = np.asarray(np.isfinite(scores).all(axis=(1, 2)))
        below, above = self._split(np.full(len(self._columns), self._target))
        for which, interval in enumerate((self._usual, self._unlike)):
            mine: Flags = usable & (guess.unlike == which)
            if mine.any():
                interval.learn(scores[mine], sizes[mine], below, above, behind, new)

    def _learn_outside(self, guess: Guess, final: Floats, own: Floats, behind: int) -> Floats:
        """The shares that are left outside after intervals have missed or held, of the groups and in common.

        The first misses teach little: guesses are still new. So a miss moves less while few windows are known.
        """
        known: Floats = (~np.isnan(guess.low) & ~np.isnan(final)).astype(float)
        missed: Floats = known * ((final < guess.low) | (final > guess.high))
        step = STEP / (1 + behind / LATER)
        count = known.sum(axis=0)
        share = missed.sum(axis=0) / np.maximum(count, 1)
        moved = step * np.minimum(self._common[:, LONG] / SETTLED, 1.0) * np.where(count, self._target - share, 0.0)
        before = np.where(own[:, :, OUTSIDE] > 0, own[:, :, OUTSIDE], self._outside)
        by_group = step * (1 + self._groups.many) * np.minimum(guess.known / SETTLED, 1.0) * known
        least, most = LEAST_OUTSIDE, MOST_OUTSIDE * self._target
        self._outside = np.minimum(np.maximum(self._outside + moved, least), most)
        return np.asarray(np.minimum(np.maximum(before + by_group * (self._target - missed), least), most))

    def _figures(self, guess: Guess, final: Floats, errors: Floats, own: Floats) -> Floats:
        """What the groups' histories get of a window."""
        one, seen, long = np.ones_like(final), guess.seen, own[:, :, LONG]
        # Where most errors are nothing, the others are many times their mean.
        changed = (own[:, :, CHANGED] + 1) / (long + 1)
        most = WILD * self._level()[:, None] * guess.spread / np.sqrt(changed)[:, :, None]
        off = np.minimum(np.abs(errors) / guess.unit[:, :, [USUAL]], most if self.ready else np.inf)
        varied = np.where(long > 0, np.abs(seen - own[:, :, LONG_SEEN] / np.maximum(long, 1.0)), 0.0)
        size = np.abs(final) / final[:, :1]
        lasting = [one, seen, final, (final != seen) * 1.0, varied, 0 * one]
        figures = np.concatenate([np.stack([one, seen, final, size, *lasting], axis=2), off], axis=2)
        if self.windows <= BLIND:  # errors of those who know nothing: it takes long to forget them
            figures[:, :, LONG:] = 0.0
        return figures

    def _learn_mix(self, guess: Guess, final: Floats, behind: int, new: bool) -> None:
        """In units: what the mix should have been, what it left, and how large errors were at this time of day."""
        unit, said = guess.unit[:, :, [USUAL]], guess.guesses[:, :, MIX]
        most = 2 * WILD * self._level()
        left = np.minimum(np.maximum((final - said) / unit[:, :, 0], -most), most)
        late = 1 / (1 + behind / LATER) if new else 0.0
        fade = 1 - (1 - MIX_FADE) * late
        self._mix.learn(guess.features / unit, (said - guess.seen) / unit[:, :, 0] + left, left, fade)
        if self._season is not None and behind > LATE * self._season:
            return
        off = np.minimum(np.abs(final - guess.center) / guess.unit[:, :, NOW] / self._level(), WILD + 1)
        self._width.learn(guess.waves, off, off - self._wider(guess.waves), fade)
        level = np.where(self._sums, guess.features[:, :, SHARE], unit[:, :, 0] * self._level() * self._shifts)
        level = level / unit[:, :, 0]
        usable = np.isfinite(level) & np.isfinite(left)
        sums = [np.where(usable, level * by, 0.0).sum(axis=0) for by in (level, left)]
        self._left = (LEFT_FADE if new else 1.0) * self._left + np.stack(sums, axis=1)
