"""Copies of stored relations that cannot change.

A relation is read again for each page, unless the user has it cached, so its rows may be others tomorrow. Only what
lies in the driver, such as a DataFrame made of an Arrow table, stays as it is. After a crash the program may bring
another one: so the journal gets a copy, for rows that must come out the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from slackwater.events import decision

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend

#: Folder of the copies.
RELATIONS = "relations"
#: What Spark calls rows that lie in the driver.
_IN_DRIVER = {"LocalRelation", "Range", "OneRowRelation"}


class Copies:
    """Copies of relations in the journal, each made once."""

    def __init__(self, pages: SparkBackend) -> None:
        self._pages = pages
        self._places: dict[DataFrame, str | None] = {}
        self._tables: dict[str, DataFrame] = {}

    def place(self, table: DataFrame) -> str | None:
        """Where the copy of a relation lies, below the root; None if the relation may change."""
        if table not in self._places:
            self._places[table] = self._copied(table) if _stays(table) else None
        return self._places[table]

    def table(self, place: str) -> DataFrame:
        """The relation that has its copy there, or the copy if an earlier process has made it."""
        if place not in self._tables:
            self._tables[place] = self._pages.spark.read.parquet(self._pages.root.child(place).address)
        return self._tables[place]

    def _copied(self, table: DataFrame) -> str:
        place = self._pages.new(RELATIONS)
        with self._pages.writing(place):
            table.write.parquet(place.address)
        name = place.path.removeprefix(self._pages.root.path + "/")
        self._tables[name] = table
        return name


def _stays(table: DataFrame) -> bool:
    """Whether all its rows lie in the driver."""
    try:
        leaves: Any = table._jdf.queryExecution().analyzed().collectLeaves()
        return all(_in_driver(leaves.apply(n)) for n in range(leaves.size()))
    except (Py4JError, AttributeError, TypeError) as error:
        decision("table.copied", error=error)
        return False


def _in_driver(leaf: Any) -> bool:
    if _name(leaf) != "LogicalRDD":
        return _name(leaf) in _IN_DRIVER
    # A table of Arrow: nothing of the user's stands between it and Spark. A list of Python comes by an RDD of
    # Python, of which nobody knows whether it is the same tomorrow.
    rdd = leaf.rdd()
    while _name(rdd) == "MapPartitionsRDD":
        rdd = rdd.dependencies().head().rdd()
    return _name(rdd) == "ParallelCollectionRDD"


def _name(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())
