"""Finds the files of a batch, so that they are read themselves instead of the rows that `foreachBatch` hands over.

Which files belong to a batch is asked of the batch; whatever does not look exactly like a plain file source is left
as it is.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from slackwater.spark.pages.files import MOST_FILES, Files

#: Options of the stream that mean nothing to a reader.
_STREAMING = {
    "path",
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxcachedfiles",
    "latestfirst",
    "maxfileage",
    "filenameonly",
    "sourcearchivedir",
    "cleansource",
}


class DirectFiles:
    """The reader behind a plain streaming file source."""

    def __init__(self, frame: DataFrame) -> None:
        self._format: str | None = None
        self._options: tuple[tuple[str, str], ...] = ()
        self._schema = frame.schema.json()
        try:
            self._learn(frame)
        except (Py4JError, AttributeError):
            self._format = None

    def _learn(self, frame: DataFrame) -> None:
        plan: Any = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "StreamingRelation":
            return
        source = plan.dataSource()
        jvm: Any = frame.sparkSession.sparkContext._jvm
        options = jvm.scala.jdk.javaapi.CollectionConverters.asJava(source.options())
        if source.partitionColumns().isEmpty() and "cleansource" not in {k.lower() for k in options}:
            self._options = tuple((k, v) for k, v in options.items() if k.lower() not in _STREAMING)
            self._format = source.className()

    def of(self, batch: DataFrame) -> Files | None:
        """The files of a batch; None if it is not known to be just these."""
        if self._format is None:
            return None
        try:
            sizes = _files(batch)
        except (Py4JError, AttributeError):
            sizes = None
        if not sizes or any(c in path for path in sizes for c in "[]{}*?=,"):
            return None
        return Files(self._format, self._options, self._schema, tuple(sizes), sum(sizes.values()))


def _files(batch: DataFrame) -> dict[str, int] | None:
    """The files that a batch scans, whole, with their sizes; asked of the bottom of its lineage."""
    rdd: Any = batch._jdf.queryExecution().logical().rdd()
    while rdd.getClass().getSimpleName() != "FileScanRDD":
        behind = rdd.dependencies()
        if behind.size() != 1:
            return None
        rdd = behind.head().rdd()
    partitions = rdd.filePartitions()
    left: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for p in range(partitions.size()):
        for piece in partitions.apply(p).files():
            path = piece.filePath().toPath().toString()
            sizes[path] = piece.fileSize()
            left[path] = left.get(path, sizes[path]) - piece.length()
            if len(sizes) > MOST_FILES:
                return None
    # All pieces of a file must be there: their lengths add up to its size.
    return sizes if not any(left.values()) else None
