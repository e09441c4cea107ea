"""The nodes of a plan: what `analyse` gives. A handful of typed fields each; the graph is in `inputs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
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
    if isinstance(plan, StreamNode):
        name = names.get(plan.name, plan.name)
        return plan if name == plan.name else replace(plan, name=name, of=plan.declared)
    inputs = tuple(with_streams(node, names) for node in plan.inputs)
    return replace(plan, inputs=inputs)  # type: ignore[type-var]


def stream_of(plan: PlanNode) -> StreamNode:
    """The stream whose time the rows have: that of the first input, all the way down."""
    while not isinstance(plan, StreamNode):
        plan = plan.inputs[0]
    return plan


def has_map(plan: PlanNode) -> bool:
    """Whether a Python function works on its rows."""
    return any(isinstance(node, MapNode) for node in walk(plan))


def answering(plan: PlanNode) -> WindowNode | RollingNode | None:
    """The aggregate whose results a query gives, behind filters and projections of them; None where it has none."""
    node = plan
    while isinstance(node, (WhereNode, SelectNode)):
        node = node.inputs[0]
    return node if isinstance(node, (WindowNode, RollingNode)) else None


def inner_query(plan: PlanNode) -> WindowNode | None:
    """The query whose results a plan reads as rows; None where it reads a stream."""
    node = plan
    while not isinstance(node, (StreamNode, ResultsNode)):
        node = node.inputs[0]
    return node.inputs[0] if isinstance(node, ResultsNode) else None


def aggregates_of(plan: PlanNode) -> list[WindowNode | RollingNode]:
    """The aggregates that a row goes through, the topmost first."""
    found, top = list[WindowNode | RollingNode](), answering(plan)
    while top is not None:
        found.append(top)
        top = inner_query(top)
    return found


def first_query(plan: PlanNode) -> WindowNode | RollingNode | None:
    """The aggregate of a plan that takes the rows of the stream itself."""
    found = aggregates_of(plan)
    return found[-1] if found else None
