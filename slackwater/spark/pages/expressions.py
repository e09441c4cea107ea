"""Spark SQL text as columns. The same texts come with every page, so they are read once."""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F


@lru_cache(maxsize=4096)
def column(sql: str) -> Column:
    """An expression."""
    return F.expr(sql)


@lru_cache(maxsize=4096)
def named(sql: str, name: str) -> Column:
    """The same under a name."""
    return column(sql).alias(name)
