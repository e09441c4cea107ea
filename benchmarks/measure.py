"""How both sides are measured: Spark's own progress reports, job numbers and memory pools."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery


@dataclass
class Figures:
    """What one run of one side gave."""

    batches: int
    rows: int
    whole_seconds: float
    """From `start()` to the end, by the clock."""
    jobs: int = 0
    heap_peak: int = 0
    old_peak: int = 0
    cpu_seconds: float | None = None
    """Processor time of Python and Java for the whole run."""
    other_cores: float | None = None
    """How many cores other processes kept busy meanwhile."""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def whole_rows_per_second(self) -> float:
        """Throughput, with start and end included."""
        return self.rows / self.whole_seconds

    @property
    def whole_ms(self) -> float:
        """Milliseconds a page."""
        return 1e3 * self.whole_seconds / self.batches

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {**self.__dict__, "rows_per_second": self.whole_rows_per_second}


def read_progress(query: StreamingQuery, seconds: float) -> Figures:
    """Figures of a query that has ended and took so long. Batches without rows are not counted."""
    batches = [r for r in _reports(query) if r["numInputRows"] > 0]
    if not batches:
        raise RuntimeError("the query has processed no batch")
    return Figures(len(batches), sum(r["numInputRows"] for r in batches), seconds)


def _reports(query: StreamingQuery) -> list[dict[str, Any]]:
    # As text, because the classes of the reports differ from one version of Spark to the next.
    return [json.loads(str(report.json)) if hasattr(report, "json") else report for report in query.recentProgress]


class Meter:
    """Counts Spark jobs and processor time and watches the heap between `start` and `stop`."""

    def __init__(self, spark: SparkSession) -> None:
        self._scheduler: Any = spark.sparkContext._jsc.sc().dagScheduler()
        self._jvm: Any = spark.sparkContext._jvm
        self._clock = Clock(self._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getPid())
        self._jobs = 0
        self._before = Instant()

    def start(self) -> None:
        """Begin from a clean heap."""
        self._jvm.java.lang.System.gc()
        for pool in self._heap():
            pool.resetPeakUsage()
        self._jobs = self._scheduler.numTotalJobs()
        self._before = self._clock.read()

    def stop(self, figures: Figures) -> Figures:
        """Add the figures of this run. The sum of the pools' peaks is an upper bound: they need not coincide."""
        now = self._clock.read()
        if now.mine is not None and self._before.mine is not None:
            figures.cpu_seconds = now.mine - self._before.mine
        if figures.cpu_seconds is not None and now.all is not None and self._before.all is not None:
            others = now.all - self._before.all - figures.cpu_seconds
            figures.other_cores = max(0.0, others) / (now.wall - self._before.wall)
        figures.jobs = self._scheduler.numTotalJobs() - self._jobs
        peaks = {pool.getName(): pool.getPeakUsage().getUsed() for pool in self._heap()}
        figures.heap_peak = sum(peaks.values())
        figures.old_peak = sum(used for name, used in peaks.items() if "Old" in name)
        return figures

    def _heap(self) -> Iterable[Any]:
        beans = self._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        return [bean for bean in beans if bean.getType().toString() == "Heap memory"]


@dataclass(frozen=True)
class Instant:
    """Processor seconds of this bench (Python and Java) and of the whole machine; None where it cannot be told."""

    wall: float = 0.0
    mine: float | None = None
    all: float | None = None


class Clock:
    """Reads processor time where there is a /proc."""

    def __init__(self, java: int) -> None:
        self._java = Path(f"/proc/{java}/stat")
        self._tick = os.sysconf("SC_CLK_TCK")

    def read(self) -> Instant:
        """Now."""
        wall = time.monotonic()
        try:
            java = self._java.read_text().rpartition(")")[2].split()
            # user, nice, system, idle, iowait, irq, softirq, steal
            machine = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return Instant(wall)
        mine = (int(java[11]) + int(java[12])) / self._tick + time.process_time()
        return Instant(wall, mine, (sum(machine) - machine[3] - machine[4]) / self._tick)


def python_peak() -> int:
    """Largest resident size of this Python process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
