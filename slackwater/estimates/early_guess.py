"""What is said of windows of one age before they are final."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.estimates.group_history import Keys
from slackwater.estimates.small_arrays import within
from slackwater.progress.source_numbers import Floats, Ints


@dataclass
class Guess:
    """Early answers of one age, by group and column; the first column is the number of rows."""

    keys: Keys
    seen: Floats
    guesses: Floats
    """By group, column and guess."""
    center: Floats
    """The guess that was taken; `fit_to_type` makes it fit its type and its interval."""
    unit: Floats
    """By group, column and kind of unit."""
    spread: Floats
    """How many units errors have, by group, column and guess; not less is known of them than when it was said."""
    low: Floats
    high: Floats
    known: Floats
    """How many windows of the group are known; with few of them the interval is that of other groups."""
    traffic: Floats
    """The figures of `Traffic`: rows of all groups."""

    def take(self, places: Ints) -> Guess:
        """Some of the groups."""
        return Guess(self.keys[places], *(part[places] for part in self.parts()))

    def parts(self) -> list[Floats]:
        """All but the keys."""
        ends = [self.low, self.high, self.known, self.traffic]
        return [self.seen, self.guesses, self.center, self.unit, self.spread, *ends]

    @property
    def rest(self) -> Floats:
        """Rows that are believed to be missing."""
        return np.asarray(self.center[:, 0] - self.seen[:, 0])

    def in_scales(self, errors: Floats, unit: int, most: Floats) -> Floats:
        """How many scales of the first guess errors have, at most so many, the mean over groups by column."""
        with np.errstate(divide="ignore", invalid="ignore"):
            by = within(errors / (self.spread[:, :, 0] * self.unit[:, :, unit]), -most, most)
        return np.asarray(np.nansum(by, axis=0) / np.maximum(np.isfinite(by).sum(axis=0), 1))
