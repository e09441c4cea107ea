"""Skew bounds as a user writes them (S1 sections 2, 3 and 5.2), as a disorder policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.bounds.environment import Environment, read_environment
from slackwater.progress.bounds.skew import Bound, Pair, SkewMatrix, TuplePair
from slackwater.progress.bounds.user_settings import Length, call, length, show_wall, spread, ticks, wall
from slackwater.progress.disorder import Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.source_numbers import source_names, whole
from slackwater.progress.time import Span, TimeDomain


@dataclass(frozen=True, slots=True)
class TimedPair:
    """A time-based pair (t, δ) as written: t in ticks of the wall clock."""

    t: int
    delta: Length

    def __str__(self) -> str:
        return f"({show_wall(self.t)}, {self.delta!r})"


@dataclass(frozen=True, slots=True)
class Tuples:
    """A tuple-based pair (n, δ) as written; see `tuples`."""

    n: int
    delta: Length

    def __str__(self) -> str:
        return f"tuples({self.n}, {self.delta!r})"


def tuples(n: int, delta: Span) -> Tuples:
    """The tuple-based skew bound (n, δ) of S1 section 3.1: n tuples must pass, not a stretch of wall-clock time.

    Sorted, and a timestamp comes at most 3 times again:

    >>> skew([[[tuples(0, 1), tuples(3, 0)]]], timeout="1 minute").describe()
    "skew([[[tuples(0, 1), tuples(3, 0)]]], timeout='1 minute')"
    """
    return Tuples(whole(n, "n of tuples"), length(delta, "delta of tuples"))


#: A pair as written; `Pair` and `TuplePair` are in ticks, whatever the stream's domain.
Written = TimedPair | Tuples | Pair | TuplePair


@dataclass(frozen=True)
class Skew(Environment):
    """Skew bounds between the sources of a stream; see `skew`."""

    bounds: tuple[tuple[tuple[str, str], tuple[Written, ...]], ...]
    sources: tuple[str, ...] | None
    """Sorted; None: the stream is one source."""

    @property
    def needs_sources(self) -> bool:
        """Unless it speaks of the stream as one source."""
        return self.sources is not None

    def matrix(self, domain: TimeDomain) -> SkewMatrix:
        """B and L in ticks of a domain."""
        names = self.sources or _STREAM
        entries = {pair: [_ticks(bound, domain) for bound in written] for pair, written in self.bounds}
        rows = [[entries.get((a, b)) for b in names] for a in names]
        return SkewMatrix(rows, spread(self.latency, names, "latency"), names)

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker; refuses bounds that need a timeout and have none."""
        own = self.known_sources(self.matrix(domain), named=self.sources is not None)
        return with_idle(own, "skew", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        if self.sources is None:
            written, sources = f"[[{_shown(dict(self.bounds).get(('', ''), ()))}]]", None
        else:
            each = ", ".join(f"{pair!r}: {_shown(bounds)}" for pair, bounds in self.bounds)
            written = "{" + each + "}"
            spoken_of = sorted({name for pair, _ in self.bounds for name in pair})
            sources = None if tuple(spoken_of) == self.sources else repr(list(self.sources))
        return call("skew", written, sources=sources, **self.settings())


_STREAM = ("",)


@called()
def skew(
    bounds: Mapping[tuple[str, str], Any] | Sequence[Sequence[Any]] | SkewMatrix,
    *,
    latency: Span | Mapping[str, Span] = 0,
    timeout: str | int | timedelta | None = None,
    sources: Sequence[str] | None = None,
    unit: str | int | timedelta | None = None,
    indirect: bool = True,
    groups: int | Mapping[str, Iterable[str]] | None = None,
    ordered: bool = False,
    idle: Span | None = None,
) -> Skew:
    """A wait by source, from bounds on how far sources are behind each other (S1 sections 2 and 3).

    A pair (t, δ) for ("fast", "slow") says: if fast emits timestamp τ at instant c, then all that slow emits after
    c + t has a timestamp > τ − δ. For ("slow", "slow") it is the disorder inside one source. Write t as wall-clock
    time and δ as a stretch of the stream's time:

    >>> import numpy as np
    >>> from slackwater.progress.arrival import Arrival, SourceArrivals
    >>> policy = skew({("fast", "slow"): (0, 5), ("fast", "fast"): (0, 0)}, timeout="1 minute")
    >>> tracker = policy.tracker(TimeDomain.SEQUENCE)
    >>> one, top = np.array([1]), np.array([70])
    >>> tracker.arrive(Arrival(1, 0, 70, 70, at=0, sources=SourceArrivals(["fast"], one, top, top)))
    >>> tracker.by_source().names, tracker.by_source().ticks.tolist()
    (['fast', 'slow'], [70, 65])

    Args:
        bounds: by two names, as above; or a square matrix, a list of lists with `sources` for its names; or a ready
            `SkewMatrix`. An entry is a pair, several in a list, or None; see `tuples` for tuple-based ones. A
            matrix of one entry without `sources` speaks of the stream as one source.
        latency: how long a row is under way at most (L), the wait for its page included; for all, or by source.
        timeout: if nothing comes for so long, all that was seen is taken to be all (section 3.4). It must be
            written where rows could else stay behind for ever (Theorem 3.3).
        sources: the names, where `bounds` does not say them all.
        unit: the wall clock is divided into such units; fewer cells, heartbeats by less than a unit later.
        indirect: use guarantees through other sources, too (section 3.2). They take a source to keep its bounds
            also while it is silent.
        groups: one heartbeat for each group of sources (section 5.2): the groups, or how many to make.
        ordered: the network keeps the order of each source's rows (section 2), as a partition of a log does: what
            arrives later was emitted later. Then a source's own rows need not wait for `latency`.
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.
    """
    if isinstance(bounds, SkewMatrix):
        if latency != 0 or sources is not None:
            raise QueryError("a SkewMatrix has its sources and latencies; leave out sources= and latency=")
        if bounds.latency.any():
            latency = dict(zip(bounds.names, bounds.latency.tolist(), strict=True))
        sources, bounds = bounds.names, bounds.entries
    if sources is not None and not (isinstance(sources, Sequence) and all(isinstance(n, str) for n in sources)):
        raise QueryError(f"skew(sources={sources!r}): write the names, as in sources=['fast', 'slow']")
    names: tuple[str, ...] | None
    if isinstance(bounds, Mapping):
        written, names = _between(bounds, sources)
    elif isinstance(bounds, Sequence) and not isinstance(bounds, str):
        written, names = _square(bounds, sources)
    else:
        raise QueryError(f"skew({bounds!r}): write bounds by names, as in {{('fast', 'slow'): (0, '5 seconds')}}")
    settings = read_environment(latency, timeout, unit, groups, ordered, indirect, read_idle("skew", idle))
    spread(settings["latency"], names or _STREAM, "latency")
    return Skew(tuple(sorted((pair, found) for pair, found in written.items() if found)), names, **settings)


def _between(
    bounds: Mapping[tuple[str, str], Any], sources: Sequence[str] | None
) -> tuple[dict[tuple[str, str], tuple[Written, ...]], tuple[str, ...]]:
    for pair in bounds:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(name, str) for name in pair)):
            raise QueryError(f"skew has bounds for {pair!r}; write two sources, as in ('fast', 'slow')")
    found = list(dict.fromkeys(name for pair in bounds for name in pair))
    names = source_names(sources, len(sources)) if sources is not None else source_names(found, len(found))
    for name in found:
        if name not in names:
            raise QueryError(
                f"skew has bounds for {name!r}, an unknown source; the sources are {', '.join(map(repr, names))}"
            )
    return {pair: _entry(entry, pair) for pair, entry in bounds.items()}, tuple(sorted(names))


