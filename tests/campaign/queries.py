"""The queries of a simulated program, what they write, and what they should have written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.operators.payload import Payload
from slackwater.plan import logical as L
from slackwater.plan.node import PlanNode, streams_of
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import ListSink
from tests.campaign.kinds import CHANGES, Counted
from tests.kit.several_streams import Came, Kind, Seen, check
from tests.kit.streams_of_samples import plan

if TYPE_CHECKING:
    from tests.campaign.simulation import World


class Rows(ListSink):
    """A sink. It may fail, before or after it has kept the rows; a commit that comes again has the same rows."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.failures: list[str] = []
        """How its next writes fail."""

    def write(self, payload: Payload, commit_id: int) -> None:
        assert isinstance(payload, pa.Table)
        self._world.fate.point()
        fails = self.failures.pop() if self.failures else None
        if fails == "before":
            raise OSError("the sink does not answer")
        if commit_id in self.commits:
            if not self.commits[commit_id].equals(payload):
                self._world.wrong.append(f"commit {commit_id} came again with other rows")
            self._world.counts["rewritten"] += 1
        super().write(payload, commit_id)
        self._world.trace.append(f"{commit_id} {payload.to_pylist()}")
        if fails == "after":
            raise OSError("the sink does not answer")
        self._world.fate.point()


@dataclass
class Query:
    """A query of the user's program."""

    name: str
    kind: Kind | Counted
    sink: Rows
    late: Rows
    form: int = 0
    """Which form of it the program has."""
    first: dict[str, int] = field(default_factory=dict)
    """The first batch of each stream that is its to see."""
    last: dict[str, int] | None = None
    """Behind the last one, of a query that is over."""
    started: bool = False
    """Whether the journal knows it, as far as the program knows."""

    def plan(self, world: World) -> PlanNode:
        """What the program asks for now."""
        query = self.kind.query
        if isinstance(query, L.Aggregate) and query.window.slide is not None:
            query = CHANGES[self.form](query)
        policy = bounded(world.schedule.slack, timeout=world.schedule.timeout)
        return plan(query, dict.fromkeys("abc", policy))


def check_all(query: Query, rows: list[dict[str, Any]], came: Came) -> None:
    seen = Seen(query.kind, {}, _Given(rows), last=query.last)  # type: ignore[arg-type]
    check(seen, query.kind.wanted(came))  # type: ignore[union-attr]


@dataclass
class _Given:
    rows: list[dict[str, Any]]


def streams_read(query: Query, world: World) -> set[str]:
    return {stream.name for stream in streams_of(query.plan(world))}
