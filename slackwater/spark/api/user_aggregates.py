"""Aggregates of the user's own, made known to the session's Spark."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater.aggregates.user import Called, GroupFunction, Mergeable, user_aggregate
from slackwater.spark.backend.relation import fields_of, to_arrow
from slackwater.spark.storage.types import spark_of

if TYPE_CHECKING:
    from slackwater.spark.api.running import Running


class TakesAggregates:
    """The methods of a session for aggregates of the user."""

    @abstractmethod
    def _open(self) -> Running: ...

    def register_aggregate(self, name: str, aggregate: GroupFunction | Mergeable, returns: str) -> None:
        """Let queries call a Python aggregate by a name, in SQL and in Python.

        Args:
            name: in small letters, such as "closest".
            aggregate: a function, or an object with `init`, `add`, `merge` and `value`. A function gets a
                `pyarrow.Array` for each argument of the call, with all rows of a group in the order of time, and
                gives the value. Of an object only the state is kept, which must be what JSON can hold: `init()`,
                `add(state, *arrays)` and `merge(state, other)` give states, `value(state)` gives the value.
            returns: the type of the value in Spark SQL, such as "DOUBLE".
        """
        ((_, kind),) = fields_of(f"value {returns}", f"register_aggregate({name!r})")
        for function, call in user_aggregate(name, aggregate, to_arrow(kind, f"aggregate {name!r}")).items():
            for spark in self._open().pages.sessions:
                _register(spark, function, call)


def _register(spark: SparkSession, name: str, call: Called) -> None:
    function, returns = call

    def run(column: pa.Array) -> pa.Array:
        return function(column)

    # Spark goes by the annotations, which are text here.
    run.__annotations__ = {"column": pa.Array, "return": pa.Array}
    spark.udf.register(name, F.arrow_udf(run, spark_of(returns)))  # type: ignore[attr-defined]
