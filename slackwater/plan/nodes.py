"""The nodes of a plan: what `analyse` gives. A handful of typed fields each; the graph is in `inputs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.progress.time_kinds import Latent
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import early_schema, row_columns


class PlanNode(Protocol):
    """Rows in, rows out: every node has inputs, the schema of its rows, and the domain of their time."""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """The nodes whose rows it takes."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows that it gives."""
        ...

    @property
    def early_schema(self) -> pa.Schema | None:
        """Arrow schema of early rows, which have more columns; None where there are none."""
        ...

    @property
    def domain(self) -> TimeDomain:
        """What the time of a row is."""
        ...


class _TimeOfInput:
    """Time passes through."""

    inputs: tuple[PlanNode, ...]

    @property
    def domain(self) -> TimeDomain:
        """That of the first input."""
        return self.inputs[0].domain


class _NeverEarly:
    """Rows that no prod has asked for."""

    @property
    def early_schema(self) -> pa.Schema | None:
        """There are none."""
        return None


@dataclass(frozen=True)
class StreamNode(_NeverEarly):
    """A declared stream: where rows come from and what their time is."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types of the stream's columns, the types in Spark's words."""
    time: str
    """Spark SQL that gives a row's time in ticks."""
    written_time: str
    """The time as the user wrote it."""
    domain: TimeDomain
    disorder: Disorder
    source: str | None = None
    """The column, or Spark SQL expression, that names a row's source; for a stream of many sources."""
    punctuation: str | None = None
    """Spark SQL that gives, in ticks, the punctuation that a row carries; for a punctuated stream."""
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    of: str = ""
    """The declared stream whose rows these are, where a window goes by another attribute than its time."""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """None: this is where rows begin."""
        return ()

    @property
    def declared(self) -> str:
        """Name of the declared stream that is read."""
        return self.of or self.name


@dataclass(frozen=True)
class WhereNode(_TimeOfInput):
    """Keeps the rows that meet a condition."""

    inputs: tuple[PlanNode, ...]
    condition: str

    @property
    def schema(self) -> pa.Schema:
        """Columns stay."""
        return self.inputs[0].schema

    @property
    def early_schema(self) -> pa.Schema | None:
        """Columns stay."""
        return self.inputs[0].early_schema


