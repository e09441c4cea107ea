"""The embedded Spark session, and the settings that pages run under on any session."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_QUIET = Path(__file__).with_name("log4j2.properties")
#: Variables from which Java or Spark's launcher take options.
_READ_BY_JAVA = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

#: What pages run under, whatever the user has set; docs/rooms/spark.md says what each is worth.
PAGE_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A row that does not fit must not end the stream: a bad cast is null, not an exception.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # Files that pyarrow reads, and files beside those that it has written. INT96 wraps around after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
#: All other settings of this name are Spark's own; but the committer goes with the file system.
_PARQUET, _COMMITTER = "spark.sql.parquet.", "spark.sql.parquet.output.committer.class"

#: The same, but only for sessions that are ours alone: a user's own jobs keep Spark's defaults.
_OUR_SETTINGS = {
    # Room for the partials of many queries; Spark's 16 bits send the rest through its slow hash map.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "18",
    # With one task there are no partial aggregates: all rows would go through the slow hash map.
    "spark.sql.codegen.aggregate.map.twolevel.partialOnly": "false",
    # By default a file counts as 4 MB longer than it is. So Spark cuts it behind its middle, and one core waits.
    "spark.sql.files.openCostInBytes": str(256 * 1024),
    # Rows fall into few time cells: a file open for each spares the sort by cell.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # A join reads some dozens of files, which are known: to list them needs no job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}

#: Classes that PySpark asks Java for with every expression, list of columns, table of Arrow and exception.
_CLASSES = (
    *(["functions"], ["PythonUtils"], ["PythonSQLUtils"], ["PythonErrorUtils"]),
    *(["org.apache.spark.sql.functions"], ["org.apache.spark.sql.api.python.PythonSQLUtils"]),
    *(["org.apache.spark.sql.classic.SparkSession"], ["org.apache.spark.sql.classic.Dataset"]),
    *(["org.apache.spark.sql.Observation"], ["org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin"]),
    ["py4j", "reflection", "TypeUtil"],
)


def embedded(master: str = "local[*]", driver_memory: str = "2g") -> SparkSession:
    """A local Spark session with defaults for streams; the running one or spark-submit's, if there is one."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java, with its master and settings
        with own_interrupts():
            return SparkSession.builder.getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName("slackwater")
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.maxResultSize", "256m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", java_options(os.environ))
        .config("spark.sql.streaming.stopTimeout", "60s")
        # Else PySpark asks Java some ten things more for every column: where the program was when it made it.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
    )
    for key, value in PAGE_SETTINGS.items():
        builder = builder.config(key, value)
    with own_interrupts():
        spark = builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    return spark


def java_options(environment: Mapping[str, str]) -> str:
    """What Java is started with: quiet logs, and the collector of garbage that suits pages.

    Java's default, G1, marks beside the work, on cores that the work needs: without it a row takes 18 to 32 % less
    processor time. Two collectors would keep Java from starting, so one that the environment names stays.

    >>> java_options({}).split()[1:]
    ['-XX:+UseParallelGC']
    >>> java_options({"JAVA_TOOL_OPTIONS": "-Xss4m -XX:+UseZGC"}).split()[1:]
    []
    """
    named = " ".join(environment.get(name, "") for name in _READ_BY_JAVA)
    collector = [] if re.search(r"-XX:\+Use\w+GC\b", named) else ["-XX:+UseParallelGC"]
    return " ".join([f"-Dlog4j2.configurationFile={_QUIET.as_uri()}", *collector])


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Ctrl-C stays as it was: PySpark's handler would cancel the jobs of all queries, and so end them."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def tune_for_pages(spark: SparkSession) -> None:
    """Set what pages run under, on a session that nobody else uses."""
    for key in spark.conf.getAll:
        if key.startswith(_PARQUET) and key != _COMMITTER:
            spark.conf.unset(key)
    for key, value in {**PAGE_SETTINGS, **_OUR_SETTINGS}.items():
        spark.conf.set(key, value)
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)


def private_copy(spark: SparkSession) -> SparkSession:
    """A session with the same functions, views and settings, so that ours do not touch the user's."""
    _keep_classes(spark)
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    tune_for_pages(copy)
    return copy


def _keep_classes(spark: SparkSession) -> None:
    """Have Python remember them: Java looks anew each time, and for a short name or a package in all its jars."""
    for path in _CLASSES:
        place: Any = spark.sparkContext._jvm
        for name in path:
            if name not in vars(place):
                setattr(place, name, getattr(place, name))
            place = vars(place)[name]


def moved_to(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The same rows in another session: what is added to them, and where they are written, goes by its settings.

    What the user wrote keeps its meaning, such as texts that were read as timestamps of the user's time zone.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    plan = frame._jdf.queryExecution().analyzed()
    # By its whole name: else Java would look for each part of it, in all jars.
    rows = getattr(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)
