"""A function for a sink that keeps all rows; `run.results()` keeps only the last early answer of a window."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame


class KeptRows:
    """Give it to `start(sink=…)`; it has all rows in the order they came."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def __call__(self, rows: DataFrame, commit_id: int) -> None:
        self._tables.append(rows.toArrow())

    def results(self) -> pa.Table:
        return pa.concat_tables(self._tables) if self._tables else pa.table({"kind": pa.array([], pa.string())})
