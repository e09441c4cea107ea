"""S1's first environment (section 4.1): sources that take their timestamps from one global counter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import QueryError
from slackwater.progress.bounds.environment import Environment, read_environment
from slackwater.progress.bounds.environments import PerSource, best_of_page, first_two, named_values
from slackwater.progress.bounds.skew import Block, TuplePair
from slackwater.progress.bounds.source_tracker import StreamTracker
from slackwater.progress.bounds.user_settings import NamedValues, call, read, show, show_wall, spread, wall
from slackwater.progress.policies import ENVIRONMENT, POLICIES, Policy, as_lengths, read_pair
from slackwater.progress.source_numbers import Ints, per_source, whole
from slackwater.progress.time import Span, TimeDomain

Times = tuple[int, int]


class CounterBounds(PerSource):
    """Sources that stamp with tokens of one counter (S1 section 4.1); see `counter_bounds`."""

    def __init__(
        self, names: tuple[str, ...], latency: list[int], shortest: list[int], longest: list[int], counted: bool
    ) -> None:
        super().__init__(names, latency, shortest, longest)
        self._counted = counted

    @property
    def shortest(self) -> Ints:
        """The shortest time from asking for a token to emitting it."""
        return cast("Ints", self._values[1])

    @property
    def longest(self) -> Ints:
        """The longest."""
        return cast("Ints", self._values[2])

    @property
    def traits(self) -> NDArray[np.float64]:
        # A longer shortest time makes a source guarantee more, so it is the difference that slows.
        return np.array([self.latency, self.longest - self.shortest, self.longest], dtype=np.float64)

    @property
    def pairs_counted(self) -> tuple[TuplePair, ...]:
        return (TuplePair(1, 0),) if self._counted else ()

    def others(self, source: int, targets: Ints) -> list[Block]:
        return [(targets, np.maximum(self.longest[targets] - self.shortest[source], 0), np.zeros_like(targets))]

    def own(self, sources: Ints) -> list[Block]:
        zero = np.zeros_like(sources)
        return [(np.arange(len(sources), dtype=np.int64), zero, zero)]

    def front(self, sources: Ints, highest: Ints) -> Ints:
        # The longer the shortest time, the sooner the guarantee.
        return best_of_page(-self.shortest[sources], highest)

    def weakest(self, group: Ints) -> list[int]:
        return first_two(group, self.shortest[group])

    def closure(self) -> CounterBounds:
        """Itself: a way through φk takes no less time, since t_k^max ≥ t_k^min."""
        return self


def counter_bounds(
    processing: Sequence[tuple[int, int]] | Mapping[str, tuple[int, int]],
    *,
    latency: int | Sequence[int] | Mapping[str, int] = 0,
    counted: bool = False,
) -> CounterBounds:
    """Sources that ask one counter for the next token, process it and emit it as timestamp (S1 section 4.1).

    `processing` gives for each source the shortest and the longest time from asking to emitting. Then
    B_ij = {((t_j^max − t_i^min)⁺, 0)} and B_ii = {(0, 0)}; no timeout is needed.

    >>> bounds = counter_bounds({"a": (1, 4), "b": (2, 9)}, latency=3, counted=True)
    >>> bounds["a", "b"], bounds["b", "a"]
    ((Pair(t=8, delta=0), TuplePair(n=1, delta=0)), (Pair(t=2, delta=0), TuplePair(n=1, delta=0)))

    With `counted`, B_ij also has the tuple-based (1, 0): once φj has emitted another, its next token is a new one.
    That is worked out source by source, and not made for many thousands of them.
    """
    names, given = named_values(processing)
    for name, times in zip(names, given, strict=True):
        pair = isinstance(times, tuple) and len(times) == 2
        ends = [whole(t, f"a processing time of source {name!r}") for t in times] if pair else []
        if not ends or ends[0] > ends[1]:
            raise QueryError(
                f"processing of source {name!r} is {times!r}; write the shortest and the longest time, as in (2, 5)"
            )
    shortest, longest = [low for low, _ in given], [high for _, high in given]
    return CounterBounds(names, per_source(latency, names, "latency"), shortest, longest, counted)


@dataclass(frozen=True)
class GlobalCounter(Environment):
    """Sources that stamp with tokens of one counter; see `global_counter`."""

    processing: Times | NamedValues[Times]
    counted: bool = False

    needs_sources: ClassVar[bool] = True

    def tracker(self, domain: TimeDomain) -> StreamTracker:
        """A fresh tracker."""

        def bounds(names: tuple[str, ...]) -> PerSource:
            return counter_bounds(
                dict(zip(names, spread(self.processing, names, "processing"), strict=True)),
                latency=spread(self.latency, names, "latency"),
                counted=self.counted,
            )

        return self.equal_sources(bounds, self.processing)

    def describe(self) -> str:
        """The policy as the user would write it."""
        return call(
            "global_counter",
            show(self.processing, lambda times: f"({show_wall(times[0])}, {show_wall(times[1])})"),
            counted="True" if self.counted else None,
            **self.settings(),
        )


def global_counter(
    processing: tuple[Span, Span] | Mapping[str, tuple[Span, Span]],
    *,
    latency: Span | Mapping[str, Span] = 0,
    timeout: str | int | timedelta | None = None,
    counted: bool = False,
    unit: str | int | timedelta | None = None,
    groups: int | Mapping[str, Iterable[str]] | None = None,
    ordered: bool = False,
) -> GlobalCounter:
    """A wait for sources that take their timestamps from one counter (S1 section 4.1).

    Each asks the counter for the next token, processes it, emits it as timestamp, and only then asks again.

    `processing` is the shortest and the longest time from asking to emitting. When a source has emitted τ, another
    one can be behind it only for the longest time less the shortest. No timeout is needed.

    >>> policy = global_counter({"a": ("10 ms", "40 ms"), "b": ("20 ms", "90 ms")}, latency="30 ms")
    >>> policy.tracker(TimeDomain.SEQUENCE).heartbeat.tick == -(2**63)
    True
    >>> policy.describe()[:68]
    "global_counter({'a': ('10 milliseconds', '40 milliseconds'), 'b': ('"

    Args:
        processing: for all sources, which then show up in mid-stream (up to 100,000), or by source.
        latency: how long a row is under way at most, the wait for its page included; for all, or by source.
        timeout: if nothing comes for so long, all that was seen is taken to be all (section 3.4).
        counted: a source that has emitted another one is behind no more: the tuple-based pair (1, 0). It is worked
            out source by source; do without it for many thousands of them.
        unit: the wall clock is divided into such units; fewer cells, heartbeats by less than a unit later.
        groups: one heartbeat for each group of sources (section 5.2): the groups, which
            then say all sources there are, or how many to make; see
            `slackwater.progress.bounds.groups.similar` for how these are chosen. Equal sources are one group.
        ordered: the network keeps the order of each source's rows (section 2), as a partition of a log does: what
            arrives later was emitted later. Then a source's own rows need not wait for `latency`.
    """
    return GlobalCounter(
        read(processing, _times, "processing"), counted, **read_environment(latency, timeout, unit, groups, ordered)
    )


def _times(times: tuple[Span, Span], what: str) -> Times:
    if isinstance(times, tuple) and len(times) == 2:
        shortest, longest = wall(times[0], f"the shortest {what}"), wall(times[1], f"the longest {what}")
        if shortest <= longest:
            return shortest, longest
    raise QueryError(f"{what} is {times!r}; write the shortest and the longest time, as in ('10 ms', '1 second')")


POLICIES.append(
    Policy(
        ("GLOBAL", "COUNTER"),
        global_counter,
        (*ENVIRONMENT, "counted"),
        "GLOBAL COUNTER (10 MS, 40 MS)",
        read_pair,
        written=lambda policy: as_lengths(policy.processing),
        module="sw.papers",
    )
)
