"""Aggregates over kept rows in process, by polars; on Spark, Spark computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from slackwater.aggregates.kept import Kept, list_of
from slackwater.aggregates.user import OfGroup, dtype_of
from slackwater.aggregates.user_text import arguments
from slackwater.columns import GROUP, ROWS
from slackwater.windows.kernel import PaneKernel

#: The value of a group from the kept columns, and the arguments of the call as Spark SQL.
_Value = Callable[[list[pl.Expr], list[str]], pl.Expr]


def _in_order(columns: list[pl.Expr]) -> pl.Expr:
    value, time = (c.filter(columns[0].is_not_null()) for c in columns)
    return value.sort_by(time, value)


def _joined(columns: list[pl.Expr], texts: list[str]) -> pl.Expr:
    text = _in_order(columns).str.join(texts[1].strip("'") if len(texts) > 1 else "")
    return pl.when(columns[0].count() > 0).then(text)


#: Each function's type, given that of its first argument, and its value.
_FUNCTIONS: dict[str, tuple[Callable[[pa.DataType], pa.DataType], _Value]] = {
    "median": (lambda kind: pa.float64(), lambda columns, texts: columns[0].median()),
    "percentile": (
        lambda kind: pa.float64(),
        lambda columns, texts: columns[0].quantile(float(texts[1]), "linear"),
    ),
    "mode": (lambda kind: kind, lambda columns, texts: columns[0].drop_nulls().mode().min()),
    "collect_list": (list_of, lambda columns, texts: _in_order(columns)),
    "array_agg": (list_of, lambda columns, texts: _in_order(columns)),
    "collect_set": (list_of, lambda columns, texts: columns[0].drop_nulls().unique().sort()),
    "listagg": (lambda kind: pa.string(), _joined),
    "string_agg": (lambda kind: pa.string(), _joined),
}


def kept_type(call: str, type_of: Callable[[str], pa.DataType]) -> pa.DataType | None:
    """The type of a call; None where the function, or a clause of the call, is not known in process."""
    function = call.split("(", 1)[0].strip().lower()
    bare = call.strip().endswith(")") and "WITHIN" not in call.upper() and "DISTINCT" not in call.upper()
    return _FUNCTIONS[function][0](type_of(arguments(call)[0])) if function in _FUNCTIONS and bare else None


def kept_values(rows: pl.DataFrame, kernel: PaneKernel, aggregates: Sequence[Kept]) -> pl.DataFrame:
    """Some aggregates by group; each row came as often as its ROWS say."""
    every = rows.select(pl.exclude(ROWS).repeat_by(ROWS).explode())
    values = [
        _of_user(a, kernel.kept_of(a)).alias(kernel.closed[a])
        if isinstance(a, OfGroup)
        else _FUNCTIONS[a.function][1]([pl.col(c) for c in kernel.kept_of(a)], arguments(a.text)).alias(
            kernel.closed[a]
        )
        for a in aggregates
    ]
    return every.group_by(GROUP).agg(values)


def _of_user(a: OfGroup, columns: list[str]) -> pl.Expr:
    """A user's function over the rows in the order of time."""
    function, kind = a.calls["group"]
    fields = [pl.col(c).alias(f"a{n}") for n, c in enumerate(columns[: a.places])]
    rows = pl.struct(fields).filter(pl.col(columns[-1])) if len(columns) > a.places else pl.struct(fields)
    return rows.map_batches(lambda s: of_list(function, s), returns_scalar=True, return_dtype=dtype_of(kind))


def of_list(function: Callable[[pa.Array], pa.Array], rows: pl.Series) -> pl.Series:
    """The result of a user's function over one list."""
    return pl.Series(function(rows.sort().implode().to_arrow()))
