"""Sinks: in memory, Parquet files, or a function as for Spark's `foreachBatch`. Each takes a commit id once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import QueryError, SinkError
from slackwater.operators.payload import Payload, Staged
from slackwater.operators.prod import Prod
from slackwater.operators.sink import Output
from slackwater.plan.ask import Ask
from slackwater.plan.function import check_function
from slackwater.plan.nodes import PlanNode, answering
from slackwater.spark.api.prods import read_prod
from slackwater.spark.pages.pages import SparkPages
from slackwater.spark.storage.place import Place
from slackwater.spark.types import spark_of, spark_schema
from slackwater.windows.results import KIND

_log = logging.getLogger(__name__)

#: What a user may give as a sink.
SinkLike = str | os.PathLike[str] | Callable[[DataFrame, int], object] | None


class MemorySink:
    """Keeps results in the driver, for `run.results()`."""

    def __init__(self, pages: SparkPages, schema: pa.Schema | None) -> None:
        self._pages = pages
        self._schema = schema
        self._tables: list[pa.Table] = []

    def write(self, payload: Payload, commit_id: int) -> None:
        """Keep the rows of a commit."""
        if isinstance(payload, Staged):
            place = self._pages.root.child(payload.location)
            payload = _without_nulls(pq.read_table(place.path, filesystem=place.files), self._schema)
        # Early results have more columns than final ones.
        plain = self._schema is not None and payload.schema.names == self._schema.names
        self._tables.append(payload.cast(self._schema) if plain else payload)

    def table(self) -> pa.Table:
        """All rows so far."""
        if not self._tables:
            return self._schema.empty_table() if self._schema is not None else pa.table({})
        return pa.concat_tables(self._tables, promote_options="permissive")


class ParquetSink:
    """A folder of Parquet files, one for each commit; a commit that comes again replaces itself."""

    def __init__(
        self, where: str | os.PathLike[str], run: str, pages: SparkPages, schema: pa.Schema | None
    ) -> None:
        self.place = Place.of(where)
        self._run = run
        self._pages = pages
        self._schema = schema
        probe = f"{self.place.path}/.slackwater-{run}"
        try:
            self.place.files.create_dir(self.place.path, recursive=True)
            with self.place.files.open_output_stream(probe) as stream:
                stream.write(b"")
            self.place.files.delete_file(probe)
        except OSError as error:
            raise SinkError(
                f"cannot write to sink {os.fspath(where)!r}: {error}; give a folder that can be written"
            ) from error

    def write(self, payload: Payload, commit_id: int) -> None:
        """Put the files of a commit in place, each by a rename."""
        name = f"{self.place.path}/part-{self._run}-{commit_id:06d}"
        if isinstance(payload, Staged):
            staged = self._pages.root.child(payload.location)
            for part in staged.names():
                if part.endswith(".parquet"):
                    self._put(staged, part, f"{name}-{part}")
            return
        hidden = f"{self.place.path}/.half-{self._run}-{commit_id:06d}"
        with self.place.files.open_output_stream(hidden) as stream:
            pq.write_table(_in_full(payload, self._schema), stream)
        self.place.files.move(hidden, f"{name}.parquet")

    def _put(self, staged: Place, part: str, target: str) -> None:
        hidden, source = f"{self.place.path}/.half-{self._run}-{part}", f"{staged.path}/{part}"
        whole = self._schema is None or len(pq.read_schema(source, filesystem=staged.files)) == len(self._schema)
        if whole:
            fs.copy_files(source, hidden, source_filesystem=staged.files, destination_filesystem=self.place.files)
        else:
            rows = _in_full(pq.read_table(source, filesystem=staged.files), self._schema)
            with self.place.files.open_output_stream(hidden) as stream:
                pq.write_table(rows, stream)
        self.place.files.move(hidden, target)


class CallableSink:
    """Hands each commit to a function as a DataFrame, under the contract of `foreachBatch`: at least once.

    What the function gives back may be a prod (S5's feedback): `sw.prod(…)`, or True for all open windows. One that
    makes no sense is counted: it comes in the middle of a commit, which it must not spoil.
    """

    def __init__(
        self, function: Callable[[DataFrame, int], object], pages: SparkPages, plan: PlanNode | None
    ) -> None:
        self._function = function
        self._pages = pages
        self._plan = plan
        """The query that may be prodded; None if it is not results that come."""
        self._schema = _schema(plan)
        self.refused = 0

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Call the function."""
        if isinstance(payload, Staged):
            place = self._pages.root.child(payload.location)
            rows = self._pages.spark.read.parquet(place.address)
            missing = [f for f in self._schema or () if f.name not in rows.columns]
            nulls = {f.name: F.lit(None).cast(spark_of(f.type)) for f in missing}
            asked = self._function(rows.withColumns(nulls) if nulls else rows, commit_id)
        else:
            full = _in_full(payload, self._schema)
            rows = self._pages.spark.createDataFrame(full, spark_schema(full.schema))
            asked = self._function(rows, commit_id)
        if asked is True:
            asked = Ask()
        return self._prod(self._plan, asked) if isinstance(asked, Ask) and self._plan is not None else None

    def _prod(self, plan: PlanNode, asked: Ask) -> Prod | None:
        try:
            return read_prod(plan, asked.until, asked.where)
        except QueryError as error:
            if not self.refused:
                _log.warning("a prod that a sink's function gave back is left out, as are others: %s", error)
            self.refused += 1
            return None


def _schema(plan: PlanNode | None) -> pa.Schema | None:
    """The columns of all results of a query, early or final, so that they can be read as one table."""
    return None if plan is None else plan.early_schema


def _without_nulls(rows: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Final results without the columns that only early ones have a value in."""
    if schema is None or rows.num_columns == len(schema) or not rows.num_rows:
        return rows
    final = set(rows[KIND].unique().to_pylist()) == {"final"} if KIND in rows.schema.names else False
    return rows.select(schema.names) if final else rows


def _in_full(rows: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Rows with all columns; those of early results are null in final ones."""
    if schema is None or rows.num_columns == len(schema):
        return rows
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def make_sink(sink: SinkLike, run: str, pages: SparkPages, plan: PlanNode | None = None) -> Output:
    """The sink for what a user gave; `plan` is the query whose results come, None for late rows."""
    if sink is None:
        return MemorySink(pages, None if plan is None else plan.schema)
    if isinstance(sink, (str, os.PathLike)):
        return ParquetSink(sink, run, pages, _schema(plan))
    if callable(sink):
        check_function(sink, "a sink function", "DataFrame", "commit_id")
        prodded = plan if plan is not None and answering(plan) is not None else None
        return CallableSink(sink, pages, prodded)
    raise QueryError(f"sink={sink!r}: give None, a folder, or a function (DataFrame, commit_id)")
