"""What a user chooses: for all queries of a session, and for one query."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from math import inf

from slackwater.engine.enabling import Enabling
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.operators.label import Label
from slackwater.operators.sink import Output
from slackwater.progress.clock import Clock
from slackwater.progress.time import microseconds
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.heartbeats import Heartbeats, OperatorLevel
from slackwater.scheduling.strategy import Strategy
from slackwater.windows.sideline import Sideline

#: Bytes of a query's windows that the driver holds.
RESIDENT_LIMIT = 256 * 2**20
#: Seconds of a run. A job of Spark has a fixed cost of 0.1 to 0.2 seconds, a fifth of it at most; and prods and
#: urgent pages wait for a run to end, about as long as a person waits for an answer without wondering.
QUANTUM = 1.0


@dataclass(frozen=True)
class EngineSettings:
    """How an executor works; `Session` explains each field."""

    strategy: Strategy = field(default_factory=Fifo)
    quiet_streams: Enabling = field(default_factory=Enabling)
    heartbeat_scope: Heartbeats = field(default_factory=OperatorLevel)
    batch_pages: bool = False
    """Whether waiting pages of a stream are taken as one."""
    resident_limit: int = RESIDENT_LIMIT
    """For queries that say nothing else."""
    quantum: float | None = None
    """Seconds: a longer run of an operator that works on each row by itself takes a part of a page."""

    @property
    def longest_run(self) -> float:
        """The quantum. Where nobody set one, only strategies that chart what operators leave cut pages (S2)."""
        return self.quantum if self.quantum is not None else QUANTUM if self.strategy.charts else inf


@dataclass(frozen=True)
class QuerySettings:
    """How a query is run."""

    late: Output | None = None
    resident_limit: int = RESIDENT_LIMIT
    clock: Clock | None = None
    """That of the replay that it reads; without it, the executor's own."""
    early: Early | None = None
    ordered: bool = False
    """Whether the sink gets rows in the order of time."""
    sideline: Sideline | None = None
    labels: dict[str, Label] = field(default_factory=dict)
    """Labels that the journal knows the query's parts by; some may be another query's."""
    reserved: frozenset[str] = frozenset()
    """Labels that the journal keeps for other queries."""


def read_quantum(quantum: str | timedelta | None) -> float | None:
    """A quantum as a user writes it, in seconds."""
    if quantum is None:
        return None
    seconds = microseconds(quantum) / 1e6
    if seconds <= 0:
        raise QueryError(f"quantum={quantum!r} must be positive, as in quantum='1 second'")
    return seconds


def check_engine(settings: EngineSettings) -> None:
    """Refuse what is no strategy, no enabling or no level of heartbeats."""
    strategy, quiet, scope = settings.strategy, settings.quiet_streams, settings.heartbeat_scope
    for name, value, fits, known in (
        ("strategy", strategy, isinstance(strategy, Strategy), "sw.fifo() or sw.chain(max_wait='10 seconds')"),
        ("quiet_streams", quiet, isinstance(quiet, Enabling), "sw.on_demand() or sw.papers.periodic('1 second')"),
        (
            "heartbeat_scope",
            scope,
            hasattr(scope, "labels") and not isinstance(scope, type),
            "sw.operator_level() or sw.memory_aware()",
        ),
    ):
        if not fits:
            raise QueryError(f"{name}={value!r}: write {name}= with {known}")