def _square(
    rows: Sequence[Sequence[Any]], sources: Sequence[str] | None
) -> tuple[dict[tuple[str, str], tuple[Written, ...]], tuple[str, ...] | None]:
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(rows):
            raise QueryError(
                f"row {i} of the skew matrix is {row!r}, for {len(rows)} sources; the matrix must be square: write "
                "an entry for each source, None where nothing is guaranteed"
            )
    if sources is None and len(rows) > 1:
        raise QueryError(f"a skew matrix of {len(rows)} sources needs their names; write sources=['fast', …]")
    names = _STREAM if sources is None and rows else source_names(sources, len(rows))
    found = {
        (a, b): _entry(e, (a, b))
        for a, row in zip(names, rows, strict=True)
        for b, e in zip(names, row, strict=True)
    }
    return found, None if sources is None else tuple(sorted(names))


def _entry(entry: Any, pair: tuple[str, str]) -> tuple[Written, ...]:
    """A set of pairs, each once and in order."""
    if entry is None:
        return ()
    if isinstance(entry, str) or not (_one(entry) or isinstance(entry, Iterable)):
        raise QueryError(f"{_what(pair)} is {entry!r}; write a pair as in (0, '5 seconds'), or several in a list")
    found = {_pair(each, _what(pair)) for each in ([entry] if _one(entry) else entry)}
    return tuple(sorted(found, key=lambda each: (type(each).__name__, repr(each))))


def _pair(written: Any, what: str) -> Written:
    if not _one(written):
        raise QueryError(f"{what} has {written!r} in it; write (t, delta), as in ('2 seconds', '5 seconds')")
    if isinstance(written, Written):
        return written
    return TimedPair(wall(written[0], f"t of {what}"), length(written[1], f"delta of {what}"))


def _one(entry: object) -> bool:
    """Whether it is meant as one pair, right or wrong, and not as several."""
    several = (tuple, list, Written)
    return isinstance(entry, Written) or (
        isinstance(entry, tuple) and len(entry) == 2 and not any(isinstance(e, several) for e in entry)
    )


def _what(pair: tuple[str, str]) -> str:
    return "the skew bound" if pair == ("", "") else f"the skew bound {pair!r}"


def _ticks(bound: Written, domain: TimeDomain) -> Bound:
    if isinstance(bound, (Pair, TuplePair)):
        return bound
    delta = ticks(bound.delta, domain, "delta")
    return Pair(bound.t, delta) if isinstance(bound, TimedPair) else TuplePair(bound.n, delta)


def _shown(bounds: tuple[Written, ...]) -> str:
    return "None" if not bounds else str(bounds[0]) if len(bounds) == 1 else f"[{', '.join(map(str, bounds))}]"
