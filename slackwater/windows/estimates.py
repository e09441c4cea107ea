"""What an early answer says: the value of what has arrived (S5), an estimate of the final one, how sure it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.progress.arrival import Arrival
from slackwater.progress.reference import Reference
from slackwater.progress.sources import Ints
from slackwater.windows.accuracy import Accuracy, accuracy
from slackwater.windows.aggregates import (
    Aggregate,
    ApproxDistinct,
    CountOf,
    FirstOf,
    LastOf,
    MaxOf,
    MinOf,
    SumOf,
)
from slackwater.windows.aim import Aim
from slackwater.windows.completeness import Curve, Floats
from slackwater.windows.early import Early
from slackwater.windows.group_history import Keys
from slackwater.windows.kernel import ROWS, WINDOW, PaneKernel
from slackwater.windows.like_age import GUESSES, Growth, Guess, LikeAge
from slackwater.windows.pending import Pending, Waiting, arrays_to_table, table_to_arrays
from slackwater.windows.results import COMPLETENESS, high, low, seen

_GROWTH: dict[type[Aggregate], Growth] = {
    CountOf: Growth.COUNTS,
    SumOf: Growth.ADDS,
    MaxOf: Growth.RISES,
    MinOf: Growth.FALLS,
    FirstOf: Growth.JUMPS,
    LastOf: Growth.JUMPS,
    ApproxDistinct: Growth.SPREADS,
}
_SIDE = np.concatenate([np.arange(17) / 8, 2 * 1.3 ** np.arange(1, 31)])
#: Ages that are told apart, in slides from the window's end; answers of the same one are of a like age.
_LEVELS: Floats = np.concatenate([-_SIDE[:0:-1], _SIDE])
_BETWEEN: Floats = (_LEVELS[1:] + _LEVELS[:-1]) / 2
#: So many of them are kept in mind, and history of one this many places away is better than none.
MOST_LEVELS = 12
NEAR = 4
#: Where groups close on their own heartbeats, a window is over when one so much later has closed.
BEHIND = 16
#: Whole numbers above this are not certain as floating-point numbers.
_LARGE = 2.0**62


class Estimates:
    """Learns from past windows what is still missing at a given age, and how far estimates were off."""

    def __init__(self, kernel: PaneKernel, settings: Early, by_clock: bool = True, aim: Aim | None = None) -> None:
        self._kernel = kernel
        self._coverage = settings.coverage
        self._by_clock = by_clock
        self._aim = aim
        self._measured = [a for a in kernel.aggregates if is_number(a.type)]
        self._columns = [Growth.COUNTS, *(_GROWTH.get(type(a), Growth.SETTLES) for a in self._measured)]
        self._curve = Curve(kernel.spec.range, kernel.spec.slide)
        self._levels: dict[int, LikeAge] = {}
        self._pending = Pending()
        self._accuracy = {a.name: Accuracy() for a in self._measured}
        self._reference = Reference()
        self._answered: int | None = None
        """The last window that had an early answer."""
        self._turn = 0
        self._fresh = False
        """Whether something has changed since the last `table`."""

    def page(self, now: int, lasts: Ints, pairs: Ints, arrival: Arrival | None = None) -> None:
        """A page has been folded at this instant: its rows by window, each window given by its last tick."""
        if not self._by_clock and arrival is not None:
            self._reference.pass_arrival(arrival)
        time = now if self._by_clock else self._reference.time
        if time is not None and len(lasts):
            self._curve.page(time, lasts, pairs)

    def early(self, merged: pl.DataFrame, values: pl.DataFrame, now: int) -> pl.DataFrame:
        """Values of merged partials (WINDOW, groups, aggregates) with estimates, intervals and completeness."""
        windows, keys, numbers = self._numbers(values)
        guesses = self._guess(windows, keys, numbers, now)
        made: list[pl.Expr | pl.Series] = [pl.col(a.name).alias(seen(a.name)) for a in self._kernel.aggregates]
        for a in self._kernel.aggregates:
            if a not in self._measured:
                made += [pl.lit(None, pl.Float64).alias(n) for n in (low(a.name), high(a.name))]
        for j, a in enumerate(self._measured, 1):
            made += [_in_type(values[a.name], numbers[:, j], guesses.estimate[:, j])]
            made += [_floats(low(a.name), guesses.low[:, j]), _floats(high(a.name), guesses.high[:, j])]
        return values.with_columns(made).with_columns(self._completeness(windows, guesses, now))

    def _completeness(self, windows: Ints, guesses: Guess, now: int) -> pl.Series:
        rows = guesses.estimate[:, 0]
        share = np.where(rows > 0, guesses.seen[:, 0] / rows, np.nan)
        for window in np.unique(windows).tolist():
            level, curve = self._age(window, now)
            if np.isnan(curve) and (level not in self._levels or not self._levels[level].windows):
                share[windows == window] = np.nan
        return _floats(COMPLETENESS, share)

    def _guess(self, windows: Ints, keys: Keys, numbers: Floats, now: int) -> Guess:
        """Guess by windows, remember what was said, and give it in the order of the rows."""
        self._turn += 1
        self._fresh = True
        found, starts = np.unique(windows, return_index=True)  # rows are ordered by window
        ends = [*starts[1:].tolist(), len(windows)]
        parts = []
        for window, begin, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            level, curve = self._age(window, now)
            known = np.full(end - begin, curve)
            guess = self._like(level).guess(keys[begin:end], numbers[begin:end], known)
            for j, a in enumerate(self._measured, 1):
                if pa.types.is_integer(a.type):
                    guess.estimate[:, j] = np.round(guess.estimate[:, j])
                    # A whole number is off by a whole number, if at all.
                    guess.low[:, j], guess.high[:, j] = np.floor(guess.low[:, j]), np.ceil(guess.high[:, j])
            self._pending.add(window, Waiting(level, now, guess))
            parts.append(guess)
            self._answered = window if self._answered is None else max(window, self._answered)
        whole = [np.concatenate(p) for p in zip(*(g.parts() for g in parts), strict=True)]
        return Guess(keys, *whole)

    def _age(self, window: int, now: int) -> tuple[int, float]:
        """The age of a window as one that is told apart, and how complete windows of its age are by the curve."""
        age = np.array([self._slides(window, now)])
        return int(np.searchsorted(_BETWEEN, age)[0]), float(self._curve.at(age)[0])

    def _slides(self, window: int, now: int) -> float:
        """The age of a window, in slides from its end."""
        time = now if self._by_clock or self._reference.time is None else self._reference.time
        return (time - self._kernel.spec.bounds(window)[1]) / self._kernel.spec.slide

    def _like(self, level: int) -> LikeAge:
        """Who knows most about windows of this age."""
        mine = self._learner(level)
        if mine.ready:
            return mine
        near = [n for n, like in self._levels.items() if like.ready and abs(n - level) <= NEAR]
        return mine if not near else self._levels[min(near, key=lambda n: (abs(n - level), n))]

    def _learner(self, level: int) -> LikeAge:
        if level not in self._levels:
            self._levels[level] = LikeAge(self._columns, self._coverage)
        self._levels[level].turn = self._turn
        while len(self._levels) > MOST_LEVELS:
            del self._levels[min(self._levels, key=lambda n: (self._levels[n].turn, n == level, n))]
        return self._levels[level]

    def _numbers(self, values: pl.DataFrame) -> tuple[Ints, Keys, Floats]:
        """Windows, hashed groups, and rows and values as floating-point numbers."""
        names = [ROWS, *(a.name for a in self._measured)]
        numbers = np.stack([values[n].cast(pl.Float64).fill_null(np.nan).to_numpy() for n in names], axis=1)
        numbers[~np.isfinite(numbers)] = np.nan
        keys = np.zeros(values.height, np.uint64)
        if self._kernel.keys:
            # The hash changes with the version of polars at most; then groups begin anew.
            keys = values.select(self._kernel.keys).hash_rows(seed=5).to_numpy()
        return values[WINDOW].cast(pl.Int64).to_numpy(), keys, numbers

    def final(self, merged: pl.DataFrame, values: pl.DataFrame, now: int, ended: bool = False) -> None:
        """The same windows are final now; with the stream's end that says nothing of when to prod."""
        if not values.height:
            return
        self._turn += 1
        windows, keys, numbers = self._numbers(values)
        found = np.unique(windows).tolist()
        behind = 0 if self._kernel.source is None else BEHIND
        self._curve.close(self._kernel.spec.bounds(found[-1] - behind)[1] - 1)
        aim = None if ended else self._aim
        if self._answered is None and aim is None:
            return
        for window in found:
            rows = np.flatnonzero(windows == window)
            asked_at, aimed = None if aim is None else aim.asked_at(window), None
            for waiting, guess, places in self._pending.match(window, keys[rows]):
                self._fresh = True
                final = numbers[rows[places]]
                if self._curve.whole(self._kernel.spec.bounds(window)[1] - 1):
                    self._learner(waiting.level).learn(guess, final)
                worst = self._measure(guess, final, (now - waiting.at) / 1e6)
                aimed = worst if waiting.at == asked_at else aimed
            if aim is not None:
                aim.final(window, self._slides(window, now), aimed)

    def _measure(self, guess: Guess, final: Floats, gain: float) -> float | None:
        """Note how accurate an answer was; gives the mean accuracy of the worst aggregate."""
        means = []
        for j, a in enumerate(self._measured, 1):
            known = ~np.isnan(final[:, j]) & ~np.isnan(guess.seen[:, j])
            if known.any():
                f, lower, upper = final[known, j], guess.low[known, j], guess.high[known, j]
                held = np.where(np.isnan(lower), np.nan, (lower <= f) & (f <= upper))
                by_seen, by_estimate = accuracy(guess.seen[known, j], f), accuracy(guess.estimate[known, j], f)
                means.append(self._accuracy[a.name].learn(by_seen, by_estimate, held, gain))
        return min(means, default=None)

    def state(self) -> dict[str, Any]:
        """All that a restart needs beside `table`, as JSON values."""
        return {
            "curve": self._curve.state(),
            "accuracy": {name: a.state() for name, a in self._accuracy.items()},
            "reference": self._reference.state(),
            "answered": self._answered,
            "turn": self._turn,
        }

    def table(self, whole: bool) -> pa.Table | None:
        """The history of groups and errors, and the answers that wait; None if nothing of it has changed."""
        if self._answered is None or not (whole or self._fresh):
            return None
        self._fresh = False
        names, ints, floats = [], *self._pending.pack()
        names += ["pending"] * len(ints)
        for level, like in self._levels.items():
            whole_numbers, others = like.pack()
            names += [str(level)] * len(others)
            ints += whole_numbers + [np.zeros(0, np.int64)] * (len(others) - len(whole_numbers))
            floats += others
        return arrays_to_table(names, ints, floats)

    def restore(self, state: dict[str, Any], table: pa.Table | None = None) -> None:
        """Continue from an earlier `state()` and the last `table()`."""
        self._curve.restore(state["curve"])
        for name, figures in state["accuracy"].items():
            self._accuracy[name].restore(figures)
        self._reference.restore(state["reference"])
        self._answered, self._turn = state["answered"], state["turn"]
        kept: dict[str, tuple[list[Ints], list[Floats]]] = {}
        for name, ints, floats in [] if table is None else table_to_arrays(table):
            mine = kept.setdefault(name, ([], []))
            mine[0].append(ints)
            mine[1].append(floats)
        m = len(self._columns)
        self._pending.unpack(*kept.pop("pending", ([], [])), [(m,), (m, GUESSES), *[(m,)] * 5])
        self._levels = {}
        for level, (whole_numbers, others) in kept.items():
            self._levels[int(level)] = like = LikeAge(self._columns, self._coverage)
            like.unpack(whole_numbers, others)

    def metrics(self) -> dict[str, Any]:
        """Accuracy of early answers."""
        return {} if self._answered is None else {"accuracy": {n: a.metrics() for n, a in self._accuracy.items()}}


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type can be estimated."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _floats(name: str, values: Floats) -> pl.Series:
    return pl.Series(name, values, dtype=pl.Float64).fill_nan(None)


def _in_type(values: pl.Series, numbers: Floats, estimate: Floats) -> pl.Series:
    """The estimate in the type of the value: what is seen, exactly, and the guess of what is to come."""
    if values.dtype.is_float():
        guessed = pl.Series(values.name, estimate).cast(values.dtype)
        return guessed.zip_with(pl.Series(np.isfinite(estimate)), values)
    more = np.where(np.abs(estimate) < _LARGE, np.nan_to_num(estimate - numbers), 0.0)
    if values.dtype.is_integer():
        return (values.cast(pl.Int64) + pl.Series(np.round(more).astype(np.int64))).rename(values.name)
    added = pl.Series(more).cast(values.dtype, strict=False).fill_null(0)
    return (values + added).cast(values.dtype, strict=False).rename(values.name)
