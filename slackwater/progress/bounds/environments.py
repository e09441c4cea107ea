"""The bounds of ready-made environments (S1 section 4), computed from a few values per source (section 5.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import QueryError
from slackwater.progress.bounds.skew import Block, BoundSet, Pair, SkewBounds, SkewMatrix, TuplePair, irredundant
from slackwater.progress.source_numbers import (
    LARGEST,
    Ints,
    index_of,
    lowered,
    per_source,
    representatives,
    source_names,
)

T = TypeVar("T")

#: The most sources for which a closure that is not idempotent is stored as a matrix.
STORED = 64


class PerSource(ABC):
    """Skew bounds that are computed from values of φi and φj: O(n) is stored, not n² (S1 section 5.1).

    A subclass has a source bind itself at least as tightly as another one with the same values, so that it does no
    harm to count a source among its own others. `values` are all that the bounds are computed from.

    >>> many = sensor_bounds([3] * 100_000)
    >>> many[7, 99_999], many[7, 7]
    ((Pair(t=0, delta=6),), (Pair(t=0, delta=3),))
    """

    def __init__(self, names: tuple[str, ...], latency: list[int], *values: list[int]) -> None:
        self._set(names, np.array([latency, *values], dtype=np.int64))

    def _set(self, names: tuple[str, ...], values: Ints) -> None:
        self.names = names
        self.latency: Ints = values[0]
        self._values = values
        self._all: Ints = np.arange(len(names), dtype=np.int64)

    @abstractmethod
    def others(self, source: int, targets: Ints) -> list[Block]:
        """The time-based pairs between a source and targets, as if none were the source itself: which, t, δ."""

    @abstractmethod
    def own(self, sources: Ints) -> list[Block]:
        """The time-based pairs of the diagonal: positions, t, δ."""

    @abstractmethod
    def front(self, sources: Ints, highest: Ints) -> Ints:
        """Positions of the sources of a page that guarantee more of the others than any other source of it."""

    @abstractmethod
    def weakest(self, group: Ints) -> list[int]:
        """The two sources of a group (or the one) that guarantee least of others; between equals the first."""

    @property
    def pairs_counted(self) -> tuple[TuplePair, ...]:
        """The tuple-based pairs, which hold between any two sources."""
        return ()

    @cached_property
    def kinds(self) -> Ints:
        """Sources with equal values are of one kind."""
        if (self._values == self._values[:, :1]).all():
            return np.zeros(len(self.names), dtype=np.int64)
        kinds: Ints = np.unique(self._values, axis=1, return_inverse=True)[1].reshape(-1)
        return kinds

    @cached_property
    def span(self) -> int:
        """The largest t, and the largest L."""
        blocks = [*self.own(self._all), *self.others(self.weakest(self._all)[0], self._all)]
        return max(int(t.max()) for _, t, _ in blocks) + int(self.latency.max())

    @property
    def traits(self) -> NDArray[np.float64]:
        """What makes a source slower the larger it is: a row for each trait, latency first."""
        return self._values.astype(np.float64)

    def repeated(self, n: int) -> Self:
        """Bounds for `n` sources, named by their numbers, that all have the values of the first."""
        other = copy(self)
        for cached in ("kinds", "span", "_common_rate"):
            other.__dict__.pop(cached, None)
        other._set(tuple(map(str, range(n))), np.repeat(self._values[:, :1], n, axis=1))
        return other

    def unsettled(self) -> tuple[str, str] | None:
        """Decided by the diagonal, and by the source that guarantees least of the others."""
        weakest = self.weakest(self._all)[0]
        own = np.min([delta for _, _, delta in self.own(self._all)], axis=0)
        others = np.min([delta for _, _, delta in self.others(weakest, self._all)], axis=0)
        others[weakest] = 0
        for least, origin in ((own, int(own.argmax())), (others, weakest)):
            if least.any():
                return self.names[origin], self.names[int(least.argmax())]
        return None

    def at_once(self) -> Ints:
        """Read off the diagonal."""
        found: Ints = np.full(len(self.names), -1, dtype=np.int64)
        for positions, t, delta in self.own(self._all):
            found[positions[t == 0]] = delta[t == 0]
        return found

    def __getitem__(self, pair: tuple[int | str, int | str]) -> BoundSet:
        i, j = (index_of(source, self.names) for source in pair)
        one = np.array([j], dtype=np.int64)
        blocks = self.own(one) if i == j else self.others(i, one)
        timed = [Pair(int(t[0]), int(delta[0])) for _, t, delta in blocks if len(t)]
        return irredundant([*timed, *(() if i == j else self.pairs_counted)])

    def promises(self, sources: Ints, highest: Ints) -> Iterator[Block]:
        """The promises of the front for all sources, and of each source for itself."""
        for position in self.front(sources, highest).tolist():
            for targets, t, delta in self.others(int(sources[position]), self._all):
                yield targets, t, lowered(highest[position], delta)
        for positions, t, delta in self.own(sources):
            yield sources[positions], t, lowered(highest[positions], delta)

    def counted(self) -> list[tuple[int | None, int, tuple[TuplePair, ...]]]:
        return [(None, j, self.pairs_counted) for j in range(len(self.names))] if self.pairs_counted else []

    def matrix(self, sources: Sequence[int] | None = None) -> SkewMatrix:
        """The entries written out, of all sources or of some."""
        some = range(len(self.names)) if sources is None else sources
        rows = [[self[i, j] for j in some] for i in some]
        return SkewMatrix(rows, [int(self.latency[i]) for i in some], [self.names[i] for i in some])

    def closure(self) -> SkewBounds:
        """Itself where it is idempotent, which two sources of each kind tell; else B* as a stored matrix."""
        some = representatives(self.kinds)
        if len(some) <= STORED:
            matrix = self.matrix(some)
            if matrix.closure() == matrix:
                return self
        if len(self.names) <= STORED:
            return self.matrix().closure()
        raise QueryError(
            f"the indirect guarantees of {len(self.names)} sources would be stored for every two of them; write "
            "indirect=False to go without, give all sources the same values, or aggregate them into groups"
        )


class SensorBounds(PerSource):
    """Sensors with clocks of their own (S1 section 4.2); see `sensor_bounds`."""

    def __init__(
        self,
        names: tuple[str, ...],
        latency: list[int],
        deviation: list[int],
        rate: list[Fraction] | None,
        ties: bool,
    ) -> None:
        rates = rate or []
        ups, downs = [r.numerator for r in rates], [r.denominator for r in rates]
        super().__init__(names, latency, deviation, *([ups, downs] if rates else []))
        self._tie = int(ties)

    @property
    def deviation(self) -> Ints:
        """How far a clock is off at most."""
        return cast("Ints", self._values[1])

    @property
    def _rate(self) -> tuple[Ints, Ints] | None:
        return (self._values[2], self._values[3]) if len(self._values) > 2 else None

    @cached_property
    def _common_rate(self) -> tuple[int, int] | None:
        """That of all sources, if it is one: to divide by one number is several times as fast."""
        if self._rate is None or any((values != values[0]).any() for values in self._rate):
            return None
        return int(self._rate[0][0]), int(self._rate[1][0])

    @property
    def traits(self) -> NDArray[np.float64]:
        slow = [] if self._rate is None else [self._rate[1] / self._rate[0]]
        return np.array([self.latency, self.deviation, *slow], dtype=np.float64)

    def _pairs(self, which: Ints, targets: Ints, delta: Ints) -> list[Block]:
        """The pair (0, δ), and (⌈δ / r⌉, 0) by which the slowest clock has caught up."""
        none = np.zeros_like(targets)
        blocks = [(which, none, delta)]
        if self._rate is not None:
            ups, downs = self._common_rate or (values[targets] for values in self._rate)
            blocks.append((which, -(-(delta * downs) // ups), none))
        return blocks

    def others(self, source: int, targets: Ints) -> list[Block]:
        return self._pairs(targets, targets, self.deviation[source] + self.deviation[targets] + self._tie)

    def own(self, sources: Ints) -> list[Block]:
        return self._pairs(np.arange(len(sources), dtype=np.int64), sources, self.deviation[sources] + self._tie)

    def front(self, sources: Ints, highest: Ints) -> Ints:
        if self._rate is None:
            # The deviation of the origin is all that tells one from another.
            best = int(lowered(highest, self.deviation[sources]).argmax())
            return np.array([best], dtype=np.int64)
        return best_of_page(self.deviation[sources], highest)

    def promises(self, sources: Ints, highest: Ints) -> Iterator[Block]:
        if self._rate is None:
            yield from super().promises(sources, highest)
            return
        # Of the pairs (0, δ) between sources only one origin's matter, for the others the whole front's.
        best = int(lowered(highest, self.deviation[sources]).argmax())
        for position in [best, *(p for p in self.front(sources, highest).tolist() if p != best)]:
            now, later = self.others(int(sources[position]), self._all)
            if position == best:
                yield now[0], now[1], lowered(highest[position], now[2])
            # Later the δ is 0.
            yield later[0], later[1], np.full(len(later[0]), highest[position])
        now, later = self.own(sources)
        yield sources, now[1], lowered(highest, now[2])
        yield sources, later[1], highest

    def weakest(self, group: Ints) -> list[int]:
        return first_two(group, -self.deviation[group])

    def closure(self) -> SkewBounds:
        """Itself without rates: through φk it is 2 d_k more. With rates the general rule decides."""
        return self if self._rate is None else super().closure()


def sensor_bounds(
    deviation: Sequence[int] | Mapping[str, int],
    *,
    rate: int | Fraction | Sequence[int | Fraction] | Mapping[str, int | Fraction] | None = None,
    latency: int | Sequence[int] | Mapping[str, int] = 0,
    ties: bool = False,
) -> SensorBounds:
    """Sources whose clocks deviate from one application clock by at most `deviation` (S1 section 4.2).

    B_ij = {(0, d_i + d_j)} and B_ii = {(0, d_i)}: a clock that is set back goes back by at most d_i. A timeout is
    needed, unless clocks are known to advance by at least `rate` ticks of application time per tick of the wall
    clock: that adds (⌈(d_i + d_j) / r_j⌉, 0) and (⌈d_j / r_j⌉, 0).

    >>> sensor_bounds([2, 3])[0, 1]
    (Pair(t=0, delta=5),)
    >>> sensor_bounds({"hall": 2, "roof": 3}, rate=Fraction(1, 2))["hall", "roof"]
    (Pair(t=0, delta=5), Pair(t=10, delta=0))

    The paper's strict bounds take it that the application clock advances between any two emissions. Where several
    fall into one of its ticks, write `ties=True`: every δ above is then one more.
    """
    names, given = named_values(deviation)
    deviations = per_source(given, names, "deviation")
    rates = None if rate is None else _rates(rate, names)
    latencies = per_source(latency, names, "latency")
    if (2 * max(deviations) + 1) * max((r.denominator for r in rates or ()), default=1) > LARGEST:
        raise QueryError(
            f"deviation {max(deviations)} with rate {rate!r} is beyond what can be computed; write a smaller "
            "deviation, or a rate with a smaller denominator, as in Fraction(999, 1000)"
        )
    return SensorBounds(names, latencies, deviations, rates, ties)


def _rates(
    rate: int | Fraction | Sequence[int | Fraction] | Mapping[str, int | Fraction], names: tuple[str, ...]
) -> list[Fraction]:
    each: list[object]
    if isinstance(rate, Mapping):
        for name in rate:
            index_of(name, names)
        each = [rate.get(name) for name in names]
    else:
        each = list(rate) if isinstance(rate, Sequence) else [rate] * len(names)
    if len(each) != len(names):
        raise QueryError(f"rate has {len(each)} numbers for {len(names)} sources; write one for each, or for all")
    read = []
    for name, r in zip(names, each, strict=True):
        if isinstance(r, bool) or not isinstance(r, (int, Fraction)) or r <= 0 or r.numerator > LARGEST:
            raise QueryError(f"rate of source {name!r} is {r!r}; write a positive one, as in 1 or Fraction(9, 10)")
        read.append(Fraction(r))
    return read


def named_values(values: Sequence[T] | Mapping[str, T]) -> tuple[tuple[str, ...], list[T]]:
    """The names of sources, and the value of each."""
    if isinstance(values, Mapping):
        return source_names(list(values), len(values)), list(values.values())
    return source_names(None, len(values)), list(values)


def best_of_page(lag: Ints, highest: Ints) -> Ints:
    """Positions that no other beats in both: a smaller lag and a larger timestamp."""
    left = np.arange(len(lag), dtype=np.int64)
    found: list[int] = []
    while len(left):
        top = left[highest[left] == highest[left].max()]
        best = top[lag[top].argmin()]
        found.append(int(best))
        left = left[lag[left] < lag[best]]
    return np.array(found, dtype=np.int64)


def first_two(group: Ints, key: Ints) -> list[int]:
    """The two sources of a group with the least keys; between equals the first."""
    return group[np.argsort(key, kind="stable")[:2]].tolist()  # type: ignore[no-any-return]
