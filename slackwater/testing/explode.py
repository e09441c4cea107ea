"""One row to many, for pages in process: Spark's generators over polars, and rows in their windows."""

from __future__ import annotations

import numpy as np
import polars as pl

from slackwater.aggregates.user_text import arguments
from slackwater.columns import EXPLODED, TIME
from slackwater.errors import QueryError
from slackwater.plan.steps import InWindows
from slackwater.testing.expression import expression
from slackwater.windows.results import WINDOW_END, WINDOW_START

_LIST, _POSITION = "__list", "__position"


def exploded(frame: pl.DataFrame, call: str) -> tuple[pl.DataFrame, list[str]]:
    """The rows with the columns that a call gives, under hidden names, and the names of these in Spark.

    >>> rows = pl.DataFrame({"k": [1, 2], "v": [["a", "b"], []]})
    >>> found, names = exploded(rows, "posexplode_outer(v)")
    >>> names, found.drop("v").rows()
    (['pos', 'col'], [(1, 0, 'a'), (1, 1, 'b'), (2, None, None)])
    """
    function, (array, *_) = call.partition("(")[0].strip().lower(), arguments(call)
    plain = function.removesuffix("_outer")
    if plain not in ("explode", "posexplode", "inline"):
        raise QueryError(
            f"{call}: pages in process know explode, posexplode and inline, each with or without _outer; test it "
            "on Spark"
        )
    rows = frame.with_columns(expression(array).alias(_LIST))
    if not isinstance(rows.schema[_LIST], pl.List):
        raise QueryError(f"{call}: {array} is no array")
    some, length = pl.col(_LIST).list.len() > 0, pl.col(_LIST).list.len().cast(pl.Int64)
    rows = rows.filter(some) if function == plain else rows.with_columns(pl.when(some).then(pl.col(_LIST)))
    rows = rows.with_columns(pl.int_ranges(0, length, dtype=pl.Int32).alias(_POSITION)).explode(_LIST, _POSITION)
    columns = {"pos": pl.col(_POSITION)} if plain == "posexplode" else {}
    if plain == "inline":
        kind = rows.schema[_LIST]
        if not isinstance(kind, pl.Struct):
            raise QueryError(f"{call}: {array} is no array of structs")
        columns = {field.name: pl.col(_LIST).struct.field(field.name) for field in kind.fields}
    else:
        columns["col"] = pl.col(_LIST)
    made = [column.alias(f"{EXPLODED}{n}") for n, column in enumerate(columns.values())]
    return rows.select(*frame.columns, *made), list(columns)


def in_windows(frame: pl.DataFrame, step: InWindows) -> pl.DataFrame:
    """Each row once in each of its windows; those without a time stay as they are.

    >>> rows = pl.DataFrame({"x": ["a", "b"], "__time": [4, None]})
    >>> in_windows(rows, InWindows(10, 5, 0, False, "{}")).rows()
    [('a', 4, -5, 5), ('a', 9, 0, 10), ('b', None, None, None)]
    """

    def bounds(tick: int | None) -> list[tuple[int | None, int | None]]:
        if tick is None:
            return [(None, None)]
        first, last = (windows[0] for windows in step.spec.windows_of(np.array([step.spec.pane_of(tick)])))
        return [step.spec.bounds(window) for window in range(int(first), int(last) + 1)]

    found = [bounds(tick) for tick in frame[TIME]]
    rows = frame[[place for place, windows in enumerate(found) for _ in windows]]
    kind = pl.Datetime("us", "UTC") if step.bound.startswith("timestamp") else pl.Int64()
    starts, ends = (
        pl.Series(name, [window[side] for windows in found for window in windows], pl.Int64)
        for side, name in enumerate((WINDOW_START, WINDOW_END))
    )
    times = (ends - 1).alias(TIME)
    return rows.with_columns(times, starts.cast(kind), ends.cast(kind))
