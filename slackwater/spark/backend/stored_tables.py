"""Stored relations as they are now: looked up for each page.

The rows of a relation over files are held until its files change. They are held in memory; on a cluster, which may
lose an executor with its memory, they are held as files of the session. So a page sees the whole table, before a
change or after it, also while somebody overwrites it. Spark deletes the old files first, so a table that is being
written is empty for a while. If a function gives the relation, it is called for each page.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from slackwater.events import decision
from slackwater.spark.backend.memory_budget import hold
from slackwater.spark.backend.tables import RELATIONS
from slackwater.spark.storage.shared import is_local

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend

#: Where Spark and Hadoop put what is not committed yet.
_UNDER_WAY = "_temporary"
#: Seconds without a change after which such a file is what a crash has left. A job may run this long without a new
#: task.
_LEFT_BEHIND = 3600.0

#: Seconds between looks at a table that is being written when it is read for the first time: half a minute in all.
_PAUSES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 7.0)


@dataclass
class _Files:
    """A relation over files."""

    frame: DataFrame
    indexes: list[Any]
    """Spark's lists of its files; without one, the relation is read anew each time."""
    listed: str | None = None
    """The files that `rows` are made of."""
    rows: DataFrame | None = None


class StoredTables:
    """Finds the tables that steps join."""

    def __init__(self, backend: SparkBackend) -> None:
        self._backend = backend
        self.find: Callable[[str], DataFrame] = lambda name: backend.spark.table(name)
        self.function: Callable[[str], Callable[[], DataFrame] | None] = lambda name: None
        """What gives a table anew for each page, where there is something."""
        self._files: dict[str, _Files] = {}

    def stays(self, name: str) -> bool:
        """Whether it is neither over files nor given by a function."""
        return self.function(name) is None and not self._known(name).indexes

    def now(self, name: str) -> DataFrame:
        """The table as it is now."""
        if (function := self.function(name)) is not None:
            return function()
        table = self._known(name)
        if not table.indexes:
            return table.frame
        for pause in (*_PAUSES, None):
            try:
                self._look(table, patient=pause is not None or table.rows is not None)
            except (PySparkException, Py4JError) as error:
                if table.rows is None and pause is None:
                    raise
                decision("table.being_written", table=name, error=error)
            if table.rows is not None:
                break
            time.sleep(pause or 0)
        assert table.rows is not None
        return table.rows

    def _look(self, table: _Files, patient: bool) -> None:
        """Hold the rows anew if the files have changed; with patience, wait while somebody is writing them."""
        listed = _listed(table.indexes)
        if listed == table.listed or (patient and any(map(_being_written, table.indexes))):
            return
        rows = self._held(table.frame.select("*"))
        # The list may be of a moment at which the table was half written, though it is whole now.
        if not patient or _listed(table.indexes) == listed:
            table.rows, table.listed = rows, listed

    def _held(self, rows: DataFrame) -> DataFrame:
        spark = self._backend.spark
        if is_local(str(spark.sparkContext.master)):
            return hold(rows)[0]
        place = self._backend.new(RELATIONS)
        with self._backend.writing(place):
            rows.write.parquet(place.address)
        return spark.read.schema(rows.schema).parquet(place.address)

    def _known(self, name: str) -> _Files:
        if name not in self._files:
            frame = self.find(name)
            level = frame.storageLevel
            self._files[name] = _Files(frame, [] if level.useMemory or level.useDisk else _indexes(frame))
        return self._files[name]


def _indexes(frame: DataFrame) -> list[Any]:
    """Spark's lists of the files of a relation; none if a part of it is no files."""
    try:
        leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
        found = [leaves.apply(n).relation().location() for n in range(leaves.size())]
        return found if all(_simple(index) == "InMemoryFileIndex" for index in found) else []
    except (Py4JError, AttributeError, TypeError) as error:
        decision("table.no_files", error=error)
        return []


def _simple(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _listed(indexes: list[Any]) -> str:
    """The files of now, with their sizes and dates."""
    for index in indexes:
        index.refresh()
    return "\n".join(str(index.allFiles().mkString("\n")) for index in indexes)


def _being_written(index: Any) -> bool:
    """Whether somebody is writing into the folder, or has deleted it to write it anew."""
    roots = index.rootPaths()
    for n in range(roots.size()):
        root = roots.apply(n)
        files = root.getFileSystem(index.hadoopConf())
        if not files.exists(root):
            return True
        begun = next((s for s in files.listStatus(root) if s.getPath().getName() == _UNDER_WAY), None)
        if begun is not None and time.time() - begun.getModificationTime() / 1000 < _LEFT_BEHIND:
            return True
    return False
