"""Skew bounds: pairs, sets of them, their product and closure, and when a timeout is needed (S1 sections 2 and 3).

Everything is a whole number: t and L are ticks of the wall clock, δ ticks of application time, n tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, cast

import numpy as np

from slackwater.errors import QueryError
from slackwater.progress.bounds.slow_closure import told_if_slow
from slackwater.progress.source_numbers import LARGEST, Ints, index_of, lowered, per_source, source_names, whole

#: Guarantees side by side: of what (targets, or positions in a page), after how long (t), how much (δ, or τ − δ).
Block = tuple[Ints, Ints, Ints]


@dataclass(frozen=True, slots=True)
class Pair:
    """A time-based skew bound (t, δ) of source φj behind source φi (S1 section 2).

    If φi emits timestamp τ at instant c, then all that φj emits after instant c + t has a timestamp > τ − δ.
    "After" is strict: what φj emits at c + t itself is not bound. On the diagonal (i = j) it is the disorder inside
    one stream: (0, 0) is sorted without duplicates, (0, 1) sorted with them.

    >>> Pair(0, 1)
    Pair(t=0, delta=1)
    """

    t: int
    delta: int

    def __post_init__(self) -> None:
        whole(self.t, f"t of {self!r}")
        whole(self.delta, f"delta of {self!r}")


@dataclass(frozen=True, slots=True)
class TuplePair:
    """A tuple-based skew bound (n, δ) (S1 section 3.1): not t ticks, but n tuples that φj emits after c must pass.

    A sorted stream in which a timestamp comes at most k times again:

    >>> irredundant([TuplePair(0, 1), TuplePair(3, 0)])
    (Pair(t=0, delta=1), TuplePair(n=3, delta=0))

    With n = 0 there is nothing to count, so it is the time-based (0, δ), and is kept as such.
    """

    n: int
    delta: int

    def __post_init__(self) -> None:
        whole(self.n, f"n of {self!r}")
        whole(self.delta, f"delta of {self!r}")


Bound = Pair | TuplePair
_Plain = tuple[int, int]
#: A skew bound as a set (S1 section 3.1), without redundant pairs and in order; empty when nothing is guaranteed.
BoundSet = tuple[Bound, ...]
#: What may be written for a set: nothing, one pair, or several; a plain (t, δ) is time-based.
Entry = Bound | tuple[int, int] | Iterable[Bound | tuple[int, int]] | None


def irredundant(bounds: Iterable[Bound]) -> BoundSet:
    """The paper's S⁻: without the pairs for which another is no later and no weaker (S1 section 3.2, footnote 1).

    Ticks and tuples do not compare, save that (0, δ) in ticks is no later than any count of tuples.

    >>> irredundant([Pair(1, 3), Pair(2, 2), Pair(2, 3), Pair(4, 2)])
    (Pair(t=1, delta=3), Pair(t=2, delta=2))
    >>> irredundant([Pair(0, 2), TuplePair(3, 2), TuplePair(3, 1)])
    (Pair(t=0, delta=2), TuplePair(n=3, delta=1))
    """
    times: list[Pair] = []
    counts: list[TuplePair] = []
    given = [Pair(0, b.delta) if isinstance(b, TuplePair) and b.n == 0 else b for b in bounds]
    for pair in sorted((b for b in given if isinstance(b, Pair)), key=lambda b: (b.t, b.delta)):
        if not times or pair.delta < times[-1].delta:
            times.append(pair)
    weakest = times[0].delta if times and times[0].t == 0 else None
    for counted in sorted((b for b in given if isinstance(b, TuplePair)), key=lambda b: (b.n, b.delta)):
        if weakest is None or counted.delta < weakest:
            counts.append(counted)
            weakest = counted.delta
    return (*times, *counts)


def product(first: BoundSet, then: BoundSet) -> BoundSet:
    """The paper's ⊗ (S1 section 3.2): what φi guarantees of φj through φk, redundant pairs removed.

    Time-based pairs add up. A tuple-based pair counts tuples of the source that it speaks of. As the second factor
    that is φj, as it should be, and counting starts at the instant of φk's virtual tuple; a pair (n, δ) can say so
    only if that is φi's own instant. Hence (0, δ) ⊗ (n, δ') = (n, δ + δ'), and behind t > 0 it gives nothing. As
    the first factor it counts tuples of φk, which no pair for φj can say, so it gives nothing. What is left out
    makes heartbeats later, never wrong. Tuple-based pairs of the diagonal lose nothing by it: in front or behind,
    they only weaken what the other factor says alone.

    >>> product((Pair(1, 1),), (Pair(1, 1), Pair(4, 0)))
    (Pair(t=2, delta=2), Pair(t=5, delta=1))
    >>> product((Pair(0, 1),), (TuplePair(3, 0),)), product((TuplePair(3, 0),), (Pair(0, 1),))
    ((TuplePair(n=3, delta=1),), ())
    """
    return irredundant(_sums(first, then))


def _sums(first: BoundSet, then: BoundSet) -> list[Bound]:
    sums: list[Bound] = []
    for a in first:
        if not isinstance(a, Pair):
            continue
        for b in then:
            # A sum beyond LARGEST is as good as no guarantee.
            if a.delta + b.delta > LARGEST:
                continue
            if isinstance(b, TuplePair):
                if a.t == 0:
                    sums.append(TuplePair(b.n, a.delta + b.delta))
            elif a.t + b.t <= LARGEST:
                sums.append(Pair(a.t + b.t, a.delta + b.delta))
    return sums


def _through(known: list[_Plain], first: list[_Plain], then: list[_Plain]) -> list[_Plain]:
    """Time-based pairs (t, δ), irredundant, with those of two sets one behind the other."""
    if not then:
        return known
    soonest, least = then[0][0], then[-1][1]
    sums = []
    for t, delta in first:
        place = bisect_right(known, (t + soonest, LARGEST))
        # Where a known pair is no later and no weaker than the best sum could be, all sums are redundant.
        if place == 0 or known[place - 1][1] > delta + least:
            sums += [(t + u, delta + d) for u, d in then if t + u <= LARGEST and delta + d <= LARGEST]
    if not sums:
        return known
    found: list[_Plain] = []
    for pair in sorted(known + sums):
        if not found or pair[1] < found[-1][1]:
            found.append(pair)
    return found


class SkewBounds(Protocol):
    """What heartbeat generation asks of an environment: a stored `SkewMatrix`, or one that computes its entries."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, in the order of their numbers."""

    @property
    def latency(self) -> Ints:
        """The latency bound L of each source."""

    @property
    def span(self) -> int:
        """How far ahead a guarantee can lie: no less than any t + L."""

    def __getitem__(self, pair: tuple[int | str, int | str]) -> BoundSet:
        """The set for sources φi and φj, by number or name."""

    def closure(self) -> SkewBounds:
        """The paper's B*."""

    def unsettled(self) -> tuple[str, str] | None:
        """Two sources φi and φj of which no time-based pair of B_ij has δ = 0, if there are such."""

    def at_once(self) -> Ints:
        """For each source the δ of its pair (0, δ) on itself; -1 where it has none."""

    def promises(self, sources: Ints, highest: Ints) -> Iterator[Block]:
        """What the largest timestamps of a page guarantee by time-based pairs: targets, t, heartbeats τ − δ.

        In one block, each target is there once. What another promise of the page says sooner may be left out.
        """

    def counted(self) -> list[tuple[int | None, int, tuple[TuplePair, ...]]]:
        """The tuple-based ones: origin (None: whichever source), target, pairs."""


class SkewMatrix:
    """The skew bound matrix B with the latency bounds L (S1 section 2).

    Rows and columns follow the sources; entry [i, j] says how far φj may lag behind φi. An entry may be empty; the
    diagonal is the disorder inside each stream.

    >>> b = SkewMatrix([[None, (1, 1), (1, 3)], [None, None, (1, 1)], [None, None, None]])
    >>> b[0, 2]
    (Pair(t=1, delta=3),)
    >>> b.closure()[0, 2]          # S1 section 3.2: (2, 2), through the second source
    (Pair(t=1, delta=3), Pair(t=2, delta=2))
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Entry]],
        latency: int | Sequence[int] | Mapping[str, int] = 0,
        names: Sequence[str] | None = None,
    ) -> None:
        self.names = source_names(names, len(rows))
        for name, row in zip(self.names, rows, strict=True):
            if len(row) != len(rows):
                raise QueryError(
                    f"row {name!r} of the skew matrix has {len(row)} entries for {len(rows)} sources; "
                    "write one for each source, None where nothing is guaranteed"
                )
        self.entries = tuple(
            tuple(bound_set(e, f"entry [{a!r}, {b!r}]") for b, e in zip(self.names, row, strict=True))
            for a, row in zip(self.names, rows, strict=True)
        )
        self.latency = np.array(per_source(latency, self.names, "latency"), dtype=np.int64)
        self._rows: dict[int, list[Block]] = {}

    @classmethod
    def between(
        cls,
        names: Sequence[str],
        bounds: Mapping[tuple[str, str], Entry],
        latency: int | Sequence[int] | Mapping[str, int] = 0,
    ) -> SkewMatrix:
        """A matrix by names, empty where nothing is written.

        >>> SkewMatrix.between(["north", "south"], {("north", "south"): (0, 5)})["north", "south"]
        (Pair(t=0, delta=5),)
        """
        names = source_names(names, len(names))
        rows: list[list[Entry]] = [[None] * len(names) for _ in names]
        for (a, b), entry in bounds.items():
            rows[index_of(a, names)][index_of(b, names)] = entry
        return cls(rows, latency, names)

    def __getitem__(self, pair: tuple[int | str, int | str]) -> BoundSet:
        return self.entries[index_of(pair[0], self.names)][index_of(pair[1], self.names)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SkewMatrix):
            return NotImplemented
        same = self.names == other.names and self.entries == other.entries
        return same and bool(np.array_equal(self.latency, other.latency))

    def __hash__(self) -> int:
        return hash((self.names, self.entries))

    def __repr__(self) -> str:
        return f"SkewMatrix({self.entries!r}, latency={self.latency.tolist()!r}, names={self.names!r})"

    def __mul__(self, other: SkewMatrix) -> SkewMatrix:
        """The matrix product of S1 section 3.2: direct guarantees, and those through one source in between.

        >>> b = SkewMatrix([[None, (1, 1)], [(2, 2), None]])
        >>> (b * b)[0, 0], (b * b)[0, 1]
        ((Pair(t=3, delta=3),), (Pair(t=1, delta=1),))
        """
        if self.names != other.names:
            raise QueryError(
                f"the sources {self.names} and {other.names} differ; multiply matrices of the same ones"
            )
        n = range(len(self.names))
        rows = []
        for i in n:
            via = [(self.entries[i][k], other.entries[k]) for k in n if self.entries[i][k]]
            row: list[BoundSet] = []
            for j in n:
                found: list[Bound] = [*self.entries[i][j], *other.entries[i][j]]
                for first, then in via:
                    found += _sums(first, then[j])
                row.append(irredundant(found))
            rows.append(row)
        return SkewMatrix(rows, cast("list[int]", self.latency.tolist()), self.names)

    def closure(self) -> SkewMatrix:
        """The paper's B* (S1 section 3.2): every indirect guarantee written out, path by path.

        It costs about as much as one product, and leaves out paths that can give nothing but redundant pairs.

        It takes a bound to speak of the source and not only of its tuples: that φk, had it emitted one, would have
        kept it (the paper's virtual tuple). If φk may fall silent and a bound holds only between tuples that were
        really emitted, B* promises too much; B itself is then the matrix to use.

        >>> sorted_stream = SkewMatrix([[(0, 0)]])
        >>> sorted_stream.closure() is sorted_stream       # idempotent
        True
        """
        timed = [[[(b.t, b.delta) for b in e if isinstance(b, Pair)] for e in row] for row in self.entries]
        counted: list[list[BoundSet]] = [
            [tuple(b for b in e if isinstance(b, TuplePair)) for e in row] for row in self.entries
        ]
        n = range(len(self.names))
        # A path is put together at the source with the largest number in its middle; a cycle gives nothing new.
        for k, i, j in (
            (k, i, j) for k in told_if_slow(n) for i in n if i != k and timed[i][k] for j in n if j != k
        ):
            timed[i][j] = _through(timed[i][j], timed[i][k], timed[k][j])
            wait, delta = timed[i][k][0]
            if wait == 0 and counted[k][j]:
                counted[i][j] = irredundant([*counted[i][j], *_sums((Pair(0, delta),), counted[k][j])])
        rows = [[irredundant([*(Pair(t, d) for t, d in timed[i][j]), *counted[i][j]]) for j in n] for i in n]
        closed = SkewMatrix(rows, cast("list[int]", self.latency.tolist()), self.names)
        return self if closed == self else closed

    @property
    def span(self) -> int:
        """The largest t + L."""
        waits = [b.t for row in self.entries for entry in row for b in entry if isinstance(b, Pair)]
        return max(waits, default=0) + int(self.latency.max())

    def unsettled(self) -> tuple[str, str] | None:
        """The first such two."""
        for a, row in zip(self.names, self.entries, strict=True):
            for b, entry in zip(self.names, row, strict=True):
                if 0 not in {pair.delta for pair in entry if isinstance(pair, Pair)}:
                    return a, b
        return None

    def at_once(self) -> Ints:
        """The first pair of each set of the diagonal, if it is of t = 0."""
        first = [next(iter(row[i]), None) for i, row in enumerate(self.entries)]
        return np.array([b.delta if isinstance(b, Pair) and b.t == 0 else -1 for b in first], dtype=np.int64)

    def promises(self, sources: Ints, highest: Ints) -> Iterator[Block]:
        """All pairs of the rows of all sources in the page: nothing is known of how they compare."""
        for source, top in zip(sources.tolist(), highest, strict=True):
            for targets, t, delta in self._row(source):
                yield targets, t, lowered(top, delta)

    def _row(self, source: int) -> list[Block]:
        """All time-based pairs of a row: targets, t, δ; in one block, each target once."""
        if source not in self._rows:
            entries = enumerate(self.entries[source])
            timed = [[(j, b.t, b.delta) for b in entry if isinstance(b, Pair)] for j, entry in entries]
            blocks = ([p for p in block if p is not None] for block in zip_longest(*timed))
            tables = [np.array(block, dtype=np.int64).T.copy() for block in blocks]
            self._rows[source] = [(table[0], table[1], table[2]) for table in tables]
        return self._rows[source]

    def counted(self) -> list[tuple[int | None, int, tuple[TuplePair, ...]]]:
        """Every entry with tuple-based pairs."""
        found: list[tuple[int | None, int, tuple[TuplePair, ...]]] = []
        for i, row in enumerate(self.entries):
            for j, entry in enumerate(row):
                if pairs := tuple(b for b in entry if isinstance(b, TuplePair)):
                    found.append((i, j, pairs))
        return found


def timeout_needed(closed: SkewBounds) -> bool:
    """Theorem 3.3 (S1 section 3.4), of B*: whether tuples could stay behind for ever when all streams pause.

    No timeout is needed just when every entry comes down to δ = 0. Only time-based pairs count for that: when all
    streams pause, no tuple comes that could be counted.

    >>> timeout_needed(SkewMatrix([[(0, 0), (3, 0)], [(1, 0), (0, 0)]]))
    False
    >>> timeout_needed(SkewMatrix([[[Pair(0, 1), TuplePair(2, 0)]]]))
    True
    """
    return closed.unsettled() is not None


def bound_set(entry: Entry, what: str = "the skew bound") -> BoundSet:
    """Read what was written for a set; see `Entry`.

    >>> bound_set((0, 1)), bound_set([(0, 2), TuplePair(4, 0)])
    ((Pair(t=0, delta=1),), (Pair(t=0, delta=2), TuplePair(n=4, delta=0)))
    """
    if entry is None:
        return ()
    if isinstance(entry, (Pair, TuplePair)) or (isinstance(entry, tuple) and len(entry) == 2 and _plain(entry)):
        entry = [cast("Bound | tuple[int, int]", entry)]
    if isinstance(entry, str) or not isinstance(entry, Iterable):
        raise QueryError(f"{what} is {entry!r}; write a pair as in Pair(0, 5), several in a list, or None")
    read: list[Bound] = []
    for each in entry:
        if isinstance(each, (Pair, TuplePair)):
            read.append(each)
        elif isinstance(each, tuple) and len(each) == 2 and _plain(each):
            read.append(Pair(each[0], each[1]))
        else:
            raise QueryError(f"{what} has {each!r} in it; write Pair(t, delta) or TuplePair(n, delta)")
    return irredundant(read)


def _plain(entry: tuple[object, ...]) -> bool:
    return not any(isinstance(e, (Pair, TuplePair, tuple)) for e in entry)
