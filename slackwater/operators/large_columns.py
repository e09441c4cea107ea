"""Large columns of a state, a value for each of many sources: a journal record has the places that have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.operators.operator import State

Column: TypeAlias = "NDArray[Any] | list[Any]"


class LargeColumns:
    """Remembers what was last written of each column.

    >>> columns = LargeColumns()
    >>> columns.tables({"beats": np.array([3, 4, 5])}, whole=True)["beats"].to_pydict()
    {'v': [3, 4, 5]}
    >>> columns.tables({"beats": np.array([3, 9, 5, 7])}, whole=False)["beats"].to_pydict()
    {'at': [1, 3], 'v': [9, 7]}
    """

    def __init__(self) -> None:
        self._written: dict[str, Column] = {}

    def tables(self, columns: Mapping[str, Column], whole: bool) -> dict[str, pa.Table]:
        """All columns, or those that have changed since."""
        if whole:
            self._written.clear()
        changes = {name: self._change(values, self._written.get(name)) for name, values in columns.items()}
        self._written = {name: values.copy() for name, values in columns.items()}
        return {name: table for name, table in changes.items() if table is not None}

    def _change(self, values: Column, before: Column | None) -> pa.Table | None:
        number = len(values)
        if before is None or number < len(before) or _kind(values) != _kind(before):
            return pa.table({"v": values})
        old = values[: len(before)]
        if isinstance(values, np.ndarray):
            at = np.flatnonzero(old != before)
        else:
            differs = (
                [] if old == before else [n for n, (a, b) in enumerate(zip(old, before, strict=True)) if a != b]
            )
            at = np.array(differs, np.int64)
        at = np.concatenate([at, np.arange(len(before), number)])
        if len(at) > number // 2:
            return pa.table({"v": values})
        new = values[at] if isinstance(values, np.ndarray) else [values[n] for n in at]
        return pa.table({"at": at, "v": new}) if len(at) else None


def _kind(values: Column) -> object:
    return values.dtype if isinstance(values, np.ndarray) else list


def columns_of(states: Sequence[State], names: Sequence[str] | None) -> dict[str, Column]:
    """The columns, from a whole state and the changes since; those of these names, or all of them."""
    columns: dict[str, Column] = {}
    for state in states:
        for name, table in state.tables.items():
            values: Column = (
                table["v"].to_pylist() if pa.types.is_string(table["v"].type) else table["v"].to_numpy().copy()
            )
            if "at" in table.schema.names:
                values = _changed(columns[name], table["at"].to_numpy(), values)
            columns[name] = values
    return columns if names is None else {name: columns[name] for name in names}


def _changed(column: Column, at: NDArray[np.int64], values: Column) -> Column:
    length = max(len(column), int(at[-1]) + 1)
    if isinstance(column, list):
        column = column + [None] * (length - len(column))
        for place, value in zip(at.tolist(), values, strict=True):
            column[place] = value
        return column
    column = np.resize(column, length)
    column[at] = values
    return column
