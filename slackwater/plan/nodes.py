"""The nodes of a plan: a handful of typed fields each, no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel


@dataclass(frozen=True)
class StreamNode:
    """A declared stream: where rows come from and what their time is."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types of the stream's columns."""
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


@dataclass(frozen=True)
class WhereNode:
    """Keeps the rows that meet a condition."""

    input: RowNode
    condition: str


@dataclass(frozen=True)
class SelectNode:
    """Replaces the columns of a row."""

    input: RowNode
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL of each column."""


@dataclass(frozen=True)
class ResultsNode:
    """The results of a window query as rows of another one (S5 section 3.3, Q3-4).

    A row has the groups, the aggregates and the bounds of its window; its time is the last tick of that window. So
    a window [s, e) over them takes the results of the windows that end in (s, e].
    """

    input: WindowNode


#: Takes a `pyarrow.RecordBatch` and gives one, or a `pyarrow.Table`.
Function = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class MapNode:
    """Replaces each row by what a Python function makes of it: S5's Expensive operator.

    It equals nothing but itself: functions need not be comparable, nor have a hash.
    """

    input: RowNode
    function: Function
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL type of each column."""
    schema: pa.Schema
    """The same as Arrow."""

    @property
    def name(self) -> str:
        """What the user called the function."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


RowNode = StreamNode | WhereNode | SelectNode | MapNode | ResultsNode


@dataclass(frozen=True)
class WindowNode:
    """Aggregates the rows of each window and group."""

    input: RowNode
    kernel: PaneKernel
    schema: pa.Schema
    """Arrow schema of the results."""
    disorder: Disorder | None = None
    """The query's own policy, where it is not the stream's."""


@dataclass(frozen=True)
class RollingNode:
    """Aggregates, for each row, the rows of the window that ends with it."""

    input: RowNode
    kernel: RollingKernel
    schema: pa.Schema
    """Arrow schema of the results."""
    disorder: Disorder | None = None
    """The query's own policy, where it is not the stream's."""


QueryNode = WindowNode | RollingNode


def has_map(plan: QueryNode | RowNode) -> bool:
    """Whether a Python function works on its rows."""
    node = plan
    while not isinstance(node, StreamNode):
        if isinstance(node, MapNode):
            return True
        node = node.input
    return False


def stream_of(node: QueryNode | RowNode) -> StreamNode:
    """The stream that a plan reads."""
    while not isinstance(node, StreamNode):
        node = node.input
    return node


def inner_query(node: QueryNode | RowNode) -> WindowNode | None:
    """The query whose results a plan reads as rows; None where it reads a stream."""
    while not isinstance(node, (StreamNode, ResultsNode)):
        node = node.input
    return node.input if isinstance(node, ResultsNode) else None


def first_query(plan: QueryNode) -> QueryNode:
    """The aggregate of a plan that takes the rows of the stream itself."""
    inner = inner_query(plan)
    return plan if inner is None else first_query(inner)
