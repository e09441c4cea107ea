"""The sources of an environment: their numbers, their names, and one value for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import QueryError
from slackwater.progress.time import MIN_TICK

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: No single t, n, δ or L may exceed this; sums of a few of them still fit into 64 bits.
LARGEST = 2**60


def whole(value: object, what: str, least: int = 0) -> int:
    """Check a whole number from `least` to `LARGEST`; `what` is how the error names it.

    >>> whole(5, "latency")
    5
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise QueryError(f"{what} is {value!r}; write a whole number, as in {max(least, 1)}")
    if value < least:
        below = "negative" if least == 0 else f"less than {least}"
        raise QueryError(f"{what} is {value}, which is {below}; write {least} or more")
    if value > LARGEST:
        raise QueryError(f"{what} is {value}, which no clock will see; write at most {LARGEST}")
    return int(value)


def source_names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    """The names of n sources; their numbers when none are given."""
    if n == 0:
        raise QueryError("no sources; write at least one")
    if names is None:
        return tuple(map(str, range(n)))
    if len(names) != n:
        raise QueryError(f"{len(names)} names for {n} sources; write one for each")
    if len(set(names)) != n:
        twice = next(name for name in names if list(names).count(name) > 1)
        raise QueryError(f"source {twice!r} is named twice; write each name once")
    return tuple(names)


def index_of(source: int | str, names: tuple[str, ...]) -> int:
    """The number of a source, given by number or name."""
    if isinstance(source, str):
        if source in names:
            return names.index(source)
    elif 0 <= source < len(names):
        return int(source)
    shown = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
    raise QueryError(f"unknown source {source!r}; the sources are {shown}, numbered from 0 to {len(names) - 1}")


def per_source(value: int | Sequence[int] | Mapping[str, int], names: tuple[str, ...], what: str) -> list[int]:
    """One number for each source: one for all, one after the other, or by name.

    >>> per_source({"b": 2, "a": 1}, ("a", "b"), "latency")
    [1, 2]
    """
    if isinstance(value, Mapping):
        known = set(names)
        for name in value:
            if name not in known:
                index_of(str(name), names)
        for name in names:
            if name not in value:
                raise QueryError(f"{what} says nothing of source {name!r}; write a number for each source")
        value = [value[name] for name in names]
    elif isinstance(value, (int, np.integer)):
        return [whole(value, what)] * len(names)
    if len(value) != len(names):
        raise QueryError(
            f"{what} has {len(value)} numbers for {len(names)} sources; write one for each, or one for all"
        )
    return [whole(v, f"{what} of source {name!r}") for name, v in zip(names, value, strict=True)]


def representatives(kinds: Ints) -> list[int]:
    """The first two sources of every kind: two stand for all pairs of equal sources, one of them for itself.

    >>> representatives(np.array([7, 7, 4, 7]))
    [0, 1, 2]
    """
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    first = np.searchsorted(ordered, ordered)
    return sorted(order[np.arange(len(order)) - first < 2].tolist())


def lowered(timestamps: Ints | np.int64, delta: Ints) -> Ints:
    """τ − δ, or below all time where it would be less.

    >>> lowered(np.array([9, MIN_TICK + 1]), np.array([4, 5])) == [5, MIN_TICK]
    array([ True,  True])
    """
    result: Ints = np.maximum(timestamps, MIN_TICK + delta) - delta
    return result
