"""Early answers that wait for their final ones, and how they are kept in a journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.progress.sources import Ints
from slackwater.windows.completeness import Floats
from slackwater.windows.group_history import Keys
from slackwater.windows.like_age import Guess

#: So many groups of one answer are compared with their final values, always the same ones.
SAMPLE = 1_024
#: So many groups' answers wait in all; of more, the oldest windows are forgotten.
MOST_WAITING = 16_384


@dataclass
class Waiting:
    """One window's early answer."""

    level: int
    """Its age, as a place among the ages that are told apart."""
    at: int
    """When it was given."""
    guess: Guess


class Pending:
    """Early answers by window."""

    def __init__(self) -> None:
        self._windows: dict[int, list[Waiting]] = {}
        self._groups = 0

    def add(self, window: int, waiting: Waiting) -> None:
        """Keep an answer, or a sample of its groups."""
        keys = waiting.guess.keys
        order = np.argsort(keys)[:SAMPLE]
        waiting.guess = waiting.guess.take(order)
        self._windows.setdefault(window, []).append(waiting)
        self._groups += len(order)
        while self._groups > MOST_WAITING and len(self._windows) > 1:
            self._groups -= sum(len(w.guess.keys) for w in self._windows.pop(min(self._windows)))

    def match(self, window: int, keys: Keys) -> Iterator[tuple[Waiting, Guess, Ints]]:
        """The answers for groups whose final values have come, and the places of these values."""
        order = np.argsort(keys)
        left = []
        for waiting in self._windows.pop(window, []):
            mine = waiting.guess.keys
            self._groups -= len(mine)
            places = np.searchsorted(keys, mine, sorter=order).clip(max=len(keys) - 1)
            found = keys[order[places]] == mine
            if found.any():
                yield waiting, waiting.guess.take(np.flatnonzero(found)), order[places[found]]
            if not found.all():
                left.append(Waiting(waiting.level, waiting.at, waiting.guess.take(np.flatnonzero(~found))))
        if left:  # groups that close on their own heartbeats
            self._windows[window] = left
            self._groups += sum(len(w.guess.keys) for w in left)

    def pack(self) -> tuple[list[Ints], list[Floats]]:
        """All that a restart needs."""
        ints, floats = [], []
        for window, answers in self._windows.items():
            for w in answers:
                head = np.array([window, w.level, w.at])
                ints.append(np.concatenate([head, w.guess.keys.view(np.int64)]))
                floats.append(np.concatenate([p.ravel() for p in w.guess.parts()]))
        return ints, floats

    def unpack(self, ints: list[Ints], floats: list[Floats], shapes: list[tuple[int, ...]]) -> None:
        """Continue from an earlier `pack()`; shapes are those of one group's parts."""
        self._windows, self._groups = {}, 0
        sizes = [int(np.prod(s)) for s in shapes]
        for numbers, values in zip(ints, floats, strict=True):
            window, level, at = numbers[:3].tolist()
            keys = numbers[3:].copy().view(np.uint64)
            cuts = np.cumsum([len(keys) * s for s in sizes])[:-1]
            parts = [p.reshape(len(keys), *s).copy() for p, s in zip(np.split(values, cuts), shapes, strict=True)]
            self._windows.setdefault(window, []).append(Waiting(level, at, Guess(keys, *parts)))
            self._groups += len(keys)


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
