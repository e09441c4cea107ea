"""Files of a plain file source: which ones a batch has, and how they are read.

Which files belong to a batch is asked of the batch; whatever does not look exactly like a plain file source is left
as it is. A scan of the files is planned together with the query behind it: Spark decodes only what is needed, in
columns, inside the generated code (measured: a quarter less time for a page of 4 M rows, a tenth less for 1 M).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slackwater.events import decision
from slackwater.spark.storage.embedded import moved_to

#: The most files of a page by reference.
MOST_FILES = 100
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


#: What Spark says of a file that goes while it is read.
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"


def _plain(path: str) -> str:
    """A path as errors have it, whatever stands before it."""
    return path.partition(":")[2].lstrip("/") if ":" in path else path


@dataclass(frozen=True)
class Files:
    """Some files of one source."""

    kind: ClassVar[str] = "files"
    scanned: ClassVar[bool] = True

    format: str
    options: tuple[tuple[str, str], ...]
    schema: str
    """As JSON."""
    paths: tuple[str, ...]
    bytes: int

    def alike(self, other: Files) -> bool:
        """Whether they are read in the same way."""
        return (self.format, self.options, self.schema) == (other.format, other.options, other.schema)

    def together(self, others: Sequence[Files]) -> Files:
        """These, then others that are read in the same way."""
        every = (self, *others)
        paths = tuple(path for files in every for path in files.paths)
        return replace(self, paths=paths, bytes=sum(files.bytes for files in every))

    def cut(self, parts: int) -> list[Files]:
        """The same files in `parts` parts, in order, about as many in each; not more parts than files."""
        ends = [len(self.paths) * n // parts for n in range(parts + 1)]
        paths = [self.paths[start:end] for start, end in pairwise(ends) if start < end]
        return [replace(self, paths=mine, bytes=self.bytes * len(mine) // len(self.paths)) for mine in paths]

    @property
    def pieces(self) -> int:
        """The files."""
        return len(self.paths)

    def read(self, stream: Callable[[], DataFrame], reader: SparkSession, spark: SparkSession) -> DataFrame:
        """Their rows in a session of ours, read by the settings of the user's."""
        schema = StructType.fromJson(json.loads(self.schema))
        rows = reader.read.format(self.format).schema(schema).options(**dict(self.options)).load(list(self.paths))
        return moved_to(spark, rows)

    def fault(self, error: Exception) -> str | None:
        """Files that are gone: before the job that reads them, or under it. Others may be missing for the user."""
        text = str(error)
        missed = [path for path in self.paths if _plain(path) in text]
        planned = isinstance(error, AnalysisException) and "[PATH_NOT_FOUND]" in text
        if not missed or not (planned or _GONE in text):
            return None
        return (
            "files of the stream that Slackwater has not processed yet are gone: "
            f"{', '.join(missed)}. Keep files until their rows are in the results; bring these back, or start "
            "again with an empty journal"
        )

    def saved(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "options": [list(pair) for pair in self.options], "paths": list(self.paths)}

    @staticmethod
    def load(saved: dict[str, Any]) -> Files:
        """From what `saved` gave."""
        options = tuple((name, value) for name, value in saved["options"])
        return Files(saved["format"], options, saved["schema"], tuple(saved["paths"]), saved["bytes"])


class FilesOfBatches:
    """The reader behind a plain streaming file source."""

    def __init__(self, frame: DataFrame) -> None:
        self._format: str | None = None
        self._options: tuple[tuple[str, str], ...] = ()
        self._schema = frame.schema.json()
        try:
            self._learn(frame)
        except (Py4JError, AttributeError) as error:
            decision("stream.files_unknown", error=error)
            self._format = None

    def _learn(self, frame: DataFrame) -> None:
        plan: Any = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "StreamingRelation":
            return
        source = plan.dataSource()
        jvm: Any = frame.sparkSession.sparkContext._jvm
        options = getattr(jvm, "scala.jdk.javaapi.CollectionConverters").asJava(source.options())
        if source.partitionColumns().isEmpty() and "cleansource" not in {k.lower() for k in options}:
            self._options = tuple((k, v) for k, v in options.items() if k.lower() not in _STREAMING)
            self._format = source.className()

    def of(self, batch: DataFrame) -> Files | None:
        """The files of a batch; None if it is not known to be just these."""
        if self._format is None:
            return None
        try:
            sizes = _files(batch)
        except (Py4JError, AttributeError) as error:
            decision("batch.files_unknown", error=error)
            sizes = None
        if not sizes or any(c in path for path in sizes for c in "[]{}*?=,"):
            return None
        return Files(self._format, self._options, self._schema, tuple(sizes), sum(sizes.values()))


def _files(batch: DataFrame) -> dict[str, int] | None:
    """The files that a batch scans, whole, with their sizes; asked of the partitions of its rows.

    Rows that only pass through functions keep the partitions of their scan; a shuffle, a union or a coalesce has
    partitions of its own.
    """
    left: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for partition in batch._jdf.queryExecution().logical().rdd().partitions():
        if partition.getClass().getSimpleName() != "FilePartition":
            return None
        for piece in partition.files():
            path = piece.filePath().toPath().toString()
            sizes[path] = piece.fileSize()
            left[path] = left.get(path, sizes[path]) - piece.length()
            if len(sizes) > MOST_FILES:
                return None
    # All pieces of a file must be there: their lengths add up to its size.
    return sizes if not any(left.values()) else None
