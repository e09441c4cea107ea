"""What an aggregate function is: its names, its partials, how these become a value, how that value grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import polars as pl
import pyarrow as pa
from sqlglot import exp

from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Partial, given
from slackwater.aggregates.types import NUMBERS, Takes, spoken
from slackwater.errors import QueryError

#: Gives the Arrow type of a Spark SQL expression over the query's rows, aggregates included.
TypeOf = Callable[[str], pa.DataType]


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function as a user wrote it."""

    name: str
    """The output column."""
    text: str
    function: str
    """In small letters."""
    arguments: tuple[exp.Expression, ...]
    texts: tuple[str, ...]
    """The arguments as Spark SQL."""
    type_of: TypeOf
    aggregate_type: TypeOf
    """The type of a call of any aggregate function; refused if it is none."""
    written: str
    """What the user wrote: the call, or an expression that it is a part of."""
    distinct: bool = False
    """Whether DISTINCT stands before the arguments."""
    order: str | None = None
    """What stands in WITHIN GROUP (…) behind the call."""

    def error(self, wrong: str) -> QueryError:
        """An error that names what was written and what is wrong with it."""
        return QueryError(f"{self.name}={self.written!r}: {wrong}")

    @property
    def first(self) -> str:
        """The first argument as Spark SQL; a star if there is none."""
        return self.texts[0] if self.texts else "*"

    def type(self) -> pa.DataType:
        """The type that Spark gives for the call of one argument."""
        return self.type_of(f"{self.function}({self.first})")


@dataclass(frozen=True)
class AggregateFunction(ABC):
    """One output column of a window query: partials, and the value that they add up to."""

    name: str
    text: str
    argument: str
    type: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the value, as Spark gives it for the same aggregate."""

    functions: ClassVar[tuple[str, ...]]
    """What users call it in Spark SQL."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names for it; messages do not use them."""
    growth: ClassVar[Growth | None] = Growth.SETTLES
    """How its value grows; None: nothing is known of that."""
    takes: ClassVar[Takes] = NUMBERS
    """What its first argument may be."""
    takes_star: ClassVar[bool] = False
    written: ClassVar[str] = "column"
    """What stands between the parentheses, as an example."""

    @classmethod
    def read(cls, call: Call) -> Self:
        """Read a call of one of its functions."""
        cls.check_single(call)
        cls.type_of_argument(call)
        return cls(call.name, call.text, call.first, call.type())

    @classmethod
    def check_single(cls, call: Call) -> None:
        """Refuse a call that has not one argument; none will do where a star would."""
        if len(call.arguments) > 1 or (not call.arguments and not cls.takes_star):
            raise call.error(f"{call.function} takes one expression, as in {call.function}(x)")

    @classmethod
    def type_of_argument(cls, call: Call, place: int = 0, takes: Takes | None = None) -> pa.DataType:
        """The type of an argument, else the first; refused if it is not what the function takes."""
        takes, text = takes or cls.takes, call.texts[place] if call.texts else call.first
        kind = call.type_of(text)
        if not takes.fits(kind):
            raise call.error(
                f"{call.function} takes {takes.words}; {text} is {spoken(kind)}: take a part of it, or cast it"
            )
        return kind

    @property
    def reads(self) -> tuple[str, ...]:
        """Spark SQL of all that it needs of a row."""
        return () if self.argument == "*" else (self.argument,)

    def filtered(self, condition: str) -> Self:
        """The same over the rows that meet a condition of Spark SQL: for the others its argument is null."""
        return replace(self, argument=given(self.argument, condition))

    @abstractmethod
    def partials(self) -> tuple[Partial, ...]:
        """The partials it is made of."""

    @abstractmethod
    def value(self, *columns: str) -> pl.Expr:
        """The value from the merged partials' columns, in order."""

    @abstractmethod
    def value_sql(self, *columns: str) -> str:
        """The same as Spark SQL."""

    def additive(self, *columns: str) -> tuple[str, ...]:
        """The column whose sum is the value; for an average, the columns of sum and count; else nothing."""
        return ()


class Single(AggregateFunction):
    """An aggregate that is its own partial."""

    kind: ClassVar[type[Partial]]

    def partials(self) -> tuple[Partial, ...]:
        return (self.kind(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return pl.col(columns[-1])

    def value_sql(self, *columns: str) -> str:
        return columns[-1]
