"""One Spark session a worker, for the tests that need one; and who of several workers does what."""

from __future__ import annotations

import gc
import os
import tempfile

from tests.kit import java_archive

# Frames of tests are tiny: handing them between threads takes longer than the work. Set before polars is loaded.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# Java's second compiler takes a third of Spark's processor time at first, and makes up for it too late: without it
# seven files took an eighth less in all, the first ones 40 % less, some of the last ones more. Nor is there a core
# to spare for garbage beside the work: collected in turn, two files took 90 seconds of processor instead of 96.
# With one compiler Java has room for 48 MB of compiled code. A session of three files fills that, and from then on
# Java throws code away and compiles it again, which took ten seconds there: so it gets the room that two compilers
# would have. It also has room for the classes of all jobs before it first looks for garbage among them. Spark takes
# 4 MB for whatever it sends to tasks, and pages that are larger still: small ones will do here.
# Spark writes Java for whole stages of a plan and has it compiled, which takes longer than the few rows of a test:
# without it two files took 94 seconds of processor instead of 127. Tests whose plans must be right with it, as
# users have it, ask for it (`whole_stages`). Expressions are compiled everywhere.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=384m -Xmn600m "
    "-Dspark.broadcast.blockSize=256k -Dspark.buffer.pageSize=4m -Dspark.sql.codegen.wholeStage=false"
    f"{java_archive.options()}",
)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")
# Hypothesis plays scenarios with a journal in a temporary folder each, and a disk would have to know of every file:
# one file of such tests took 78 seconds instead of 128. `tmp_path` stays where it is: pytest keeps those folders.
if os.access("/dev/shm", os.W_OK):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = "/dev/shm"

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from slackwater.spark.storage.embedded import embedded

# How long an example takes says more about the machine than about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

_HERE = Path(__file__).parent
#: Files with tests that use the session.
_SPARK = {
    str(p.relative_to(_HERE.parent)) for p in _HERE.rglob("test_*.py") if "spark: SparkSession" in p.read_text()
}
#: Their tests take longest, the first ones in processes of their own: others must not wait for them in the end.
_LONGEST = {
    "tests/spark/test_recovery.py",
    "tests/spark/test_small_heap.py",
    "tests/windows/test_new_sources.py",
    "tests/estimates/test_early_kinds.py",
    "tests/estimates/test_early_limits.py",
    "tests/estimates/test_estimates.py",
    "tests/estimates/test_prod_timing.py",
}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """The first worker begins with the files that use Spark, the others with the rest.

    Who has done his part helps with the other: a second session pays if much of Spark's part is left. Large files
    go first, so that nobody has to wait long for the last one.
    """

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

        def _assign_work_unit(self, node: WorkerController) -> None:
            spark = node is self.nodes[0]

            def order(file: str) -> tuple[bool, bool, int]:
                return (file in _SPARK) != spark, file not in _LONGEST, -(_HERE.parent / file).stat().st_size

            self.workqueue.move_to_end(min(self.workqueue, key=order), last=False)
            super()._assign_work_unit(node)

    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: Python need not look for cycles in it, nor so often among what tests make."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = embedded("local[2]")
    yield session
    session.stop()


@pytest.fixture
def whole_stages(spark: SparkSession) -> Iterator[None]:
    """Spark writes Java for whole stages of the plans in this test."""
    name = "spark.sql.codegen.wholeStage"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    yield
    spark.conf.set(name, before)
