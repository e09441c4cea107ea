"""Rows in Spark's memory, without those that they were made of.

`persist` would keep the plan of the rows, and with it the page that a filter was put on. If that is in the memory
of Java, nothing is freed. A local checkpoint forgets the plan. It also takes one stage instead of two.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

_ROWS, _BYTES = "rows", "bytes"
#: Bytes of a number, and of what a row has beside its columns.
_WORD = 8


def hold(frame: DataFrame) -> tuple[DataFrame, int, int]:
    """One job. The rows as they are kept, how many they are, and how many bytes they take."""
    seen = Observation()
    size = " + ".join([str(_WORD), *map(_bytes, frame.schema.fields)])
    watched = frame.observe(seen, F.expr("count(1)").alias(_ROWS), F.expr(f"sum({size})").alias(_BYTES))
    # As objects of Java they would be read a little faster, and take twice the room.
    rows = watched.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
    try:
        found = seen.get
    except Py4JJavaError:
        # Spark saw that no row can pass the filter and left out all there was to watch.
        return rows, 0, 0
    return rows, found[_ROWS], found[_BYTES] or 0


def let_go(rows: DataFrame) -> None:
    """They are needed no more."""
    plan: Any = rows._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


def _bytes(field: StructField) -> str:
    """Spark SQL of the bytes that a column takes in a row, about."""
    name = f"`{field.name.replace('`', '``')}`"
    if isinstance(field.dataType, (ArrayType, MapType, StructType)):
        name = f"to_json({name})"
    elif not isinstance(field.dataType, (StringType, BinaryType)):
        return str(_WORD)
    return f"{_WORD} + coalesce(octet_length({name}), 0)"
