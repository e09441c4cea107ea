"""Streams that pause: their bounds, what these imply, and random pages with pauses between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import slackwater as sw


@dataclass
class Quiet:
    """A stream with bounds, and what they imply: reckoned from the arrivals alone, apart from the tracker."""

    slack: int
    idle: int | None
    timeout: int | None
    arrived: list[tuple[int, int]] = field(default_factory=list)
    """When a page came, and the largest time so far."""
    floor: int | None = None
    """Where the others had come to while this one was idle: from there on its rows are in time."""

    @property
    def policy(self) -> Any:
        timeout = None if self.timeout is None else f"{self.timeout} microseconds"
        idle = None if self.idle is None else f"{self.idle} microseconds"
        return sw.bounded(f"{self.slack} microseconds", timeout=timeout, idle=idle)

    def least(self, now: int) -> int | None:
        """The smallest time that a row may have that comes now."""
        if not self.arrived:
            return self.floor
        floors = [self.arrived[-1][1] - self.slack, *([] if self.floor is None else [self.floor])]
        # What has been promised before holds for ever.
        for (then, high), (until, _) in zip(self.arrived, [*self.arrived[1:], (now, 0)], strict=True):
            floors.append(high - self.slack)
            if self.idle is not None:
                floors.append(high + (until - then) - self.idle)
            if self.timeout is not None and until - then >= self.timeout:
                floors.append(high + 1)
        return max(floors)

    def silent(self, now: int, begun: int) -> bool:
        """Whether it is idle: nothing has come for its timeout, or for `idle` since the start."""
        last = self.arrived[-1][0] if self.arrived else begun
        longest = self.timeout if self.timeout is not None or self.arrived else self.idle
        return longest is not None and now - last >= longest

    def come(self, now: int, highest: int) -> None:
        top = max(highest, self.arrived[-1][1]) if self.arrived else highest
        self.arrived.append((now, top))


def go_on(streams: Iterable[Quiet], now: int, begun: int) -> None:
    """Idle streams go on with the others; of idle ones alone, time is that of the last row of all (S1 3.4)."""
    idle = [q for q in streams if q.silent(now, begun)]
    active = [q.least(now) for q in streams if not q.silent(now, begun)]
    leasts = active or [max((t for q in idle if (t := q.least(now)) is not None), default=None)]
    reached = [least for least in leasts if least is not None]
    for q in idle if len(reached) == len(leasts) else ():
        q.floor = max(min(reached), q.floor or 0)


BOUNDS = st.builds(
    Quiet, st.integers(0, 6), st.one_of(st.none(), st.integers(4, 30)), st.one_of(st.none(), st.integers(5, 25))
)
#: How far the clock goes on, which stream sends (or none), and how far its rows are above the least allowed.
STEPS = st.lists(
    st.tuples(
        st.integers(1, 15),
        st.sampled_from(["a", "a", "a", "b", None]),
        st.lists(st.integers(0, 12), min_size=1, max_size=3),
    ),
    max_size=25,
)
