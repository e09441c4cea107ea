"""Places on the journal's file system: where Spark and pyarrow both read and write."""

from __future__ import annotations

import os
import tempfile
import uuid
from dataclasses import dataclass
from typing import Any

from pyarrow import fs
from pyspark.sql import SparkSession

from slackwater.engine.build import source_label
from slackwater.engine.journal import Record
from slackwater.errors import SlackwaterError
from slackwater.operators.element import Staged

#: Folder of the rows of replays, in the order of their arrival.
SORTED = "sorted"
#: Folder of the pages that are safe before they are taken; see `Spool`.
SPOOL = "spool"


@dataclass(frozen=True)
class Place:
    """A folder, for pyarrow (file system and path) and for Spark (an address)."""

    files: fs.FileSystem
    path: str
    address: str

    @staticmethod
    def of(where: str | os.PathLike[str]) -> Place:
        """A local path or an address that pyarrow knows (s3://…, hdfs://…, gs://…)."""
        text = os.fspath(where)
        if "://" in text:
            try:
                files, path = fs.FileSystem.from_uri(text)
            except (ValueError, OSError) as error:
                raise SlackwaterError(f"no file system for {text!r}: {error}") from error
            return Place(files, path.rstrip("/"), text.rstrip("/"))
        path = os.path.abspath(text)
        return Place(fs.LocalFileSystem(), path, f"file://{path}")

    @staticmethod
    def temporary() -> Place:
        """A new folder of this machine."""
        return Place.of(tempfile.mkdtemp(prefix="slackwater-"))

    def child(self, name: str) -> Place:
        """A folder inside."""
        return Place(self.files, f"{self.path}/{name}", f"{self.address}/{name}")

    @property
    def local(self) -> bool:
        """Whether it is on this machine's own file system."""
        return isinstance(self.files, fs.LocalFileSystem)

    def delete(self) -> None:
        """Delete the folder, if it is there."""
        if self.files.get_file_info(self.path).type == fs.FileType.Directory:
            self.files.delete_dir(self.path)

    def names(self) -> list[str]:
        """What lies inside; nothing if there is no such folder."""
        found = self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)


class SparkPages:
    """Saved pages, found again as Spark pages."""

    def __init__(self, spark: SparkSession, root: Place) -> None:
        self.spark = spark
        self.root = root
        self.jobs = 0
        self.spark_seconds = 0.0

    def spent(self, seconds: float) -> None:
        """Count a Spark job that was run for a page or a window."""
        self.jobs += 1
        self.spark_seconds += seconds

    def new(self, kind: str) -> Place:
        """A place for one page or one set of rows."""
        return self.root.child(f"{kind}/{uuid.uuid4().hex}")

    def load(self, saved: dict[str, Any]) -> Any:
        """The page that `SparkPage.save` spoke of."""
        from slackwater.spark.page import SparkPage

        return SparkPage.load(self, saved)

    def drop(self, saved: dict[str, Any]) -> None:
        """Delete its rows."""
        self.root.child(saved["folder"]).delete()

    def drop_staged(self, payload: Staged) -> None:
        """Delete rows that a sink has taken."""
        self.root.child(payload.location).delete()

    def sweep(self, record: Record | None) -> None:
        """Delete what a crash has left and the last record does not speak of."""
        keep: set[str] = set()
        if record is not None:
            keep |= {e["page"]["folder"] for entries in record.queues.values() for e in entries if "page" in e}
            keep |= {e.payload.location for e in record.emissions if isinstance(e.payload, Staged)}
        left = [f"{kind}/{name}" for kind in ("pages", "staged", SORTED) for name in self.root.child(kind).names()]
        for stream in self.root.child(SPOOL).names():
            # What the spool holds behind the last page that was taken is still to come.
            taken = record.consumed.get(source_label(stream), -1) if record is not None else -1
            numbers = self.root.child(f"{SPOOL}/{stream}").names()
            left += [f"{SPOOL}/{stream}/{number}" for number in numbers if int(number) <= taken]
        for name in left:
            if name not in keep:
                self.root.child(name).delete()
