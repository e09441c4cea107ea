"""What analysis asks of expressions: rows of a known shape, on which Spark SQL can be tried. Nothing runs.

`slackwater.spark` asks Spark, `slackwater.testing` asks polars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.time import TimeDomain


def no_column(said: str, name: str, columns: Iterable[str]) -> QueryError:
    """The error for a missing column."""
    shown = [c for c in columns if not c.startswith("__")]
    there = f"there are {', '.join(shown)}" if shown else "there are none"
    return QueryError(f"{said}: there is no column {name!r}{did_you_mean(name, shown)}; {there}")


class Relation(Protocol):
    """Rows of a known shape. Errors are QueryErrors that begin with `what` was written."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    def where(self, condition: str, what: str = "where") -> Relation:
        """The rows that meet a condition."""

    def cross_join(self, other: Any) -> Relation:
        """Rows with the columns of both, which have different names."""

    def select(self, columns: Sequence[tuple[str, str]], what: str) -> Relation:
        """The rows with these columns, by name and Spark SQL."""

    def exploded(self, call: str, what: str) -> tuple[Relation, list[str], list[str]]:
        """The rows after a generator, its columns under hidden names, and the names that Spark gives them."""

    def name_of(self, sql: str, what: str) -> str:
        """The name that an expression gives its column."""

    def type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Arrow type of an expression; aggregates are allowed.

        Errors show `written` if the expression comes from it.
        """

    def compared_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """The same, for values that the driver compares too: text with a collation is refused."""

    def aggregate_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Arrow type of a call of any aggregate function; refused if it is none."""

    def check(self, expressions: Iterable[str], what: str) -> None:
        """Refuse expressions that make no sense; the hidden time of a row is there too."""

    def united(self, others: Sequence[Any]) -> tuple[Relation, list[dict[str, str]]]:
        """Rows that may be of any of these, all with the same names in the same order.

        Also, for each of them, the types in Spark's words that its columns must be cast to.
        """

    def ticks(self, sql: str, what: str) -> tuple[str, TimeDomain]:
        """Spark SQL that gives a time in ticks, and its domain."""


def schema_of(relation: Relation, names: Iterable[str]) -> pa.Schema:
    """Arrow types of some columns."""
    return pa.schema([(name, relation.type_of(f"`{name}`", name)) for name in names])


class Types(Protocol):
    """The streams that are declared, and rows of any shape."""

    def stream(self, name: str) -> tuple[PlanNode, Relation]:
        """A declared stream and its rows."""

    def relation(self, schema: pa.Schema) -> Relation:
        """Rows of this shape."""

    def declared(self, schema: str | pa.Schema, what: str) -> tuple[tuple[tuple[str, str], ...], pa.Schema]:
        """Columns that a user has written down, with types in Spark's words, and as Arrow."""

    def stored(self, name: str) -> Relation:
        """The rows of a stored relation."""

    def check_policy(self, stream: StreamNode) -> None:
        """Refuse a disorder policy that does not fit its stream."""
