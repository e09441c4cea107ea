"""A user's Python function as a Spark column: an Arrow UDF on whole rows (mapInArrow would want pandas)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from slackwater.plan.function import checked
from slackwater.plan.steps import Map
from slackwater.spark.types import spark_schema


@lru_cache(maxsize=64)
def arrow_function(node: Map) -> Callable[[Column], Column]:
    """From a column of structs, the rows before, to one of structs, the rows after."""
    function, batch = checked(node.function, node.schema), pa.RecordBatch.from_struct_array

    def run(rows: pa.Array) -> pa.Array:
        return function(batch(rows)).to_struct_array()

    # Spark goes by the annotations, which are text here.
    run.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    udf: Callable[[Column], Column] = F.arrow_udf(run, spark_schema(node.schema))  # type: ignore[attr-defined]
    return udf
