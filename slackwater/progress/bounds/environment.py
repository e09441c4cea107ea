"""The settings that all policies of skew bounds have, and the tracker for bounds (S1 sections 2, 3.4 and 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from slackwater.errors import QueryError
from slackwater.events import decision
from slackwater.progress.bounds.environments import PerSource
from slackwater.progress.bounds.groups import aggregate, numbered, similar
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import SkewBounds
from slackwater.progress.bounds.source_tracker import DiscoveredSources, KnownSources, StreamTracker
from slackwater.progress.bounds.user_settings import (
    Groups,
    NamedValues,
    read,
    read_groups,
    read_ordered,
    show,
    show_groups,
    show_wall,
    wall,
    yes_or_no,
)
from slackwater.progress.disorder import Disorder
from slackwater.progress.silence import DEFAULT_TIMEOUT, NEVER, DefaultTimeout, show_timeout
from slackwater.progress.time import Span, microseconds


class TimeoutNeeded(QueryError):
    """Raised where rows could wait for ever (Theorem 3.3 of S1) and the user wrote no timeout."""


@dataclass(frozen=True, kw_only=True)
class Environment(DefaultTimeout):
    """The settings of a policy beside its bounds; see `skew`."""

    latency: int | NamedValues[int] = 0
    timeout: int | None = None
    unit: int | None = None
    indirect: bool = True
    groups: Groups | None = None
    ordered: bool = False
    idle: Span | None = None
    live: bool = False
    """Whether the stream goes on for ever: others do not wait for it for ever, though its own rows never wait."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def settings(self) -> dict[str, str | None]:
        """These settings as the user would write them; None for those left out."""
        return {
            "latency": None if self.latency == 0 else show(self.latency, show_wall),
            "timeout": None if self.timeout is None else show_timeout(self.timeout),
            "unit": None if self.unit is None else show_wall(self.unit),
            "indirect": None if self.indirect else "False",
            "groups": show_groups(self.groups),
            "ordered": "True" if self.ordered else None,
            "idle": None if self.idle is None else repr(self.idle),
        }

    def on_live_stream(self) -> Disorder:
        """Bounds that guarantee progress need no timeout; those that need one and have none are refused."""
        return cast(Disorder, replace(self, live=True))

    def generator(self, bounds: SkewBounds) -> HeartbeatGenerator:
        """A generator that lets no row wait for ever (S1 section 3.4)."""
        generator = HeartbeatGenerator(
            bounds, timeout=self.timeout or None, unit=self.unit, indirect=self.indirect, ordered=self.ordered
        )
        if self.timeout is None and self.idle is None and (two := generator.bounds.unsettled()):
            named = len(bounds.names) > 1 and bounds.names[0] != "0"
            where = f" of {two[1]!r} behind {two[0]!r}" if named else ""
            raise TimeoutNeeded(
                f"these bounds need a timeout (S1 Theorem 3.3): no time-based bound{where} comes down to delta 0, "
                "so the last rows would wait for ever when all sources pause; write the silence after which all "
                "has come, as in timeout='1 minute', or timeout='never'"
            )
        if self.live:
            # What the bounds still promise is over by then, so no row that keeps them is late for its own stream.
            generator.silence = max(microseconds(DEFAULT_TIMEOUT), generator.bounds.span)
        return generator

    def known_sources(self, bounds: SkewBounds, named: bool = True) -> StreamTracker:
        """A tracker for sources that the bounds name (or for the one that is the stream), grouped if so wished."""
        if self.groups is None:
            generator = self.generator(bounds)
            return KnownSources(generator, bounds.names) if named else StreamTracker(generator)
        closed = _closed(bounds) if self.indirect else bounds
        groups = self.groups
        chosen = _picked(closed, groups) if isinstance(groups, int) else {k: list(m) for k, m in groups.items}
        group_of = np.empty(len(bounds.names), dtype=np.int64)
        for g, members in enumerate(numbered(bounds.names, chosen)):
            group_of[members] = g
        generator = replace(self, indirect=False).generator(aggregate(closed, chosen))
        return KnownSources(generator, bounds.names, group_of) if named else StreamTracker(generator)

    def equal_sources(self, bounds: Callable[[tuple[str, ...]], PerSource], *settings: object) -> StreamTracker:
        """A tracker for the sources that some of the settings name; or for those that show up in mid-stream."""
        names = _named(self.groups, *settings, self.latency)
        if names is not None:
            return self.known_sources(bounds(names))
        if self.groups is not None:
            # Equal sources are one group, and two of them stand for all.
            one = aggregate(bounds(("a", "b")), {"": ["a", "b"]})
            return StreamTracker(replace(self, indirect=False).generator(one))
        one_of_all = bounds(("a source",))
        return DiscoveredSources(lambda slots: self.generator(one_of_all.repeated(slots)))


def read_environment(
    latency: Any,
    timeout: Any,
    unit: Any,
    groups: Any,
    ordered: bool,
    indirect: bool = True,
    idle: Span | None = None,
) -> dict[str, Any]:
    """The settings of an `Environment` from what a user wrote."""
    return {
        "latency": read(latency, wall, "latency"),
        "timeout": NEVER if timeout == "never" else None if timeout is None else wall(timeout, "timeout", least=1),
        "unit": None if unit is None else wall(unit, "unit", least=1),
        "indirect": yes_or_no(indirect, "indirect"),
        "groups": read_groups(groups),
        "ordered": read_ordered(ordered, groups),
        "idle": idle,
    }


def _named(groups: Groups | None, *settings: object) -> tuple[str, ...] | None:
    """The sources, where some setting names them; they must agree, which `spread` checks."""
    for setting in settings:
        if isinstance(setting, NamedValues):
            return setting.names
    if isinstance(groups, NamedValues):
        return tuple(sorted({name for _, members in groups.items for name in members}))
    return None


def _closed(bounds: SkewBounds) -> SkewBounds:
    """B*, or B where B* would have to be stored for too many sources; the groups' bounds are the weaker for it."""
    try:
        return bounds.closure()
    except QueryError as error:
        decision("skew.bounds_kept", error=error)
        return bounds


def _picked(bounds: SkewBounds, most: int) -> dict[str, list[Any]]:
    """Groups of similar sources, called after their first."""
    return {
        f"{bounds.names[group[0]]} and {len(group) - 1} more" if len(group) > 1 else bounds.names[group[0]]: group
        for group in similar(bounds, most).values()
    }
