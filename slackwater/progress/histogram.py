"""How late rows come: a histogram of lateness behind the largest time seen, for people to look at."""

from __future__ import annotations

from typing import Any

import datasketches as ds
import numpy as np

from slackwater.progress.arrival import Arrival
from slackwater.progress.source_numbers import Ints

#: Bins for each doubling of lateness: a quantile is off by at most a twelfth.
_FINE = 8
#: A page's weight after a hundred more pages is about a third.
_FADE = 0.99
_SHARES = (0.5, 0.9, 0.99, 0.999)
#: Ranks at which a sketch of timestamps is read: late rows have small ones.
_RANKS = np.concatenate([np.geomspace(1e-4, 0.1, 40, endpoint=False), np.linspace(0.1, 1, 31)])


def tail(sketch: bytes) -> tuple[Ints, np.ndarray[Any, np.dtype[np.float64]]]:
    """Timestamps of a sketch, increasing, and the share of its rows that each stands for.

    >>> rows = ds.kll_doubles_sketch(4096)
    >>> for t in range(100): rows.update(float(t))
    >>> times, shares = tail(bytes(rows.serialize()))
    >>> int(times[0]), int(times[-1]), round(float(shares.sum()), 9)
    (0, 99, 1.0)
    """
    read = ds.kll_doubles_sketch.deserialize(sketch)
    times = np.asarray(read.get_quantiles(_RANKS, True), dtype=np.float64)
    return times.astype(np.int64), np.diff(_RANKS, prepend=0.0)


class LatenessHistogram:
    """Lateness of rows: by how much the largest time of all earlier pages exceeds their own, if it does."""

    def __init__(self) -> None:
        self._weights = np.zeros(1 + 64 * _FINE)
        self._most = 0
        self._reference: dict[int, int] = {}

    def admit(self, page: int, highest: int | None) -> None:
        """A page comes; the largest time before it is this."""
        if highest is not None:
            self._reference[page] = highest

    def arrive(self, page: int, arrival: Arrival) -> None:
        """The page's statistics are known; only those with a sketch tell the distribution."""
        before = self._reference.pop(page, None)
        if before is None or arrival.lowest is None:
            return
        self._most = max(self._most, before - arrival.lowest)
        if arrival.sketch is None or arrival.timed == 0:
            return
        times, shares = tail(arrival.sketch)
        self._weights *= _FADE
        np.add.at(self._weights, _bin(np.maximum(before - times, 0)), shares * arrival.timed)

    def quantiles(self) -> dict[str, int]:
        """Lateness in ticks that half, 90 %, 99 % and 99.9 % of the rows do not exceed, and the largest seen."""
        total = self._weights.sum()
        if not total:
            return {"max": self._most} if self._most else {}
        upto = np.cumsum(self._weights) / total
        places = np.searchsorted(upto, _SHARES)
        found = {f"p{share * 100:g}": _value(int(p)) for share, p in zip(_SHARES, places, strict=True)}
        return {**{name: min(v, self._most) for name, v in found.items()}, "max": self._most}

    def shares(self) -> list[list[float]]:
        """The bins that have rows, as lateness in ticks (the upper end of each) and the share of all rows."""
        total = self._weights.sum()
        used = np.flatnonzero(self._weights > total * 1e-6) if total else ()
        return [[min(_value(int(p)), self._most), float(self._weights[p] / total)] for p in used]

    def state(self) -> list[Any]:
        """As JSON values; only the bins in use."""
        used = np.flatnonzero(self._weights > 1e-6)
        references = [[p, h] for p, h in self._reference.items()]
        return [used.tolist(), self._weights[used].tolist(), self._most, references]

    def restore(self, state: list[Any]) -> None:
        """Continue from an earlier `state()`."""
        used, weights, self._most, references = state
        self._weights[:] = 0
        self._weights[used] = weights
        self._reference = {p: h for p, h in references}


def _bin(lateness: Ints) -> Ints:
    exact = np.log2(np.maximum(lateness, 1).astype(np.float64)) * _FINE
    bins: Ints = np.where(lateness == 0, 0, 1 + np.floor(exact)).astype(np.int64)
    return bins


def _value(place: int) -> int:
    """The upper end of a bin."""
    return 0 if place == 0 else int(2 ** (place / _FINE))
