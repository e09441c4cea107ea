"""Early answers that wait for their final values, what was learned from earlier ones, and both in a journal.

What follows from an early answer follows from what was seen, and from the history at that moment. So a journal gets
what was seen and what was final, and a restart answers and learns again: a tenth of the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.aggregates.growth import Growth
from slackwater.estimates.age_profile import AgeProfile, Guess
from slackwater.estimates.fit_to_type import fit_to_type
from slackwater.estimates.group_history import MOST_GROUPS, Keys
from slackwater.estimates.pending import Pending, Waiting
from slackwater.progress.restorable import prefixed, under
from slackwater.progress.source_numbers import Floats, Ints

#: History of an age this many places away is better than none.
NEAR = 4
#: So many groups are known one by one, over all ages.
MOST_KNOWN = 16_384
#: What a row of a journal's table is about: something that happened, or a part of the whole.
_ANSWERED, _FINAL, _FORGOTTEN, _WAITING, _LEVEL = "answered", "final", "forgotten", "waiting", "level"


class EarlyAnswers:
    """Guesses final values by the age of a window, and learns from those that come.

    Args:
        columns: how the number of rows, and each aggregate, grows.
        types: the aggregates' types.
        coverage: share of final values that should lie within their intervals.
        season: after how many windows the stream repeats itself, if it may.
    """

    def __init__(
        self,
        columns: list[Growth],
        types: list[pa.DataType],
        coverage: float,
        season: float | None = None,
    ) -> None:
        self._columns = columns
        self._types = types
        self._coverage = coverage
        self._season = season
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
        self, level: int, windows: Floats, keys: Keys, numbers: Floats, curve: Floats, recent: Floats
    ) -> tuple[Guess, Floats]:
        """Estimates at an age, given what is seen, the completeness by the curve and the rows that came last.

        And their completeness.
        """
        profile = self._profile(level)
        guess = profile.guess(windows, keys, numbers, curve, recent)
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
                (_ANSWERED, ints, np.concatenate([[off, curve], kept.recent[0], kept.seen.ravel()]))
            )

    def final(
        self,
        window: int,
        keys: Keys,
        numbers: Floats,
        curve: Callable[[int, Waiting], float] | None,
        behind: int,
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
        return self._levels.get(level) or AgeProfile(self._columns, self._coverage, self._season)

    def _learner(self, level: int) -> AgeProfile:
        if level not in self._levels:
            self._levels[level] = AgeProfile(self._columns, self._coverage, self._season)
        return self._levels[level]

    # --- the journal

    def table(self, whole: bool) -> pa.Table | None:
        """All that a restart needs, or what has happened since this was last asked."""
        happened = ((name, part) for name, *parts in self._happened for part in parts)
        rows = self._whole() if whole else list(happened)
        self._happened = []
        return _to_table(rows) if rows else None

    def settle(self) -> None:
        """The journal, if there is one, has all that has happened."""
        self._happened.clear()

    def _whole(self) -> list[tuple[str, Any]]:
        state = prefixed(_WAITING, self._pending.state())
        for level, profile in self._levels.items():
            state |= prefixed(f"{_LEVEL}.{level}", profile.state())
        return list(state.items())

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Continue from what `table` gave: a whole one, and what has happened since."""
        for table in tables:
            whole: dict[str, Any] = {}
            events: list[Any] = []
            if "kind" not in table.column_names:
                continue  # written by an earlier version: it is learned anew
            for name, value in _from_table(table):
                if name in (_ANSWERED, _FINAL, _FORGOTTEN):
                    events.append(value)
                else:
                    whole[name] = value
                    continue
                if len(events) == 2:
                    self._again(name, *events)
                    events = []
            if whole:
                self._pending.restore(under(_WAITING, whole))
                for level in dict.fromkeys(name.split(".")[1] for name in whole if name.startswith(f"{_LEVEL}.")):
                    self._learner(int(level)).restore(under(f"{_LEVEL}.{level}", whole))
        self._happened.clear()

    def _again(self, name: str, ints: Ints, floats: Floats) -> None:
        if name == _ANSWERED:
            self._answer_again(ints, floats)
        elif name == _FINAL:
            self._learn_again(ints, floats)
        else:
            self._pending.forget(int(ints[0]))

    def _answer_again(self, ints: Ints, floats: Floats) -> None:
        (window, level, now), (off, curve) = ints[:3].tolist(), floats[:2].tolist()
        recent, seen = floats[2:4], floats[4:].reshape(-1, len(self._columns))
        keys = ints[3:].view(np.uint64)
        n = len(keys)
        recent = np.tile(recent, (n, 1))
        guess, _ = self.guess(level, np.full(n, float(window)), keys, seen, np.full(n, curve), recent)
        self.answered(window, level, now, off, curve, guess)

    def _learn_again(self, ints: Ints, floats: Floats) -> None:
        window, behind, learned = ints[:3].tolist()
        curves = iter(floats[:learned].tolist())
        keys, numbers = ints[3:].view(np.uint64), floats[learned:].reshape(-1, len(self._columns))
        self.final(window, keys, numbers, (lambda level, waiting: next(curves)) if learned else None, behind)


def _to_table(rows: list[tuple[str, Any]]) -> pa.Table:
    """Named arrays and JSON values, one in a row."""
    kinds = [value.dtype.str if isinstance(value, np.ndarray) else "" for _, value in rows]
    shapes = [value.shape if isinstance(value, np.ndarray) else () for _, value in rows]
    data = [v.tobytes() if isinstance(v, np.ndarray) else json.dumps(v).encode() for _, v in rows]
    schema = pa.schema(
        [("name", pa.string()), ("kind", pa.string()), ("shape", pa.list_(pa.int64())), ("data", pa.binary())]
    )
    return pa.table([[name for name, _ in rows], kinds, shapes, data], schema=schema)


def _from_table(table: pa.Table) -> list[tuple[str, Any]]:
    """The values again."""
    return [
        (name, np.frombuffer(data, kind).reshape(shape).copy() if kind else json.loads(data))
        for name, kind, shape, data in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
