"""Aggregates of the user's own, in Python: a function over all rows of a group, or a mergeable state.

Both work on lists of rows in the order of time. Spark collects the lists, and calls the code below in its Python
workers; in process it is called as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.kept import Kept
from slackwater.aggregates.partial import Partial, given
from slackwater.aggregates.registry import AGGREGATES, BY_FUNCTION
from slackwater.columns import TIME
from slackwater.errors import QueryError


@runtime_checkable
class Mergeable(Protocol):
    """An aggregate that is folded page by page. A state is what JSON can hold."""

    def init(self) -> Any:
        """The state of no rows."""

    def add(self, state: Any, *columns: pa.Array) -> Any:
        """The state with some more rows, in the order of time."""

    def merge(self, one: Any, other: Any) -> Any:
        """The state of both. Which one is older is not known."""

    def value(self, state: Any) -> Any:
        """The result."""


#: A function over the columns of all rows of a group, in the order of time.
GroupFunction = Callable[..., Any]
#: A function over a column, and the type that it gives.
Called = tuple[Callable[[pa.Array], pa.Array], pa.DataType]


def columns_of(rows: pa.Array) -> list[pa.Array]:
    """The arguments of some rows, without their time."""
    return list(rows.flatten()[1:])


def each(lists: pa.ListArray, value: Callable[[list[pa.Array]], Any], kind: pa.DataType) -> pa.Array:
    """A value of each list of rows."""
    return pa.array([value(columns_of(rows.values)) for rows in lists], kind)


def values_of_lists(function: GroupFunction, returns: pa.DataType, lists: pa.ListArray) -> pa.Array:
    """The value of each list of rows."""
    return each(lists, lambda columns: function(*columns), returns)


def folded(use: Mergeable, lists: pa.ListArray) -> pa.Array:
    """The state of each list of rows."""
    return each(lists, lambda columns: json.dumps(use.add(use.init(), *columns)), pa.string())


def merged(use: Mergeable, lists: pa.ListArray) -> pa.Array:
    """One state of each list of states."""

    def one_of(states: list[str | None]) -> str:
        found = [json.loads(state) for state in states if state is not None]
        return json.dumps(reduce(use.merge, found) if found else use.init())

    return pa.array([one_of(states) for states in lists.to_pylist()], pa.string())


def valued(use: Mergeable, returns: pa.DataType, states: pa.Array) -> pa.Array:
    """The value of each state."""
    return pa.array([use.value(json.loads(state)) for state in states.to_pylist()], returns)


class OfUser:
    """The common part of the classes of user aggregates."""

    returns: ClassVar[pa.DataType]
    calls: ClassVar[dict[str, Called]]
    """What Spark calls, by what it is for: the function and the type that it gives."""

    @classmethod
    def check(cls, call: Call) -> None:
        """Refuse a call without arguments, or with clauses that it does not have."""
        if not call.texts or call.texts == ("*",) or call.distinct or call.order is not None:
            raise call.error(f"{call.function} takes expressions, as in {call.function}(x, y)")
        for sql in call.texts:
            call.type_of(sql)


class OfGroup(OfUser, Kept):
    """A function over all rows of a group: the rows are kept until the close."""

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check(call)
        places = ", ".join(f"'a{n}', {{{n + 1}}}" for n in range(len(call.texts)))
        template = f"{spark_name('group', call.function)}({{rows}})"
        columns, rows = (TIME, *call.texts), f"named_struct('t', {{0}}, {places})"
        return cls(call.name, call.text, call.texts[0], cls.returns, call.function, columns, template + rows)

    def filtered(self, condition: str) -> Self:
        return replace(self, columns=(*self.columns, f"coalesce({condition}, false)"))

    def close_sql(self, columns: Iterable[str]) -> str:
        names = list(columns)
        call, _, row = self.template.partition("({rows})")
        where = f" FILTER (WHERE {names[-1]})" if len(names) > self.places else ""
        return f"{call}(array_sort(collect_list({row.format(*names)}){where}))"

    @property
    def places(self) -> int:
        """How many columns a row of a list has; a condition may stand behind them."""
        return self.template.count("{") - 1


@dataclass(frozen=True)
class UserState(Partial):
    """A user's state, as JSON."""

    kind: type[OfStates] | None = None
    where: str = "true"

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        row = given(given(self.argument, self.where), kept)
        return (f"{self._name('fold')}(array_sort(collect_list({row})))",)

    @property
    def row_sql(self) -> str:
        """The row, and whether the filter lets it pass."""
        return f"{self.argument[:-1]}, 'where', {self.where})"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).implode(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"{self._name('merge')}(collect_list({columns[0]}))",)

    def unite(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (self.called("merge", pl.col(columns[0])),)

    def called(self, part: str, x: pl.Expr) -> pl.Expr:
        """What Spark would call, on a column in the driver."""
        assert self.kind is not None
        function, returns = self.kind.calls[part]
        return x.map_batches(lambda s: pl.Series(function(s.to_arrow())), return_dtype=dtype_of(returns))

    def _name(self, part: str) -> str:
        assert self.kind is not None
        return spark_name(part, self.kind.functions[0])


@dataclass(frozen=True)
class OfStates(OfUser, AggregateFunction):
    """A mergeable aggregate: a pane keeps its state."""

    growth: ClassVar[Growth | None] = None
    row: str = ""
    """Spark SQL of a row of a list."""
    where: str = "true"

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check(call)
        places = ", ".join(f"'a{n}', {sql}" for n, sql in enumerate(call.texts))
        row = f"named_struct('t', {TIME}, {places})"
        return cls(call.name, call.text, call.texts[0], cls.returns, row=row)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.row, self.where

    def filtered(self, condition: str) -> Self:
        return replace(self, where=f"coalesce({condition}, false) AND {self.where}")

    def partials(self) -> tuple[Partial, ...]:
        return (self._state,)

    @property
    def _state(self) -> UserState:
        return UserState(self.row, kind=type(self), where=self.where)

    def value(self, *columns: str) -> pl.Expr:
        return self._state.called("value", pl.col(columns[0]))

    def value_sql(self, *columns: str) -> str:
        return f"{spark_name('value', self.functions[0])}({columns[0]})"


def dtype_of(kind: pa.DataType) -> pl.DataType:
    """The type in polars."""
    return pl.Series(pa.array([], kind)).dtype


def spark_name(part: str, name: str) -> str:
    """The name by which Spark knows a part of a user's aggregate."""
    return f"__{part}_{name}"


def user_aggregate(name: str, aggregate: GroupFunction | Mergeable, returns: pa.DataType) -> dict[str, Called]:
    """Let queries call a user's aggregate by a name, in SQL and in Python. Gives what Spark must know, by name.

    A function takes a `pyarrow.Array` for each argument, with all rows of a group in the order of time, and gives
    the value. An object with `init`, `add`, `merge` and `value` is folded: only its state is kept.
    """
    if not name.isidentifier() or name != name.lower():
        raise QueryError(f"aggregate {name!r}: write a plain name in small letters, as in 'closest'")
    if BY_FUNCTION.get(name) in AGGREGATES:
        raise QueryError(f"aggregate {name!r}: Spark has an aggregate of this name; choose another one")
    if isinstance(aggregate, type) or not (isinstance(aggregate, Mergeable) or callable(aggregate)):
        raise QueryError(
            f"aggregate {name!r}: {aggregate!r} is neither a function nor an object with init, add, merge and value"
        )
    base: type[OfUser] = OfGroup
    calls: dict[str, Called] = {}
    if isinstance(aggregate, Mergeable):
        base = OfStates
        calls["fold"] = partial(folded, aggregate), pa.string()
        calls["merge"] = partial(merged, aggregate), pa.string()
        calls["value"] = partial(valued, aggregate, returns), returns
    else:
        calls["group"] = partial(values_of_lists, aggregate, returns), returns
    BY_FUNCTION[name] = type(name, (base,), {"functions": (name,), "returns": returns, "calls": calls})
    return {spark_name(part, name): call for part, call in calls.items()}
