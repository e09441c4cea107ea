"""The rows that a table gets: their columns, their key, and how they are read in parts."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import QueryError, SinkError, did_you_mean
from slackwater.plan.node import PlanNode, early_schema_of
from slackwater.plan.query_windows import answering_window
from slackwater.plan.result_keys import result_keys
from slackwater.spark.storage.storage_dir import StorageDir

#: Rows of a file that are in memory at once: some 10 to 50 MB.
_BATCH_ROWS = 100_000
#: Packages whose name in pip is another one.
_IN_PIP = {"confluent_kafka": "confluent-kafka"}


@dataclass(frozen=True)
class ResultColumns:
    """The columns of the rows that come."""

    schema: pa.Schema | None = None
    """All of them, if they are known before the first row: those of late rows are not."""
    early: frozenset[str] = frozenset()
    """Columns that have values in early rows only."""
    keys: tuple[str, ...] = ()
    """Columns of the window and the group."""
    corrected: bool = False
    """Whether late rows correct results: then the numbers of commits have gaps."""

    @classmethod
    def of(cls, plan: PlanNode | None) -> ResultColumns:
        """The columns of a query's results; None means late rows."""
        if plan is None:
            return cls()
        wide = early_schema_of(plan)
        if wide is None:
            return cls(plan.schema)
        # Several rows of a group may come at one time, and a user knows another key for them.
        top = answering_window(plan)
        keys, corrected = () if top is None else result_keys(plan), top is not None and top.corrections is not None
        return cls(wide, frozenset(wide.names).difference(plan.schema.names), keys, corrected)

    def check_names(self, sink: str, key: Sequence[str]) -> None:
        """Refuse a key of columns that are not there."""
        names = [] if self.schema is None else self.schema.names
        if key and not names:
            raise QueryError(f"{sink}(key={key!r}): late rows have no key; leave key= out, and all are kept")
        for name in key:
            if name not in names:
                raise QueryError(
                    f"{sink}(key={key!r}): the results have no column {name!r}{did_you_mean(name, names)}; "
                    f"they have {', '.join(names)}"
                )

    def check_key(self, sink: str, key: Sequence[str]) -> None:
        """Refuse a key that does not tell the results apart."""
        self.check_names(sink, key)
        if key and (missing := [name for name in self.keys if name not in key]):
            raise QueryError(
                f"{sink}(key={key!r}): results that differ in {', '.join(missing)} would replace each other; "
                f"write key={self.keys!r}"
            )

    def kept(self, about: str, schema: pa.Schema, there: Collection[str]) -> list[str]:
        """The columns that a table takes that is there already; it may lack those of early rows."""
        for name in schema.names:
            if name not in there and name not in self.early:
                raise SinkError(
                    f"{about} has no column {name!r}; add it there, or leave it out of the results with select()"
                )
        return [name for name in schema.names if name in there]


def read_key(key: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of a key as a user gives them."""
    return (key,) if isinstance(key, str) else tuple(key)


def last_of_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, at its place."""
    if not key:
        return rows
    numbers = pl.DataFrame(rows.select(list(key))).with_row_index("__row")
    last = numbers.unique(list(key), keep="last", maintain_order=True)["__row"]
    return rows if len(last) == rows.num_rows else rows.take(last.to_arrow())


def in_full(rows: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Rows with all columns; those of early results are null in final ones."""
    if schema is None or rows.num_columns == len(schema):
        return rows
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def schema_of(rows: pa.Table | StorageDir) -> pa.Schema:
    """The columns that rows have, in memory or as files."""
    if isinstance(rows, pa.Table):
        return rows.schema
    with rows.files.open_input_file(f"{rows.path}/{files_of(rows)[0]}") as file:
        return pq.read_schema(file).remove_metadata()


def files_of(folder: StorageDir) -> list[str]:
    """The names of the Parquet files of a folder."""
    return [name for name in folder.names() if name.endswith(".parquet")]


def batches(rows: pa.Table | StorageDir, schema: pa.Schema | None) -> Iterator[pa.Table]:
    """Rows with all columns, never many in memory beside those that are there already."""
    if isinstance(rows, pa.Table):
        for begin in range(0, rows.num_rows, _BATCH_ROWS):
            yield in_full(rows.slice(begin, _BATCH_ROWS), schema)
        return
    for name in files_of(rows):
        with rows.files.open_input_file(f"{rows.path}/{name}") as file:
            for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
                yield in_full(pa.Table.from_batches([batch]), schema)


def imported(module: str, extra: str) -> Any:
    """A package that not everybody needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = _IN_PIP.get(module, module)
        raise SinkError(f"{package} is not installed; run: pip install 'slackwater[{extra}]'") from error
