"""Early answers that wait for their final values, what was learned from earlier ones, and both in a journal.

What follows from an early answer follows from what was seen, and from the history at that moment. So a journal gets
what was seen and what was final, and a restart answers and learns again: a tenth of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from slackwater.aggregates.growth import Growth
from slackwater.estimates.age_profile import AgeProfile
from slackwater.estimates.early_guess import Guess
from slackwater.estimates.fit_to_type import fit_to_type
from slackwater.estimates.group_history import MOST_GROUPS, Keys
from slackwater.estimates.guesses import GUESSES
from slackwater.estimates.pending import Pending, Waiting
from slackwater.estimates.traffic import FIGURES
from slackwater.progress.source_numbers import Floats, Ints

#: History of an age this many places away is better than none.
NEAR = 4
#: So many groups are known one by one, over all ages.
MOST_KNOWN = 16_384
#: What a row of a journal's table is about: something that happened, or a part of the whole.
_ANSWERED, _FINAL, _FORGOTTEN, _THINNED, _PENDING = "answered", "final", "forgotten", "thinned", "pending"


class EarlyAnswers:
    """Guesses final values by the age of a window, and learns from those that come.

    Args:
        columns: how the number of rows, and each aggregate, grows.
        types: the aggregates' types.
        coverage: share of final values that should lie within their intervals.
        seasons: that there may be, each with its length in windows and in days.
        span: of a window, in slides.
    """

    def __init__(
        self,
        columns: list[Growth],
        types: list[pa.DataType],
        coverage: float,
        seasons: Sequence[tuple[float, int]] = (),
        span: float = 1.0,
    ) -> None:
        self._columns = columns
        self._types = types
        self._coverage = coverage
        self._seasons, self._span = seasons, span
        self._levels: dict[int, AgeProfile] = {}
        self._pending = Pending()
        self._happened: list[tuple[str, Ints, Floats]] = []
        """What the journal has not yet got."""

    def __contains__(self, window: int) -> bool:
        """Whether answers of a window wait."""
        return window in self._pending

    @property
    def waiting(self) -> int:
        """How many groups' answers wait."""
        return self._pending.groups

    def guess(
        self, level: int, windows: Floats, keys: Keys, numbers: Floats, curve: Floats, traffic: Floats
    ) -> tuple[Guess, Floats]:
        """Estimates at an age, given what is seen, the completeness by the curve and the rows of all groups.

        And their completeness.
        """
        profile = self._profile(level)
        guess = profile.guess(windows, keys, numbers, curve, traffic)
        share = profile.completeness(guess, curve)
        for j, kind in enumerate(self._types, 1):
            fit = fit_to_type(kind, guess.seen[:, j], guess.center[:, j], guess.low[:, j], guess.high[:, j])
            guess.center[:, j], guess.low[:, j], guess.high[:, j] = fit
        return guess, share

    def answered(self, window: int, level: int, now: int, off: float, curve: float, guess: Guess) -> None:
        """Remember an answer of one window, so far from the age wanted, until its final values come."""
        if not self._pending.wants(window):
            return
        sample = self._pending.sample(guess.keys)
        kept = guess.take(sample)
        if self._pending.add(window, level, Waiting(np.full(len(sample), now), np.full(len(sample), off), kept)):
            head = np.array([window, level, now])
            ints = np.concatenate([head, kept.keys.view(np.int64)])
            self._happened.append(
                (_ANSWERED, ints, np.concatenate([[off, curve], kept.traffic[0], kept.seen.ravel()]))
            )

    def final(
        self, window: int, keys: Keys, numbers: Floats, curve: Callable[[int, Waiting], float] | None, behind: int
    ) -> list[tuple[Waiting, Floats]]:
        """Final values of a window have come: its answers with their final values, once for each age.

        `curve` gives the completeness by the curve; without it nothing is learned. So many windows have been
        answered since.
        """
        matched = self._pending.match(window, keys)
        if not matched:
            return []
        curves = [] if curve is None else [curve(level, waiting) for level, waiting, _ in matched]
        for (level, waiting, places), share in zip(matched, curves, strict=False):
            self._learn(window, level, waiting, numbers[places], share, behind)
        used = np.unique(np.concatenate([places for _, _, places in matched]))
        head = np.array([window, behind, len(curves)])
        ints = np.concatenate([head, keys[used].view(np.int64)])
        self._happened.append((_FINAL, ints, np.concatenate([curves, numbers[used].ravel()])))
        return [(waiting, numbers[places]) for _, waiting, places in matched]

    def _learn(self, window: int, level: int, waiting: Waiting, final: Floats, curve: float, behind: int) -> None:
        learner = self._learner(level)
        most = min(MOST_GROUPS, MOST_KNOWN // len(self._levels))
        learner.learn(window, waiting.guess, final, np.full(len(final), curve), behind, most)

    def forget(self, through: int) -> None:
        """No final values come any more for windows up to this one."""
        if self._pending.forget(through):
            self._happened.append((_FORGOTTEN, np.array([through]), np.zeros(0)))

    def _profile(self, level: int) -> AgeProfile:
        """The profile that knows most about windows of this age."""
        near = [n for n, profile in self._levels.items() if profile.ready and abs(n - level) <= NEAR]
        if near:
            return self._levels[min(near, key=lambda n: (abs(n - level), n))]
        return self._levels.get(level) or AgeProfile(self._columns, self._coverage, self._seasons, self._span)

    def _learner(self, level: int) -> AgeProfile:
        if level not in self._levels:
            self._levels[level] = AgeProfile(self._columns, self._coverage, self._seasons, self._span)
        return self._levels[level]

    # --- the journal

    def table(self, whole: bool) -> pa.Table | None:
        """All that a restart needs, or what has happened since this was last asked."""
        rows = self._whole() if whole else self._happened
        self._happened = []
        return _to_table(rows) if rows else None

    def settle(self) -> None:
        """The journal, if there is one, has all that has happened."""
        self._happened.clear()

    def _whole(self) -> list[tuple[str, Ints, Floats]]:
        none = np.zeros(0)
        rows = [(_THINNED, np.array([self._pending.thinned]), none)]
        rows += [(_PENDING, ints, floats) for ints, floats in self._pending.pack()]
        for level, profile in self._levels.items():
            ints, floats = profile.pack()
            padded = ints + [np.zeros(0, np.int64)] * (len(floats) - len(ints))
            rows += [(str(level), *part) for part in zip(padded, floats, strict=True)]
        return rows

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Continue from what `table` gave: a whole one, and what has happened since."""
        for table in tables:
            profiles: dict[int, tuple[list[Ints], list[Floats]]] = {}
            for name, ints, floats in _from_table(table):
                if name == _ANSWERED:
                    self._answer_again(ints, floats)
                elif name == _FINAL:
                    self._learn_again(ints, floats)
                elif name == _FORGOTTEN:
                    self._pending.forget(int(ints[0]))
                elif name == _THINNED:
                    self._pending.thinned = int(ints[0])
                elif name == _PENDING:
                    self._pending.unpack(ints, floats, len(self._columns), GUESSES + len(self._seasons))
                else:
                    mine = profiles.setdefault(int(name), ([], []))
                    mine[0].append(ints)
                    mine[1].append(floats)
            for level, packed in profiles.items():
                self._learner(level).unpack(*packed)
        self._happened.clear()

    def _answer_again(self, ints: Ints, floats: Floats) -> None:
        (window, level, now), (off, curve) = ints[:3].tolist(), floats[:2].tolist()
        traffic, seen = floats[2 : 2 + FIGURES], floats[2 + FIGURES :].reshape(-1, len(self._columns))
        keys = ints[3:].view(np.uint64)
        n = len(keys)
        traffic = np.tile(traffic, (n, 1))
        guess, _ = self.guess(level, np.full(n, float(window)), keys, seen, np.full(n, curve), traffic)
        self.answered(window, level, now, off, curve, guess)

    def _learn_again(self, ints: Ints, floats: Floats) -> None:
        window, behind, learned = ints[:3].tolist()
        curves = iter(floats[:learned].tolist())
        keys, numbers = ints[3:].view(np.uint64), floats[learned:].reshape(-1, len(self._columns))
        self.final(window, keys, numbers, (lambda level, waiting: next(curves)) if learned else None, behind)


def _to_table(rows: list[tuple[str, Ints, Floats]]) -> pa.Table:
    """Arrays of any length as one table: a name, whole numbers and others in each row."""
    schema = pa.schema([("name", pa.string()), ("ints", pa.list_(pa.int64())), ("floats", pa.list_(pa.float64()))])
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


def _from_table(table: pa.Table) -> list[tuple[str, Ints, Floats]]:
    """The arrays again."""
    columns = (table.column("ints"), table.column("floats"))
    return [
        (name, *(np.array(c[i].values.to_numpy(zero_copy_only=False)) for c in columns))
        for i, name in enumerate(table.column("name").to_pylist())
    ]
