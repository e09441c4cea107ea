"""Sinks: in memory, a table, or a function as for Spark's `foreachBatch`. Each takes a commit id once."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import QueryError, did_you_mean
from slackwater.operators.payload import Payload, Recipe, Staged
from slackwater.operators.prod import Prod
from slackwater.operators.prod_request import read_prod
from slackwater.operators.several_outputs import SeveralOutputs
from slackwater.operators.sink import Output
from slackwater.plan.function import check_function
from slackwater.plan.node import PlanNode, early_schema_of
from slackwater.plan.request import ProdRequest
from slackwater.plan.result_keys import result_keys
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.locations.location import source_errors_explained
from slackwater.spark.backend.opened import reference_of
from slackwater.spark.sinks import SINKS
from slackwater.spark.sinks.memory_sink import MemorySink
from slackwater.spark.sinks.parquet_sink import Parquet
from slackwater.spark.sinks.result_rows import ResultColumns, in_full
from slackwater.spark.sinks.table_sink import TableSettings, TableSink
from slackwater.spark.storage.types import spark_of, spark_schema

_log = logging.getLogger(__name__)

#: What a user may give as a sink.
OneSink = str | os.PathLike[str] | TableSettings | Callable[[DataFrame, int], object] | None
SinkLike = OneSink | Sequence[OneSink]


class CallableSink:
    """Hands each commit to a function as a DataFrame, under the contract of `foreachBatch`: at least once.

    What the function gives back may be a prod (S5's feedback): `sw.prod(…)`, or True for all open windows. One that
    makes no sense is counted: it comes in the middle of a commit, which it must not spoil.
    """

    advice = "mend the function"

    def __init__(
        self, function: Callable[[DataFrame, int], object], pages: SparkBackend, plan: PlanNode | None
    ) -> None:
        self._function = function
        self.about = f"the function {getattr(function, '__name__', type(function).__name__)!r}"
        self._pages = pages
        self._plan = plan
        """The query that may be prodded; None if it is not results that come."""
        self._schema = None if plan is None else early_schema_of(plan)
        self.refused = 0

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Call the function."""
        if isinstance(payload, Recipe):
            with source_errors_explained(reference_of(payload.page.location)):
                asked = self._function(self.made(payload), commit_id)
        elif isinstance(payload, Staged):
            place = self._pages.root.child(payload.location)
            rows = self._pages.spark.read.parquet(place.address)
            missing = [f for f in self._schema or () if f.name not in rows.columns]
            nulls = {f.name: F.lit(None).cast(spark_of(f.type)) for f in missing}
            asked = self._function(rows.withColumns(nulls) if nulls else rows, commit_id)
        else:
            full = in_full(payload, self._schema)
            rows = self._pages.given(full, spark_schema(full.schema))
            asked = self._function(rows, commit_id)
        if asked is True:
            asked = ProdRequest()
        return self._prod(self._plan, asked) if isinstance(asked, ProdRequest) and self._plan is not None else None

    def made(self, recipe: Recipe) -> DataFrame:
        """Rows as a DataFrame that makes them when the function runs a job on it, as in `foreachBatch`."""
        return self._pages.made(recipe)

    def _prod(self, plan: PlanNode, asked: ProdRequest) -> Prod | None:
        try:
            return read_prod(plan, asked, self._pages)
        except QueryError as error:
            if not self.refused:
                _log.warning("a prod that a sink's function gave back is left out, as are others: %s", error)
            self.refused += 1
            return None


def sink_by_name(
    name: str, values: Sequence[object], settings: Mapping[str, object], folder: Callable[[str], str]
) -> TableSettings:
    """The sink that a SQL text names; `folder` says where a relative path starts."""
    if name not in SINKS:
        names = ", ".join(sorted(SINKS))
        raise QueryError(f"there is no sink {name!r}{did_you_mean(name, SINKS)}; there are {names}, and 'a folder'")
    parameters = inspect.signature(SINKS[name])
    try:
        given = parameters.bind(*values, **settings).arguments
    except TypeError as error:
        wanted = ", ".join(parameters.parameters)
        raise QueryError(f"{name}(…): {error}; its settings are {wanted}") from None
    if isinstance(given.get("folder"), str):
        given["folder"] = folder(given["folder"])
    return SINKS[name](**given)


def make_sink(sink: SinkLike, run: str, pages: SparkBackend, plan: PlanNode | None = None) -> Output:
    """The sink for what a user gave; `plan` is the query whose results come, None for late rows."""
    if not isinstance(sink, (list, tuple)):
        return _make_one(sink, run, pages, plan)
    if not sink:
        raise QueryError(f"sink={sink!r}: give one sink at least, as in sink=['out/late', None]")
    for n, one in enumerate(sink):
        if one in sink[:n]:
            raise QueryError(f"sink={sink!r}: {one!r} is there twice; leave one of them out")
    # The first one has the name that it would have alone: others may be added behind it later.
    made = [_make_one(one, f"{run}-sink{n + 1}" if n else run, pages, plan) for n, one in enumerate(sink)]
    return made[0] if len(made) == 1 else SeveralOutputs(made)


def _make_one(sink: object, run: str, pages: SparkBackend, plan: PlanNode | None) -> Output:
    columns = ResultColumns.of(plan)
    if sink is None:
        return MemorySink(pages, *(() if plan is None else (plan.schema, result_keys(plan))))
    if isinstance(sink, (str, os.PathLike)):
        sink = Parquet(sink)
    if isinstance(sink, TableSettings):
        return TableSink(sink.table(run, pages, columns), run, pages, sink.every / 1e6)
    if callable(sink):
        check_function(sink, "a sink function", "DataFrame", "commit_id")
        return CallableSink(sink, pages, plan if plan is not None and plan.prodded() else None)
    raise QueryError(
        f"sink={sink!r}: give None, a folder, one of sw.sinks, a function (DataFrame, commit_id), or a list "
        "of these"
    )