@dataclass(frozen=True)
class SelectNode(_TimeOfInput):
    """Replaces the columns of a row."""

    inputs: tuple[PlanNode, ...]
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL of each column."""
    schema: pa.Schema
    early: tuple[tuple[str, str], ...] | None = None
    """The same of early results, which have more columns."""
    early_schema: pa.Schema | None = None


@dataclass(frozen=True)
class ResultsNode(_TimeOfInput, _NeverEarly):
    """The results of a window query as rows of another one (S5 section 3.3, Q3-4).

    A row has the groups, the aggregates and the bounds of its window; its time is the last tick of that window. So
    a window [s, e) over them takes the results of the windows that end in (s, e].
    """

    inputs: tuple[WindowNode]

    @property
    def schema(self) -> pa.Schema:
        """The columns that a query over results can speak of."""
        below = self.inputs[0]
        return pa.schema([below.schema.field(name) for name in row_columns(below.kernel)])


#: Takes a `pyarrow.RecordBatch` and gives one, or a `pyarrow.Table`.
Function = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class MapNode(_TimeOfInput, _NeverEarly):
    """Replaces each row by what a Python function makes of it: S5's Expensive operator.

    It equals nothing but itself: functions need not be comparable, nor have a hash.
    """

    inputs: tuple[PlanNode, ...]
    function: Function
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL type of each column."""
    schema: pa.Schema
    """The same as Arrow."""

    @property
    def name(self) -> str:
        """What the user called the function."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


@dataclass(frozen=True)
class StampNode(_TimeOfInput, _NeverEarly):
    """Gives rows of latent time the clock's (S3 section 5): the first operator that needs a time is behind it."""

    inputs: tuple[PlanNode, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns stay."""
        return self.inputs[0].schema


@dataclass(frozen=True)
class UnionNode(_TimeOfInput, _NeverEarly):
    """The rows of all inputs, which have the same columns and the same kind of time.

    A union of results that ends a query is not prodded, so it has no early rows.
    """

    inputs: tuple[PlanNode, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Alive:
    """For how long a row of one side of a join finds partners, counted from its own time."""

    range: int | None = None
    """So many ticks, its own included; None where the row says it itself, for another join has made it."""
    rows: int | None = None
    """Or until so many rows of its side have come behind it."""
    longest: int = 0
    """No row is alive for longer, in ticks."""

    @property
    def shortest(self) -> int:
        """No row is alive for less, in ticks."""
        return 1 if self.range is None else self.range


@dataclass(frozen=True)
class JoinNode(_TimeOfInput, _NeverEarly):
    """Pairs of rows of two inputs that are alive at the same time and meet a condition.

    The time of a pair is that of its later row; a row that stays alone keeps its own.
    """

    inputs: tuple[PlanNode, ...]
    how: str
    sides: tuple[Alive, Alive]
    condition: str | None
    """Spark SQL over the columns of both sides, whose names are apart; None for every pair."""
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL over those columns."""
    schema: pa.Schema
    kept: tuple[pa.Schema, pa.Schema]
    """What is kept of the rows of each side."""
    written: str = ""
    """The condition as the user wrote it."""

    @property
    def lone(self) -> tuple[int, ...]:
        """The sides whose rows may come out without a partner, or are told apart by whether they have one."""
        return {"inner": (), "right": (1,), "full": (0, 1)}.get(self.how, (0,))

    @property
    def alive(self) -> int:
        """For how long the rows that it gives are alive at most."""
        pair = min(side.longest for side in self.sides)
        return max([pair if self.how not in ("semi", "anti") else 0, *(self.sides[s].longest for s in self.lone)])


@dataclass(frozen=True)
class StoredNode(_NeverEarly, _TimeOfInput):
    """Rows together with those of a stored relation, which stays as it is."""

    inputs: tuple[PlanNode, ...]
    table: str
    """Name of the relation."""
    how: str
    condition: str | None
    """Spark SQL over the columns of both, whose names are apart."""
    stored: tuple[tuple[str, str], ...]
    """Columns of the relation, by the names that the condition knows them by."""
    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema
    written: str = ""


@dataclass(frozen=True)
class WindowNode(_TimeOfInput):
    """Aggregates the rows of each window and group."""

    inputs: tuple[PlanNode, ...]
    kernel: PaneKernel
    schema: pa.Schema
    """Arrow schema of final results."""
    disorder: Disorder | None = None
    """The query's own policy, where it is not the stream's."""

    @property
    def early_schema(self) -> pa.Schema:
        """Final results have these columns but the last ones: what early ones say beside."""
        return early_schema(self.schema, self.kernel)


@dataclass(frozen=True)
class RollingNode(_TimeOfInput, _NeverEarly):
    """Aggregates, for each row, the rows of the window that ends with it."""

    inputs: tuple[PlanNode, ...]
    kernel: RollingKernel
    schema: pa.Schema
    """Arrow schema of the results."""
    disorder: Disorder | None = None
    """The query's own policy, where it is not the stream's."""


def walk(plan: PlanNode) -> Iterator[PlanNode]:
    """Every node of a plan, inputs first, each once."""
    seen: dict[int, PlanNode] = {}

    def visit(node: PlanNode) -> Iterator[PlanNode]:
        if id(node) not in seen:
            seen[id(node)] = node
            for below in node.inputs:
                yield from visit(below)
            yield node

    yield from visit(plan)


def streams_of(plan: PlanNode) -> list[StreamNode]:
    """The streams that a plan reads, each once."""
    return list(dict.fromkeys(node for node in walk(plan) if isinstance(node, StreamNode)))


def with_streams(plan: PlanNode, names: Mapping[str, str]) -> PlanNode:
    """The same plan over sources of other names; the declared streams that they read stay the same."""
    made: dict[int, PlanNode] = {}

    def renamed(node: PlanNode) -> PlanNode:
        if id(node) not in made:
            made[id(node)] = again(node)
        return made[id(node)]

    def again(node: PlanNode) -> PlanNode:
        if isinstance(node, StreamNode):
            name = names.get(node.name, node.name)
            return node if name == node.name else replace(node, name=name, of=node.declared)
        return replace(node, inputs=tuple(map(renamed, node.inputs)))  # type: ignore[type-var]

    return renamed(plan)


def is_latent(plan: PlanNode) -> bool:
    """Whether its rows have no time yet."""
    if isinstance(plan, StreamNode):
        return isinstance(plan.disorder, Latent)
    return not isinstance(plan, (StampNode, JoinNode, WindowNode, RollingNode)) and any(map(is_latent, plan.inputs))


def has_map(plan: PlanNode) -> bool:
    """Whether a Python function works on its rows."""
    return any(isinstance(node, MapNode) for node in walk(plan))


#: A node whose results are answers.
AggregateNode = WindowNode | RollingNode


def answers_of(plan: PlanNode) -> list[AggregateNode]:
    """The aggregates whose results a query gives, behind filters, projections and unions of them."""
    if isinstance(plan, (WindowNode, RollingNode)):
        return [plan]
    if isinstance(plan, (WhereNode, SelectNode, UnionNode)):
        return [found for below in plan.inputs for found in answers_of(below)]
    return []


def answering(plan: PlanNode) -> AggregateNode | None:
    """The one aggregate whose results a query gives; None where it has none, or a union of several."""
    found = answers_of(plan)
    return found[0] if len(found) == 1 else None


def over_results(plan: PlanNode) -> bool:
    """Whether a plan reads the results of windows as rows; else it reads streams."""
    node = plan
    while not isinstance(node, (StreamNode, ResultsNode, JoinNode)):
        node = node.inputs[0]  # a union is of rows or of results, not of both
    return isinstance(node, ResultsNode)


def aggregates_of(plan: PlanNode) -> list[AggregateNode]:
    """All aggregates of a plan, each once, the topmost first."""
    found: dict[int, AggregateNode] = {}
    levels: list[PlanNode] = [plan]
    while levels:
        found.update({id(n): n for n in levels if isinstance(n, (WindowNode, RollingNode)) and id(n) not in found})
        levels = [below for node in levels for below in node.inputs]
    return list(found.values())


def first_aggregates(
    plan: PlanNode, above: AggregateNode | None = None
) -> list[tuple[StreamNode, AggregateNode | None]]:
    """Each stream with the aggregate that takes its rows first; None where nothing aggregates them."""
    if isinstance(plan, StreamNode):
        return [(plan, above)]
    mine = plan if isinstance(plan, (WindowNode, RollingNode)) else above
    return list(dict.fromkeys(pair for below in plan.inputs for pair in first_aggregates(below, mine)))


def reach_of(plan: PlanNode, stream: StreamNode) -> int | None:
    """How far behind a row of a stream the last window ends that it belongs to; None if it is not read."""
    if isinstance(plan, StreamNode):
        return 0 if plan == stream else None
    below = [reach for node in plan.inputs if (reach := reach_of(node, stream)) is not None]
    own = plan.kernel.spec.range if isinstance(plan, WindowNode) else 0
    if isinstance(plan, JoinNode) and plan.lone:
        own = max(side.longest for side in plan.sides)
    return max(below) + own if below else None
