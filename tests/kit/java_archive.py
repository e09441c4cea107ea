"""The classes that Java loads for Spark, in an archive that Java maps into memory instead.

A Java that starts Spark and runs one job takes 3.8 seconds of processor with it, and 7.8 without. `make test`
writes the archive once for each version of Spark and Java, and starts some twenty Javas: two for the workers of the
tests, the others in tests of processes that die. Without an archive the same tests run, a little longer.

    python -m tests.kit.java_archive
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]
#: A program that uses what most tests use: files in and out, windows, a join, prods, and state in files.
PROGRAM = """
import sys
import slackwater as sw
from slackwater.spark.storage.embedded import embedded

folder, spark = sys.argv[1], embedded("local[2]")
rows = spark.range(300).selectExpr("timestamp_seconds(id) AS t", "id % 3 AS k", "id AS v", "string(id) AS s")
rows.repartition(2).write.parquet(f"{folder}/in")
with sw.Session(spark, journal=f"{folder}/journal", resident_limit=0) as s:
    files = spark.readStream.schema(rows.schema).parquet(f"{folder}/in")
    stream = s.stream("rows", files, time="t", disorder=sw.bounded("5 seconds"))
    stream.window("1 minute", slide="30 seconds").group_by("k").agg(
        n="count(*)", v="avg(v)", m="max(s)", d="count(DISTINCT v)"
    ).start(f"{folder}/out", name="files", early=sw.early(at=0.5))
    other = stream.select("k AS j", "v AS w")
    stream.join(other, on="k = j", within="5 seconds").where("v < 9").start(name="pairs")
    s.run_available(drain=True)
spark.stop()
"""


def archive() -> Path:
    """Where the archive for this Spark and this Java lies."""
    java = shutil.which("java", path=f"{os.environ['JAVA_HOME']}/bin" if "JAVA_HOME" in os.environ else None)
    changed = "" if java is None else Path(java).resolve().stat().st_mtime_ns
    version = blake2b(f"{pyspark.__version__} {pyspark.__file__} {java} {changed}".encode(), digest_size=6)
    return ROOT / "build" / f"java-{version.hexdigest()}.jsa"


def options() -> str:
    """What Java is started with to use the archive, if there is one."""
    path = archive()
    usable = path.exists() and " " not in str(path)
    return f" -XX:SharedArchiveFile={path} -Xlog:disable -Xlog:all=error:stderr" if usable else ""


def write() -> None:
    """Write the archive, unless it is there. Where Java cannot, say so: the tests run without it."""
    path = archive()
    if path.exists() or " " in str(path):
        return
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={part} -Xlog:disable"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": java, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode or not part.exists():
        print(f"no archive of Java's classes was written:\n{done.stderr[-2000:]}", file=sys.stderr)
    else:
        part.replace(path)


if __name__ == "__main__":
    write()
