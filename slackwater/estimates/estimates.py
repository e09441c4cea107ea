"""What an early answer says: the value of what has arrived (S5), an estimate of the final one, how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.aggregates.growth import Growth
from slackwater.aggregates.types import is_number
from slackwater.columns import ROWS, WINDOW
from slackwater.estimates.accuracy import Accuracy, accuracy
from slackwater.estimates.completeness import Curve
from slackwater.estimates.early import Early
from slackwater.estimates.early_answers import EarlyAnswers
from slackwater.estimates.early_guess import Guess
from slackwater.estimates.fit_to_type import cast_to_type
from slackwater.estimates.group_history import Keys
from slackwater.estimates.measure import Measure
from slackwater.estimates.pending import Waiting
from slackwater.estimates.prod_timing import BEHIND, ProdTiming
from slackwater.estimates.small_arrays import side_by_side
from slackwater.progress.arrival import Arrival
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMPLETENESS, high, low, seen
from slackwater.windows.runs import starts

_SIDE = np.concatenate([np.arange(17) / 8, 2 * 1.3 ** np.arange(1, 31)])
#: Ages that are told apart, in slides from the window's end. Each has its own `AgeProfile`.
_LEVELS: Floats = np.concatenate([-_SIDE[:0:-1], _SIDE])
_BETWEEN: Floats = (_LEVELS[1:] + _LEVELS[:-1]) / 2
#: Values of this size are not reckoned with, as those that are no numbers.
_HUGE = 1e150
#: Joins the hashes of group columns; any large odd number does.
_MIXES = np.uint64(0x9E3779B97F4A7C15)
#: A slide tells how busy a stream is when this share of it has passed.
_BEGUN = 0.25
_DAY = 86_400_000_000


class Estimates:
    """Learns from past windows what is still missing at a given age, and how far estimates were off."""

    def __init__(
        self,
        kernel: PaneKernel,
        settings: Early,
        by_clock: bool = True,
        timing: ProdTiming | None = None,
        corrects: bool = True,
    ) -> None:
        self._kernel = kernel
        self._by_clock = by_clock
        self._timing = timing
        grows = [(a, a.growth) for a in kernel.aggregates if is_number(a.type) and a.growth is not None]
        self._measured = [a for a, _ in grows]
        columns = [Growth.COUNTS, *(growth for _, growth in grows)]
        if not corrects:  # early results of a lower aggregate are no increments: a value stays as it is
            columns = [Growth.JUMPS] * len(columns)
        self._curve = Curve(kernel.spec.range, kernel.spec.slide)
        self.answers = EarlyAnswers(
            columns,
            [a.type for a in self._measured],
            settings.coverage,
            self._seasons(settings) if by_clock else (),
            kernel.spec.range / kernel.spec.slide,
        )
        self._accuracy = {a.name: Accuracy() for a in self._measured}
        self._reference = CredibleTime()
        names = [a.name for a in kernel.aggregates]
        self.measured = [[a.name, a.text] for a in kernel.aggregates]
        """What all that is learned is about."""
        self._own_measure = None if settings.measure is None else Measure(settings.measure, kernel.keys, names)
        self._answered: int | None = None
        """The last window that had an early answer."""

    def _seasons(self, settings: Early) -> list[tuple[float, int]]:
        """The seasons that there may be, each with its length in windows and in days."""
        lengths = (settings.season or _DAY, 7 * _DAY)  # always two: a restart may name another one
        return [(length / self._kernel.spec.slide, max(length // _DAY, 1)) for length in lengths]

    def page(self, now: int, last_ticks: Ints, pairs: Ints, arrival: Arrival | None = None) -> None:
        """A page has been folded at this instant: its rows by window, each window given by its last tick."""
        if not self._by_clock and arrival is not None:
            self._reference.pass_arrival(arrival)
        time = now if self._by_clock else self._reference.time
        if time is not None and len(last_ticks):
            self._curve.page(time, last_ticks, pairs)

    def early(self, values: pl.DataFrame, now: int, timed: bool = False) -> pl.DataFrame:
        """Values of windows (WINDOW, groups, aggregates) with estimates, intervals and completeness.

        `timed` says that `ProdTiming` chose the moment of the prod; it learns from such answers only.
        """
        windows, keys, numbers = self._numbers(values)
        guess, completeness = self._guess(windows, keys, numbers, now, timed)
        made = [values[a.name].alias(seen(a.name)) for a in self._kernel.aggregates]
        for a in self._kernel.aggregates:
            if a not in self._measured:
                made += [_floats(n, np.full(values.height, np.nan)) for n in (low(a.name), high(a.name))]
        for j, a in enumerate(self._measured, 1):
            made += [cast_to_type(values[a.name], numbers[:, j], guess.center[:, j])]
            made += [_floats(low(a.name), guess.low[:, j]), _floats(high(a.name), guess.high[:, j])]
        made += [_floats(COMPLETENESS, completeness)]
        # Columns, not a query of polars: that would take longer than all guesses of a few groups.
        answer = pl.DataFrame([*{s.name: s for s in (*values.get_columns(), *made)}.values()])
        if self._own_measure is not None:
            self._own_measure.early(answer, now)
        return answer

    def _guess(self, windows: Ints, keys: Keys, numbers: Floats, now: int, timed: bool) -> tuple[Guess, Floats]:
        """Guess by ages, remember what is said; it is given in the order of the rows, with its completeness."""
        newest = int(windows[-1])
        self._answered = newest if self._answered is None else max(newest, self._answered)
        found, cuts = _runs(windows)
        ages = self._ages(found, now)
        levels, shares = np.searchsorted(_BETWEEN, ages), self._curve.at(ages)
        curve = np.repeat(shares, np.diff(cuts))
        traffic = np.repeat(self._traffic(found, ages), np.diff(cuts), axis=0)
        parts, complete = [], []
        for level, begin, end in _each(*_runs(np.repeat(levels, np.diff(cuts)))):
            mine = slice(begin, end)
            part, share = self.answers.guess(
                level, windows[mine].astype(np.float64), keys[mine], numbers[mine], curve[mine], traffic[mine]
            )
            parts.append(part)
            complete.append(share)
        guess = Guess(keys, *(np.concatenate(p) for p in zip(*(g.parts() for g in parts), strict=True)))
        # A window may answer several times at about one age. Only the answer closest to a wanted age is scored.
        # An answer at the moment that ProdTiming chose always counts as the closest.
        off = np.full(len(ages), -1.0) if timed else np.abs(ages - _wanted(found, levels))
        each = zip(_each(found, cuts), levels.tolist(), off.tolist(), shares.tolist(), strict=True)
        for (window, begin, end), level, by, share in each:
            self.answers.answered(window, level, now, by, share, guess.take(np.arange(begin, end)))
        return guess, np.concatenate(complete)

    def _ages(self, windows: Ints, now: int) -> Floats:
        """Ages of windows in slides from their end."""
        time = now if self._by_clock or self._reference.time is None else self._reference.time
        spec = self._kernel.spec
        return np.asarray((float(time - spec.offset - spec.range) - windows * float(spec.slide)) / spec.slide)

    def _traffic(self, windows: Ints, ages: Floats) -> Floats:
        """The figures of `Traffic`, by window; its last slide is the last one that has begun some time ago."""
        spec = self._kernel.spec
        slides = -(-spec.range // spec.slide)
        begun = np.floor(windows + spec.range / spec.slide + ages - _BEGUN).astype(np.int64)
        newest = np.clip(begun, windows, windows + slides - 1)
        rows, lately, after = (
            np.array([self._curve.rows(self._last(w)) for w in some.tolist()])
            for some in (windows, newest, windows + slides)
        )
        before = np.maximum(rows - (lately - after), 0.0)
        each = zip(ages.tolist(), (windows + slides - newest).tolist(), strict=True)
        return side_by_side([rows, lately, before, np.array([self._of_before(*one) for one in each])])

    def _of_before(self, age: float, last: int) -> float:
        """The share of the rows to come that is usually of other slides than the last ones of a window."""
        span = self._kernel.spec.range / self._kernel.spec.slide
        rest = span * (1 - float(self._curve.at(np.array([age]))[0]))
        late = sum(1 - self._curve.of_slide(age + k) for k in range(last))
        return min(max(1 - late / rest, 0.0), 1.0) if rest > 0 else 0.0

    def _numbers(self, values: pl.DataFrame) -> tuple[Ints, Keys, Floats]:
        """Windows, hashed groups, and rows and values as floating-point numbers."""
        names = [ROWS, *(a.name for a in self._measured)]
        numbers = np.empty((values.height, len(names)), order="F")
        for j, name in enumerate(names):
            numbers[:, j] = values[name].cast(pl.Float64).to_numpy()
        numbers[~(np.abs(numbers) < _HUGE)] = np.nan
        keys = np.zeros(values.height, np.uint64)
        if self._kernel.keys:
            # The hash changes with the version of polars at most; then groups begin anew.
            for name in self._kernel.keys:  # hash_rows would wake polars' threads: 3 ms for a few groups
                keys = keys * _MIXES + values[name].hash(seed=5).to_numpy()
        return values[WINDOW].cast(pl.Int64).to_numpy(), keys, numbers

    def final(self, values: pl.DataFrame, now: int, ended: bool = False) -> None:
        """Windows are final, with these values; with the stream's end that says nothing of when to prod."""
        if not values.height:
            return
        own = {} if self._own_measure is None else self._own_measure.final(values, now)
        found, cuts = _runs(values[WINDOW].cast(pl.Int64).to_numpy())
        if self._kernel.source is not None:
            self._curve.close(self._last(int(found[-1]) - BEHIND))
        timing = None if ended else self._timing
        if self._answered is None and timing is None:
            return
        # Windows that nobody has asked about need not be compared.
        asked = {window for window in found.tolist() if window in self.answers}
        keys, numbers = self._numbers(values)[1:] if asked else (np.zeros(0, np.uint64), np.zeros((0, 0)))
        ages = self._ages(found, now).tolist()
        behind = 0 if self._answered is None else max(self._answered - int(found[0]), 0)
        for (window, begin, end), age in zip(_each(found, cuts), ages, strict=True):
            asked_at = None if timing is None else timing.asked_at(window)
            accurate = None
            if window in asked:
                accurate = self._compare(window, keys[begin:end], numbers[begin:end], now, behind, asked_at)
            if timing is not None:
                timing.final(window, age, own.get(window, accurate) if asked_at is not None else None)

    def _compare(
        self, window: int, keys: Keys, numbers: Floats, now: int, behind: int, asked_at: int | None
    ) -> float | None:
        """Learn from a window's answers, once for each age; gives how accurate those of an instant were.

        So many windows have been answered without knowing this one.
        """
        accurate: float | None = None
        guesses: list[tuple[Guess, Floats]] = []
        curve = self._share if self._curve.whole(self._last(window)) else None
        by_age = None if curve is None else (lambda level, waiting: curve(window, level, waiting))
        for waiting, final in self.answers.final(window, keys, numbers, by_age, behind):
            worst = self._measure(waiting.guess, final, (now - waiting.at) / 1e6)
            guesses.append((waiting.guess, final))
            accurate = worst if asked_at is not None and (waiting.at == asked_at).any() else accurate
        for j, a in enumerate(self._measured, 1) if guesses else ():
            keys = np.concatenate([guess.keys for guess, _ in guesses])
            held = np.concatenate([_held(guess, final, j) for guess, final in guesses])
            self._accuracy[a.name].learn_windows(keys, held)
        return accurate

    def _share(self, window: int, level: int, waiting: Waiting) -> float:
        """The completeness of a window by the curve, when these answers were given."""
        age = _LEVELS[[level]]
        if self._by_clock:
            age = self._ages(np.array([window]), int(waiting.at[0]))
        return float(self._curve.at(age)[0])

    def closed(self, closed: Closed) -> None:
        """These windows have been emitted, whether their values are here or not."""
        spec = self._kernel.spec
        if self._kernel.source is None:
            through = None if closed.emitted_through is None else self._last(closed.emitted_through)
            self._curve.close(through, [(self._last(first), self._last(last)) for first, last in closed.ahead])
        lowest = closed.lowest_open_pane(spec)
        if lowest is not None:
            self.answers.forget(lowest // spec.panes_per_slide - 1)

    def _last(self, window: int) -> int:
        """The last tick of a window."""
        return self._kernel.spec.bounds(window)[1] - 1

    def _measure(self, guess: Guess, final: Floats, gain: Floats) -> float | None:
        """Note how accurate an answer was; gives the mean accuracy of the worst aggregate."""
        means = []
        for j, a in enumerate(self._measured, 1):
            known = ~np.isnan(final[:, j]) & ~np.isnan(guess.seen[:, j])
            if known.any():
                f, held = final[known, j], _held(guess, final, j)[known]
                by_seen, by_estimate = accuracy(guess.seen[known, j], f), accuracy(guess.center[known, j], f)
                own = guess.known[known, j]
                means.append(self._accuracy[a.name].learn(by_seen, by_estimate, held, gain[known], own))
        return min(means, default=None)

    def state(self) -> dict[str, Any]:
        """All that a restart needs beside `table`, as JSON values."""
        return {
            "curve": self._curve.state(),
            "accuracy": {name: a.state() for name, a in self._accuracy.items()},
            "reference": self._reference.state(),
            "answered": self._answered,
            "measured": {} if self._own_measure is None else self._own_measure.state(),
        }

    def table(self, whole: bool) -> pa.Table | None:
        """The answers that wait and what was learned, or what has happened to them since this was last asked."""
        return self.answers.table(whole)

    def settle(self) -> None:
        """The journal, if there is one, has all that has changed."""
        self.answers.settle()

    def restore(self, state: dict[str, Any], tables: Sequence[pa.Table] = ()) -> None:
        """Continue from an earlier `state()` and the tables of `table()`, a whole one and the changes since."""
        self._curve.restore(state["curve"])
        for name, figures in state["accuracy"].items():
            self._accuracy[name].restore(figures)
        self._reference.restore(state["reference"])
        self._answered = state["answered"]
        if self._own_measure is not None:
            self._own_measure.restore(state["measured"])
        self.answers.restore(tables)

    def metrics(self) -> dict[str, Any]:
        """Accuracy of early answers."""
        if self._answered is None:
            return {}
        figures = {name: a.metrics() for name, a in self._accuracy.items()}
        if self._own_measure is not None:
            for a in self._kernel.aggregates:
                figures[a.name] = figures.get(a.name, {}) | self._own_measure.metrics(a.name)
        return {"accuracy": figures}


def _held(guess: Guess, final: Floats, j: int) -> Floats:
    """1 where the interval of a column holds the final value, 0 where it does not, NaN where there is none."""
    f, lower, upper = final[:, j], guess.low[:, j], guess.high[:, j]
    return np.where(np.isnan(lower) | np.isnan(f), np.nan, (lower <= f) & (f <= upper))


def _floats(name: str, values: Floats) -> pl.Series:
    return pl.Series(name, values, nan_to_null=True)


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """The values of an array where they change, and the places of that, with the array's end.

    >>> _runs(np.array([7, 7, 9]))
    (array([7, 9]), array([0, 2, 3]))
    """
    begins = starts(values)
    return values[begins], np.append(begins, len(values))


def _each(values: Ints, cuts: Ints) -> Iterator[tuple[int, int, int]]:
    """Each run's value, begin and end."""
    return zip(values.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _wanted(windows: Ints, levels: Ints) -> Floats:
    """The age at which a window's answer is compared, if it has many of like age: another for each window."""
    within = windows * 0.6180339887 % 1 - 0.5
    return np.interp(levels + within, np.arange(len(_LEVELS)), _LEVELS)
