"""An environment of S1 section 4 as a disorder policy: distributed sensors.

Values by name say all sources there are. One value for all lets sources show up as the stream goes on; the
heartbeat of the stream then is right for those that have not shown up yet, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, ClassVar

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.bounds.environment import Environment, read_environment
from slackwater.progress.bounds.environments import PerSource, sensor_bounds
from slackwater.progress.bounds.user_settings import (
    Length,
    NamedValues,
    call,
    length,
    read,
    show,
    show_wall,
    spread,
    ticks,
    wall,
    yes_or_no,
)
from slackwater.progress.disorder import Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.time import Span, TimeDomain

#: Application time per wall-clock time: a ratio, or a stretch of the stream's time and the ticks for it.
Rate = Fraction | tuple[Length, int]


@dataclass(frozen=True)
class Sensors(Environment):
    """Sensors with clocks of their own; see `sensors`."""

    deviation: Length | NamedValues[Length]
    rate: Rate | NamedValues[Rate] | None = None
    ties: bool = False

    needs_sources: ClassVar[bool] = True

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker; reads deviations in the stream's domain."""

        def bounds(names: tuple[str, ...]) -> PerSource:
            deviation: list[Length] = spread(self.deviation, names, "deviation")
            rate: list[Rate] | None = None if self.rate is None else spread(self.rate, names, "rate")
            return sensor_bounds(
                {name: ticks(d, domain, "deviation") for name, d in zip(names, deviation, strict=True)},
                rate=None if rate is None else [_per_tick(r, domain) for r in rate],
                latency=spread(self.latency, names, "latency"),
                ties=self.ties,
            )

        return with_idle(self.equal_sources(bounds, self.deviation, self.rate), "sensors", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        return call(
            "sensors",
            show(self.deviation, repr),
            rate=None if self.rate is None else show(self.rate, _show_rate),
            ties="True" if self.ties else None,
            **self.settings(),
        )


@called()
def sensors(
    deviation: Span | Mapping[str, Span],
    *,
    rate: Any = None,
    latency: Span | Mapping[str, Span] = 0,
    timeout: str | int | timedelta | None = None,
    ties: bool = False,
    unit: str | int | timedelta | None = None,
    indirect: bool = True,
    groups: int | Mapping[str, Iterable[str]] | None = None,
    ordered: bool = False,
    idle: Span | None = None,
) -> Sensors:
    """A wait for sources whose clocks are wrong by at most `deviation` (S1 section 4.2).

    Then a source lags behind another by at most both deviations, and behind itself by its own. One value for all
    lets sources show up in mid-stream, up to 100,000; values by name say all there are.

    >>> import numpy as np
    >>> from slackwater.progress.arrival import Arrival, SourceArrivals
    >>> tracker = sensors(3, timeout="1 minute").tracker(TimeDomain.SEQUENCE)
    >>> one, top = np.array([1]), np.array([70])
    >>> tracker.arrive(Arrival(1, 0, 70, 70, at=0, sources=SourceArrivals(["hall"], one, top, top)))
    >>> beats = tracker.by_source(); beats.names, beats.ticks.tolist(), beats.others
    (['hall'], [67], 64)

    Args:
        deviation: a stretch of the stream's time; for all, or by source.
        rate: how fast a clock runs at least: stream time per wall-clock time as in 0.99, or both of them as in
            (5, '1 second'). With it no timeout is needed. For all, or by source.
        latency: how long a row is under way at most, the wait for its page included; for all, or by source.
        timeout: if nothing comes for so long, all that was seen is taken to be all (section 3.4). It must be
            written where no `rate` is.
        ties: several timestamps may be emitted in one tick of the application clock; every bound is one tick wider.
        unit: the wall clock is divided into such units; fewer cells, heartbeats by less than a unit later.
        indirect: use guarantees through other sources, too (section 3.2); with a `rate` and more than 32 different
            sensors there are too many of them.
        groups: one heartbeat for each group of sources (section 5.2): the groups, which
            then say all sources there are, or how many to make; see
            `slackwater.progress.bounds.groups.similar` for how these are chosen. Equal sources are one group.
        ordered: the network keeps the order of each source's rows (section 2), as a partition of a log does: what
            arrives later was emitted later. Then a source's own rows need not wait for `latency`.
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.
    """
    return Sensors(
        read(deviation, length, "deviation"),
        None if rate is None else read(rate, _rate, "rate"),
        yes_or_no(ties, "ties"),
        **read_environment(latency, timeout, unit, groups, ordered, indirect, read_idle("sensors", idle)),
    )


def _rate(rate: Any, what: str) -> Rate:
    if isinstance(rate, tuple) and len(rate) == 2:
        advance, per = length(rate[0], f"the advance in {what}"), wall(rate[1], f"the time in {what}", least=1)
        if advance != 0:
            return advance, per
    elif (
        isinstance(rate, (int, float, Fraction)) and not isinstance(rate, bool) and math.isfinite(rate) and rate > 0
    ):
        # 0.99 is meant as it is written, not as the binary number next to it.
        return Fraction(str(rate)) if isinstance(rate, float) else Fraction(rate)
    raise QueryError(f"{what} is {rate!r}; write a positive one, as in 0.99 or (5, '1 second')")


def _per_tick(rate: Rate, domain: TimeDomain) -> Fraction:
    return Fraction(ticks(rate[0], domain, "rate"), rate[1]) if isinstance(rate, tuple) else rate


def _show_rate(rate: Rate) -> str:
    if isinstance(rate, tuple):
        return f"({rate[0]!r}, {show_wall(rate[1])})"
    if rate.denominator == 1:
        return str(rate)
    return repr(float(rate)) if Fraction(str(float(rate))) == rate else repr(rate)
