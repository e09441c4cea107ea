"""Plays: a play is one replay of some streams, on a clock that begins with it (D11).

Queries that are started before a play begins read it together. A query that comes later gets a play of its own,
from the first row on: its sources have other names, so that the queries of earlier plays see nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from slackwater.errors import RunError
from slackwater.plan.node import PlanNode, streams_of, with_streams
from slackwater.plan.nodes import StreamNode
from slackwater.progress.clock import ReplayClock
from slackwater.progress.time import MIN_TICK


@dataclass(eq=False)
class Play:
    """Streams that are replayed together."""

    number: int
    clock: ReplayClock = field(default_factory=lambda: ReplayClock(MIN_TICK))
    begun: bool = False
    """Whether pages have come; nobody joins any more."""
    playing: bool = False
    """Whether pages are coming now."""
    done: bool = False
    """Whether all pages have come."""
    live: bool = False
    """Whether its pages are the history of live streams, which are read afterwards."""

    def name(self, stream: str) -> str:
        """The name of a stream's source in this play.

        >>> Play(1).name("flights"), Play(3).name("flights")
        ('flights', 'flights#3')
        """
        return stream if self.number == 1 else f"{stream}#{self.number}"

    def source(self, stream: StreamNode) -> StreamNode:
        """A stream as this play reads it."""
        return with_streams(stream, {stream.name: self.name(stream.name)})  # type: ignore[return-value]

    def plan(self, plan: PlanNode) -> PlanNode:
        """A plan that reads the streams of this play."""
        return with_streams(plan, {stream.name: self.name(stream.name) for stream in streams_of(plan)})


class Plays:
    """The plays of a session."""

    def __init__(self) -> None:
        self.all: tuple[Play, ...] = ()
        """Replaced, never changed: one thread may replay them while another starts a query."""

    def numbered(self, number: int, live: bool = False) -> Play:
        """The play that a journal knows by this number."""
        play = next((play for play in self.all if play.number == number), None)
        if play is None:
            play = Play(number, live=live)
            self.all = (*self.all, play)
        return play

    def next(self, taken: Iterable[int], sources: Iterable[str], live: bool = False) -> Play:
        """The play that has not begun yet; a new one has a number above those that a journal knows.

        These are the numbers of its queries' plays, and those of sources that have taken pages: a source of that
        name would pass over its first pages.
        """
        waiting = next((play for play in self.all if not play.begun and play.live is live), None)
        numbers = (*taken, *map(_number, sources), *(play.number for play in self.all))
        return waiting or self.numbered(1 + max(numbers, default=0), live)


def _number(source: str) -> int:
    """The play that a source belongs to.

    >>> _number("source:flights"), _number("source:flights#3")
    (1, 3)
    """
    _, _, number = source.rpartition("#")
    return int(number) if number.isdigit() and number != source else 1


class Reads(Enum):
    """Where the rows of a stream come from."""

    LIVE = "live streams"
    REPLAY = "replays"
    HISTORY = "streams with a history"


def check_kind(kinds: Iterable[Reads]) -> Reads:
    """What a query's streams are; refuses a query over several kinds."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    if Reads.HISTORY in found:
        raise RunError(
            "a query cannot read streams with a history and streams without one: a history has a clock of its own; "
            "declare the others with history=, too"
        )
    raise RunError(
        "a query reads replays or live streams, not both: a replay has a clock of its own; "
        "read both with spark.readStream, or both as static DataFrames"
    )
