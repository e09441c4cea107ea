"""The pages of a burst for `chain_on_spark.py`, and what is noted while they are worked on."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "t TIMESTAMP, k BIGINT, payload STRING"
START = datetime(2024, 1, 1, tzinfo=UTC)
#: Rows of a page, and those that are left of them for the slow function.
ROWS = 20_000
KEPT = ROWS // 5
#: Seconds between two pages of the burst.
EVERY = 1.0
#: Pages before the burst, and how many times as far apart they are.
CALM, SLOWER = 3, 2
_TIME = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class Burst:
    """Pages that come slowly, then fast."""

    folder: Path
    seconds: float

    @property
    def instants(self) -> list[float]:
        """When each page comes, in seconds from the first."""
        calm = [n * SLOWER * EVERY for n in range(CALM)]
        return [*calm, *(CALM * SLOWER * EVERY + n * EVERY for n in range(round(self.seconds / EVERY)))]

    @property
    def pages(self) -> int:
        """Of the burst."""
        return round(self.seconds / EVERY)

    @property
    def begins(self) -> float:
        """In seconds from the first page."""
        return CALM * SLOWER * EVERY

    @property
    def ends(self) -> float:
        """In seconds from the first page."""
        return self.begins + self.seconds

    def calm(self) -> Burst:
        """What comes before the burst, alone."""
        return Burst(self.folder / "calm", 0.0)

    def page(self, number: int) -> pl.DataFrame:
        """The rows of a page; all have its time."""
        random = np.random.default_rng(number)
        at = START + timedelta(seconds=self.instants[number])
        texts = random.integers(0, 2**63, (ROWS, 6)).astype("U20")
        rows = {"k": random.integers(0, 1_000, ROWS), "payload": ["".join(row) for row in texts]}
        return pl.DataFrame(rows).select(pl.lit(at).cast(_TIME).alias("t"), "k", "payload")

    @cached_property
    def page_bytes(self) -> int:
        """Of the rows in memory."""
        return self.page(0).with_columns(rows_arrival="t").to_arrow().nbytes

    def frame(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows of a stream, to be replayed: `rows`, or `others` with each fifth key once in each page."""
        file = self.folder / f"{name}.parquet"
        if not file.exists():
            self.folder.mkdir(exist_ok=True)
            numbers = range(len(self.instants))
            made = [self.page(n) if name == "rows" else self._other(n) for n in numbers]
            pl.concat(made).with_columns(pl.first().alias(f"{name}_arrival")).write_parquet(file)
        return spark.read.parquet(str(file))

    def _other(self, number: int) -> pl.DataFrame:
        at = START + timedelta(seconds=self.instants[number])
        return pl.DataFrame({"o": range(0, 1_000, 5)}).select(pl.lit(at).cast(_TIME).alias("u"), "o")


@dataclass
class StrategyOutcome:
    """One strategy in one setting."""

    times: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    lag: float = 0.0
    """Seconds that the oldest page had been there, at the most."""
    seconds: float = 0.0
    results: int = 0
    memory: int = 0
    """The most bytes of waiting pages that were in Spark's memory on purpose."""
    heap: int | None = None
    """Bytes of live objects in Java at the end of the burst, more than before."""
    chains: list[list[str]] = field(default_factory=list)

    def note(self, now: float, held: int, lag: float) -> None:
        """So much waits, and the oldest page came so many seconds ago."""
        self.times.append(now)
        self.held.append(held)
        self.lag = max(self.lag, lag)

    @property
    def peak(self) -> int:
        """The most bytes that waited."""
        return max(self.held, default=0)

    @property
    def mean(self) -> float:
        """Over time."""
        if len(self.times) < 2:
            return 0.0
        return float(np.dot(self.held[:-1], np.diff(self.times)) / (self.times[-1] - self.times[0]))

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        kept = {name: value for name, value in self.__dict__.items() if name not in ("times", "held")}
        return {"peak": self.peak, "mean": self.mean, **kept}


def after_collection(spark: SparkSession) -> int:
    """Bytes of live objects in Java, after Python and Java have let go of what nobody needs."""
    gc.collect()
    jvm: Any = spark.sparkContext._jvm
    for _ in range(2):  # after the first one Spark lets blocks go
        jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory
    return int(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def at_rest(spark: SparkSession) -> int:
    """The same when nothing runs: Spark takes its time to clean up behind a session."""
    now, before = after_collection(spark), 1 << 62
    while before - now > 2**20:
        time.sleep(0.5)
        now, before = after_collection(spark), now
    return now
