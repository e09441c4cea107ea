"""Rows as the page's table has them: numbers as numbers, all else as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from slackwater.progress.time import TimeDomain

#: Characters of a cell.
_LONGEST = 200
#: Whole numbers beyond it are text: JavaScript would round them.
_EXACT = 2**53


def rows_shown(tables: Sequence[pa.Table]) -> dict[str, Any]:
    """The names of the columns, and the rows, the newest first.

    >>> rows_shown([pa.table({"g": ["a"], "n": [1]}), pa.table({"g": ["b"], "n": [2], "n_low": [0.5]})])
    {'columns': ['g', 'n', 'n_low'], 'rows': [('b', 2, 0.5), ('a', 1, None)]}
    """
    names = list(dict.fromkeys(name for table in tables for name in table.schema.names))
    rows: list[tuple[Any, ...]] = []
    for table in reversed(tables):
        # Early answers have more columns than final ones.
        columns = [_cells(table[n]) if n in table.schema.names else [None] * table.num_rows for n in names]
        rows += list(zip(*columns, strict=True))[::-1]
    return {"columns": names, "rows": rows}


def _cells(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if kinds.is_timestamp(kind):
        # As whole numbers: Python's datetime ends with the year 9999, windows do not.
        ticks = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_pylist()
        return [None if tick is None else TimeDomain.TIMESTAMP.show(tick) for tick in ticks]
    if kinds.is_temporal(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    try:
        return [_cell(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # a time inside of a list or a struct that Python does not know
        return ["?"] * len(column)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) <= _EXACT):
        return value
    return str(value)[:_LONGEST]
