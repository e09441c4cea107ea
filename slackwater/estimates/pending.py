"""Early answers that wait for their final ones: a sample of groups and windows, of a bounded size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.estimates.age_profile import UNITS
from slackwater.estimates.early_guess import Guess
from slackwater.estimates.group_history import Keys
from slackwater.estimates.traffic import FIGURES
from slackwater.progress.source_numbers import Floats, Ints

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
        places = np.minimum(np.searchsorted(mine, keys), len(mine) - 1)
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
        self.groups = 0
        """How many groups' answers wait."""
        self.thinned = 0
        """How often the number of groups or windows was halved."""

    def __contains__(self, window: int) -> bool:
        return window in self._windows

    @property
    def _sample(self) -> int:
        return max(SAMPLE >> self.thinned, FEW)

    def sample(self, keys: Keys) -> Ints:
        """The places of the groups of which answers are kept, in the order of their hashes."""
        return np.asarray(np.argsort(keys)[: self._sample])

    @property
    def _every(self) -> int:
        """One window in so many is kept."""
        return max((FEW << self.thinned) // SAMPLE, 1)

    def wants(self, window: int) -> bool:
        """Whether answers of a window are kept."""
        return window % self._every == 0

    def add(self, window: int, level: int, answer: Waiting) -> bool:
        """Keep the answers of a sample, unless there are some of this age that are as good; whether it does."""
        old = self._windows.get(window, {}).get(level)
        new = answer if old is None else old.nearer(answer)
        if new is old:
            return False
        self._put(window, level, new.take(np.arange(min(len(new.at), self._sample))))
        while self.groups > MOST_WAITING:
            self._thin()
        return True

    def _put(self, window: int, level: int, answer: Waiting | None) -> None:
        """An answer in the place of the one that was there."""
        answers = self._windows.setdefault(window, {})
        old = answers.pop(level, None)
        self.groups -= 0 if old is None else len(old.at)
        if answer is not None and len(answer.at):
            answers[level] = answer
            self.groups += len(answer.at)
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
            places = np.minimum(np.searchsorted(keys, mine, sorter=order), len(keys) - 1)
            found = keys[order[places]] == mine
            if found.any():
                matched.append((level, waiting.take(np.flatnonzero(found)), order[places[found]]))
                # Others close on their own heartbeats.
                self._put(window, level, waiting.take(np.flatnonzero(~found)))
        return matched

    def forget(self, through: int) -> bool:
        """No final values come any more for windows up to this one; whether that changes anything.

        Where there is room, more is kept again.
        """
        gone = [(window, level) for window, level in self._places() if window <= through]
        for window, level in gone:
            self._put(window, level, None)
        room = self.thinned > 0 and self.groups < MOST_WAITING // 4
        self.thinned -= room
        return bool(gone) or room

    def _places(self) -> list[tuple[int, int]]:
        return [(window, level) for window, answers in self._windows.items() for level in answers]

    def pack(self) -> list[tuple[Ints, Floats]]:
        """All that a restart needs, but for `thinned`."""
        packed = []
        for window, level in self._places():
            w = self._windows[window][level]
            ints = np.concatenate([[window, level], w.at, w.guess.keys.view(np.int64)])
            packed.append((ints, np.concatenate([w.off, *(p.ravel() for p in w.guess.parts())])))
        return packed

    def unpack(self, ints: Ints, floats: Floats, columns: int, guesses: int) -> None:
        """Add one of what an earlier `pack()` gave, for so many columns and guesses of each."""
        window, level = ints[:2].tolist()
        at, keys = np.split(ints[2:].copy(), 2)
        n = len(at)
        one = (n, columns)
        by_guess = (*one, guesses)
        shapes = [(n,), one, by_guess, one, (*one, UNITS), by_guess, one, one, one, (n, FIGURES)]
        cuts = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
        parts = [p.reshape(s).copy() for p, s in zip(np.split(floats, cuts), shapes, strict=True)]
        self._put(window, level, Waiting(at, parts[0], Guess(keys.view(np.uint64), *parts[1:])))
