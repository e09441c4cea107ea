"""Early answers that wait for their final ones, and how they are kept in a journal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.estimates.age_profile import GUESSES, Guess
from slackwater.estimates.completeness import Floats
from slackwater.estimates.group_history import Keys
from slackwater.progress.sources import Ints

#: So many groups of one answer are compared with their final values, always the same ones.
SAMPLE = 1_024
#: So many groups' answers wait in all. Of more, half of the groups stay; down to a few, then half of the windows.
MOST_WAITING = 16_384
FEW = 16


@dataclass
class Waiting:
    """Early answers of one window at about one age, by group."""

    at: Ints
    """When they were given."""
    off: Floats
    """How far their age is from the one wanted."""
    guess: Guess

    def take(self, places: Ints) -> Waiting:
        """Some of the groups."""
        return Waiting(self.at[places], self.off[places], self.guess.take(places))

    def nearer(self, other: Waiting) -> Waiting:
        """One answer for each group of both, the one nearer to the age wanted; itself if that changes nothing."""
        mine, keys = self.guess.keys, other.guess.keys
        places = np.searchsorted(mine, keys).clip(max=len(mine) - 1)
        known = mine[places] == keys
        better = ~known | (other.off < self.off[places])
        if not better.any():
            return self
        stays = np.ones(len(mine), bool)
        stays[places[known & better]] = False
        one, two = self.take(np.flatnonzero(stays)), other.take(np.flatnonzero(better))
        both = [np.concatenate(p) for p in zip(one.guess.parts(), two.guess.parts(), strict=True)]
        merged = Waiting(
            np.concatenate([one.at, two.at]),
            np.concatenate([one.off, two.off]),
            Guess(np.concatenate([one.guess.keys, two.guess.keys]), *both),
        )
        return merged.take(np.argsort(merged.guess.keys))


class Pending:
    """Early answers by window and age; groups are in the order of their hashes."""

    def __init__(self) -> None:
        self._windows: dict[int, dict[int, Waiting]] = {}
        self._groups = 0
        self.thinned = 0
        """How often the number of groups or windows was halved."""
        self._changed: set[tuple[int, int]] = set()
        """Windows and ages that the journal has not yet got."""

    def __contains__(self, window: int) -> bool:
        return window in self._windows

    @property
    def _sample(self) -> int:
        return max(SAMPLE >> self.thinned, FEW)

    @property
    def _every(self) -> int:
        """One window in so many is kept."""
        return max((FEW << self.thinned) // SAMPLE, 1)

    def wants(self, window: int) -> bool:
        """Whether answers of a window are kept."""
        return window % self._every == 0

    def add(self, window: int, level: int, answer: Waiting) -> None:
        """Keep an answer, or a sample of its groups, unless there is one of this age that is as good."""
        answer = answer.take(np.argsort(answer.guess.keys)[: self._sample])
        old = self._windows.get(window, {}).get(level)
        new = answer if old is None else old.nearer(answer)
        if new is not old:
            self._put(window, level, new.take(np.arange(min(len(new.at), self._sample))))
        while self._groups > MOST_WAITING:
            self._thin()

    def _put(self, window: int, level: int, answer: Waiting | None) -> None:
        """An answer in the place of the one that was there."""
        self._changed.add((window, level))
        answers = self._windows.setdefault(window, {})
        old = answers.pop(level, None)
        self._groups -= 0 if old is None else len(old.at)
        if answer is not None and len(answer.at):
            answers[level] = answer
            self._groups += len(answer.at)
        if not answers:
            del self._windows[window]

    def _thin(self) -> None:
        self.thinned += 1
        first = np.arange(self._sample)
        for window, level in self._places():
            answer = self._windows[window][level]
            if not self.wants(window):
                self._put(window, level, None)
            elif len(answer.at) > len(first):
                self._put(window, level, answer.take(first))

    def match(self, window: int, keys: Keys) -> list[tuple[int, Waiting, Ints]]:
        """By age the answers for groups whose final values have come, and the places of these values."""
        order = np.argsort(keys)
        matched = []
        for level, waiting in list(self._windows.get(window, {}).items()):
            mine = waiting.guess.keys
            places = np.searchsorted(keys, mine, sorter=order).clip(max=len(keys) - 1)
            found = keys[order[places]] == mine
            if found.any():
                matched.append((level, waiting.take(np.flatnonzero(found)), order[places[found]]))
                # Others close on their own heartbeats.
                self._put(window, level, waiting.take(np.flatnonzero(~found)))
        return matched

    def forget(self, through: int) -> None:
        """No final values come any more for windows up to this one; where there is room, more is kept again."""
        for window, level in self._places():
            if window <= through:
                self._put(window, level, None)
        if self.thinned and self._groups < MOST_WAITING // 4:
            self.thinned -= 1

    def _places(self) -> list[tuple[int, int]]:
        return [(window, level) for window, answers in self._windows.items() for level in answers]

    def pack(self, whole: bool) -> tuple[list[Ints], list[Floats]]:
        """All that a restart needs, or what of it has changed; an answer that is gone has no groups."""
        ints, floats = [], []
        for window, level in self._places() if whole else sorted(self._changed):
            head = np.array([window, level])
            w = self._windows.get(window, {}).get(level)
            ints.append(head if w is None else np.concatenate([head, w.at, w.guess.keys.view(np.int64)]))
            parts = [] if w is None else [w.off, *(p.ravel() for p in w.guess.parts())]
            floats.append(np.concatenate([np.zeros(0), *parts]))
        self._changed.clear()
        return ints, floats

    def unpack(self, ints: list[Ints], floats: list[Floats], columns: int) -> None:
        """Add what an earlier `pack()` gave, for so many columns."""
        for numbers, values in zip(ints, floats, strict=True):
            window, level = numbers[:2].tolist()
            at, keys = np.split(numbers[2:].copy(), 2)
            n = len(at)
            shapes = [(n,), (n, columns), (n, columns, GUESSES), *[(n, columns)] * 6]
            cuts = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
            parts = [p.reshape(s).copy() for p, s in zip(np.split(values, cuts), shapes, strict=True)]
            self._put(window, level, Waiting(at, parts[0], Guess(keys.view(np.uint64), *parts[1:])))
        self._changed.clear()

    def settle(self) -> None:
        """The journal, if there is one, has all that has changed."""
        self._changed.clear()


def arrays_to_table(names: list[str], ints: list[Ints], floats: list[Floats]) -> pa.Table:
    """Arrays of any length as one table: a name, whole numbers and others in each row."""
    schema = pa.schema([("name", pa.string()), ("ints", pa.list_(pa.int64())), ("floats", pa.list_(pa.float64()))])
    return pa.table([names, ints, floats], schema=schema)


def table_to_arrays(table: pa.Table) -> list[tuple[str, Ints, Floats]]:
    """The arrays again."""
    columns = (table.column("ints"), table.column("floats"))
    return [
        (name, *(np.asarray(c[i].values.to_numpy(zero_copy_only=False)) for c in columns))
        for i, name in enumerate(table.column("name").to_pylist())
    ]
