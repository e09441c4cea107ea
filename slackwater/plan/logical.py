"""A query as it was written: logical nodes that the fluent API, SQL and tests build alike.

They hold the user's words. Whether these make sense is for `analyse` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.plan.steps import Function
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span

#: The range of a window that is as long as an instant, whatever the kind of time.
NOW = "now"
#: A column: its name, or None where the expression has one, and Spark SQL.
Column = tuple[str | None, str]


@dataclass(frozen=True)
class Scan:
    """The rows of a declared stream."""

    stream: str

    @property
    def inputs(self) -> tuple[Logical, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Where:
    """The rows that meet a condition."""

    inputs: tuple[Logical, ...]
    condition: str


@dataclass(frozen=True)
class Select:
    """The rows with other columns; `*` stands for all there are."""

    inputs: tuple[Logical, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """What a Python function makes of each row."""

    inputs: tuple[Logical, ...]
    function: Function
    schema: str | pa.Schema
    """The columns that it gives."""


@dataclass(frozen=True)
class Union:
    """The rows of all inputs, columns by name; their number is any from two on."""

    inputs: tuple[Logical, ...]


@dataclass(frozen=True)
class Window:
    """How rows are cut into windows; see `Query.window`."""

    range: Span | None = None
    slide: Span | None = None
    offset: Span | None = None
    rows: int | None = None
    wattr: str | None = None
    disorder: Disorder | None = None


@dataclass(frozen=True)
class Aggregate:
    """The groups of each window, and what is computed of each."""

    inputs: tuple[Logical, ...]
    window: Window
    groups: tuple[Column, ...]
    aggregates: tuple[tuple[str, Any], ...]
    """Names and Spark SQL: an aggregate, or an expression over aggregates."""


@dataclass(frozen=True)
class Join:
    """The pairs of rows of two inputs that meet within their windows; see `Query.join`."""

    inputs: tuple[Logical, ...]
    windows: tuple[Window | None, Window | None]
    """For how long the rows of each side find partners."""
    on: str | tuple[str, ...] | None
    """A condition over the columns of both sides, or columns that both have; None for every pair."""
    how: str = "inner"
    within: tuple[Span, Span] | None = None
    """Instead of windows: how far the right row may be before and after the left one, both ends included."""


@dataclass(frozen=True)
class JoinStored:
    """The rows together with those of a stored relation."""

    inputs: tuple[Logical, ...]
    table: str
    """Name of the relation."""
    on: str | tuple[str, ...] | None
    how: str = "inner"
    columns: tuple[Column, ...] = ()
    """The columns of the relation that take part, with their names here; all of them if this is empty."""


Logical = Scan | Where | Select | Map | Union | Join | JoinStored | Aggregate
