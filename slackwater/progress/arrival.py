"""Statistics of the times in a page, made by the job that does the page's work, before any filter."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch
from numpy.typing import NDArray

from slackwater.progress.pattern import Pattern
from slackwater.progress.source_numbers import Ints

#: Accuracy of the sketch of times: ranks are off by about a thousandth. A larger one costs no more time.
SKETCH_K = 4096


def sketch_of(times: Ints | NDArray[np.float64]) -> bytes:
    """The sketch of some times; of up to SKETCH_K it holds each."""
    sketch = kll_doubles_sketch(SKETCH_K)
    sketch.update(times.astype(np.float64))
    return bytes(sketch.serialize())


def merged_sketch(parts: Sequence[bytes]) -> bytes | None:
    """The sketch of all times in some sketches; None of none."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    first, *rest = (kll_doubles_sketch.deserialize(part) for part in parts)
    for sketch in rest:
        first.merge(sketch)
    return bytes(first.serialize())


@dataclass(frozen=True, slots=True, eq=False)
class SourceArrivals:
    """Arrival statistics of one page by source: arrays side by side, an entry for each source that sent something.

    A source that sent a punctuation and no row has 0 rows; its `lowest` and `highest` mean nothing then.
    """

    names: list[str]
    rows: Ints
    """Rows with a time."""
    lowest: Ints
    highest: Ints
    punctuation: Ints | None = None
    """The largest punctuation that each source sent; MIN_TICK where it sent none. None: the stream has none."""

    def __len__(self) -> int:
        return len(self.names)

    def saved(self) -> list[Any]:
        """As JSON values."""
        arrays = (self.rows, self.lowest, self.highest, self.punctuation)
        return [self.names, *(None if a is None else a.tolist() for a in arrays)]

    @staticmethod
    def load(saved: list[Any]) -> SourceArrivals:
        """From what `saved` gave."""
        arrays = [None if a is None else np.array(a, dtype=np.int64) for a in saved[1:]]
        rows, lowest, highest, punctuation = arrays
        assert rows is not None and lowest is not None and highest is not None
        return SourceArrivals(saved[0], rows, lowest, highest, punctuation)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Arrival statistics of one page."""

    rows: int
    """All rows of the page."""
    missing: int
    """Rows whose time is null or could not be read; a row that only carries a punctuation is not among them."""
    lowest: int | None
    """Smallest timestamp; None when no row has one."""
    highest: int | None
    """Largest timestamp; None when no row has one."""
    at: int
    """Wall-clock instant of arrival."""
    total: int | None = None
    """Sum of all timestamps, where the policy asks for it."""
    sketch: bytes | None = None
    """KLL sketch (of doubles) of the timestamps, where the policy asks for it."""
    punctuation: int | None = None
    """The largest punctuation on a row of the page, in a stream that has them."""
    sources: SourceArrivals | None = None
    """The same by source, in a stream that has a source column."""
    ahead: int = 0
    """Rows whose time was too far ahead to be believed; they are among the missing ones."""
    patterns: tuple[Pattern, ...] = ()
    """What its punctuations say of several attributes, in a stream that has such ones."""

    def saved(self) -> list[Any]:
        """As JSON values."""
        sketch = None if self.sketch is None else base64.b64encode(self.sketch).decode()
        by = None if self.sources is None else self.sources.saved()
        plain = [self.rows, self.missing, self.lowest, self.highest, self.at, self.total]
        return [*plain, sketch, self.punctuation, by, self.ahead]

    @staticmethod
    def load(saved: list[Any]) -> Arrival:
        """From what `saved` gave."""
        rows, missing, lowest, highest, at, total, sketch, punctuation, by, ahead = saved
        read = None if sketch is None else base64.b64decode(sketch)
        sources = None if by is None else SourceArrivals.load(by)
        return Arrival(rows, missing, lowest, highest, at, total, read, punctuation, sources, ahead)

    def stamped(self, at: int) -> Arrival:
        """The same rows, each that has a time with this one; the sketch of their times is left out."""
        stamp, by = at if self.timed else None, self.sources
        if by is not None:
            by = replace(by, lowest=np.full_like(by.lowest, at), highest=np.full_like(by.highest, at))
        total = None if self.total is None else at * self.timed
        return replace(self, lowest=stamp, highest=stamp, total=total, sketch=None, sources=by)

    def spread(self) -> NDArray[np.float64]:
        """Up to 100 increasing times, for equal shares of the rows each; without a sketch, the largest alone."""
        if self.sketch is None:
            return np.full(1, float(self.highest or 0))
        entries = min(self.timed, 100)
        ranks = (np.arange(entries) + 0.5) / entries
        return np.asarray(kll_doubles_sketch.deserialize(self.sketch).get_quantiles(ranks), dtype=np.float64)

    @property
    def timed(self) -> int:
        """Rows that have a time."""
        return self.rows - self.missing
