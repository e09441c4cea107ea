"""Storage that the driver and Spark's workers share: on a cluster a session proves it before it begins.

What a worker writes to a folder of its own machine the driver never sees, and nothing raises an error.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.errors import RunError
from slackwater.spark.storage.spark_errors import briefly
from slackwater.spark.storage.storage_dir import StorageDir

Folder = str | os.PathLike[str] | None
#: Has some tasks write a row each to a place.
Write = Callable[[StorageDir, int], None]


def is_local(master: str) -> bool:
    """Whether Spark's workers are threads of the driver.

    >>> [is_local(master) for master in ("local", "local[2]", "local-cluster[2,1,1024]", "spark://host:7077")]
    [True, True, False, False]
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def shared_place(spark: SparkSession, journal: Folder, storage: Folder) -> StorageDir | None:
    """The folder that a user gave for what Spark writes; None if there is none, and a temporary one will do."""
    master, tasks = str(spark.sparkContext.master), spark.sparkContext.defaultParallelism
    name, folder = ("journal", journal) if storage is None else ("storage", storage)
    if folder is None:
        if is_local(master):
            return None
        raise RunError(
            f"Spark's master is {master!r}, and this session has no storage that the driver and the workers share: "
            "write sw.Session(storage=…), or journal=…, with a folder that all machines see, as in "
            "storage='hdfs://host/slackwater' or a path that is mounted everywhere"
        )
    place = StorageDir.of(folder)
    check_connector(spark, place)
    if not is_local(master):
        prove_shared(place, f"{name}={os.fspath(folder)!r}", master, tasks, lambda *where: _write(spark, *where))
    return place


def check_connector(spark: SparkSession, place: StorageDir) -> None:
    """Refuse an address for which Spark has no library: S3's does not come with it."""
    scheme, jvm = place.address.partition("://")[0], spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, spark.sparkContext._jsc.hadoopConfiguration()
        )
    except Py4JError as error:
        library = f"org.apache.hadoop:hadoop-aws:{jvm.org.apache.hadoop.util.VersionInfo.getVersion()}"
        what = f"start it with --packages {library}" if scheme == "s3a" else "add its library to Spark"
        endpoint = ", and set spark.hadoop.fs.s3a.endpoint where it is not Amazon's" if scheme == "s3a" else ""
        raise RunError(
            f"Spark cannot read or write {place.address!r}: it has no library for {scheme}://; {what}{endpoint}"
        ) from error


def prove_shared(place: StorageDir, given: str, master: str, tasks: int, write: Write) -> None:
    """Have the workers write to a place, and refuse it if the driver does not see all of it."""
    proof = place.child(f"proof-{uuid.uuid4().hex}")
    try:
        write(proof, tasks)
        seen = _rows(proof)
    except (PySparkException, Py4JError) as error:
        raise _refusal(given, master, f"the workers cannot write there ({briefly(error)})") from error
    finally:
        proof.delete()
    if seen != tasks:
        raise _refusal(given, master, f"of {tasks} files that the workers wrote there, the driver sees {seen}")


def _write(spark: SparkSession, place: StorageDir, tasks: int) -> None:
    spark.range(0, tasks, 1, tasks).write.parquet(place.address)


def _rows(place: StorageDir) -> int:
    files = [f"{place.path}/{name}" for name in place.names() if name.endswith(".parquet")]
    return sum(pq.read_metadata(file, filesystem=place.files).num_rows for file in files)


def _refusal(given: str, master: str, why: str) -> RunError:
    return RunError(
        f"{given} is not a folder that the driver and Spark's workers share: {why}. Spark's master is {master!r}; "
        "write storage= with a folder that is mounted on all machines, or an address such as 'hdfs://host/slackwater'"
    )
