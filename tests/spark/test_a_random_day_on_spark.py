"""A random day on Spark: live streams and replays; queries fail, stop and come back; sessions end anywhere.

At every step each query's results equal a recomputation over what was its to see, its status tells the truth, its
figures have all their keys, and nothing takes long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from tests.kit.expected_windows import NEVER, Expected

pytestmark = pytest.mark.spark

SLACK, PAST_SLACK, LENGTHS, LIVE = 4, 10, (5, 10, 20), ("a", "b")
#: Seconds that a call may take which has no rows to work on, on a machine that others use too.
QUICK = 20


@dataclass
class Asked:
    """A query, and what it should give."""

    name: str
    stream: str
    length: int
    expected: Expected
    rows: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    broken: bool = False
    played: bool = False
    run: sw.Run | None = None

    def sink(self, df: DataFrame, commit: int) -> None:
        if self.broken:
            raise OSError("broken")
        self.rows[commit] = df.select("window_start", "n", "kind").toArrow().to_pylist()

    def check(self) -> None:
        final = [r for rows in self.rows.values() for r in rows if r["kind"] == "final"]
        got = {r["window_start"]: r["n"] for r in final}
        assert len(got) == len(final), f"{self.name}: a window came twice"
        assert got.items() <= self.expected.closed.items(), self.name


class Day:
    """One run; every choice comes from a seed."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark, self.folder, self.random = spark, folder, Random(seed)
        self.asked: dict[str, Asked] = {}
        """Queries that should be active, by name."""
        self.aside: dict[str, Asked] = {}
        """Queries that the journal keeps."""
        self.over: list[Asked] = []
        self.names = 0
        self.unread: dict[str, list[list[int]]] = {s: [] for s in LIVE}
        self.files = dict.fromkeys(LIVE, 0)
        self.highest, self.beats = dict.fromkeys(LIVE, 0), dict.fromkeys(LIVE, NEVER)
        self.top = dict.fromkeys(LIVE, NEVER)
        """The largest time that was read."""
        for stream in LIVE:
            (folder / stream).mkdir()
        self.past = [self.random.randint(0, 60) for _ in range(30)]
        self.open()

    def open(self) -> None:
        self.streams: dict[str, sw.Stream] = {}
        self.session = sw.Session(self.spark, journal=self.folder / "journal")
        for stream in LIVE:
            reader = self.spark.readStream.schema("t BIGINT").option("maxFilesPerTrigger", 1)
            df = reader.parquet(str(self.folder / stream))
            self.streams[stream] = self.session.stream(stream, df, time="t", disorder=sw.bounded(SLACK))
        rows = pl.DataFrame({"t": self.past, "at": self.past}).with_columns(
            pl.from_epoch("at", "s").dt.replace_time_zone("UTC")
        )
        past = self.spark.createDataFrame(rows.to_arrow())
        self.streams["past"] = self.session.stream(
            "past", past, time="t", arrival="at", disorder=sw.bounded(PAST_SLACK), page="10 seconds"
        )
        for query in self.asked.values():
            self.begin(query)

    def begin(self, query: Asked) -> None:
        counted = self.streams[query.stream].window(query.length, slide=5).agg(n="count(*)")
        query.run = counted.start(query.sink, name=query.name, hold=True)

    def quickly(self, call: Callable[[], object]) -> None:
        started = time.monotonic()
        call()
        assert time.monotonic() - started < QUICK

    # --- what can happen

    def start(self) -> None:
        self.names += 1
        stream, length = self.random.choice([*LIVE, *LIVE, "past"]), self.random.choice(LENGTHS)
        self.over += [self.aside.pop(q.name) for q in list(self.aside.values()) if q.stream == stream != "past"]
        query = Asked(f"q{self.names}", stream, length, Expected(length))
        self.asked[query.name] = query
        self.quickly(lambda: self.begin(query))
        assert query.run is not None and query.run.status == "waiting"

    def file(self) -> None:
        stream = self.random.choice(LIVE)
        low = max(0, self.highest[stream] - SLACK + 1)
        ticks = [self.random.randint(low, self.highest[stream] + 9) for _ in range(self.random.randint(1, 4))]
        self.highest[stream] = max(self.highest[stream], *ticks)
        self.unread[stream].append(ticks)
        self.files[stream] += 1
        path = self.folder / stream / f".{self.files[stream]}"
        pl.DataFrame({"t": ticks}).write_parquet(path)
        path.rename(path.with_name(f"{self.files[stream]:04d}.parquet"))

    def work(self) -> None:
        if self.asked:
            self.run(drain=self.random.random() < 0.5)

    def run(self, drain: bool) -> None:
        broken = any(query.broken for query in self.asked.values())
        for stream in LIVE:
            self.read(stream, drain)
        for query in [q for q in self.asked.values() if q.stream == "past"]:
            if not query.played:
                query.expected.page(self.past, max(self.past) - PAST_SLACK)
                query.played = True
            query.expected.pass_to(-NEVER if drain else NEVER)
        try:
            self.session.run_available(drain)
        except sw.RunError as error:
            assert "broken" in str(error) and broken
        self.sort_out()

    def read(self, stream: str, drain: bool) -> None:
        mine = [q for q in self.asked.values() if q.stream == stream]
        if not mine:
            return
        for ticks in self.unread[stream]:
            self.top[stream] = max(self.top[stream], *ticks)
            self.beats[stream] = max(self.beats[stream], self.top[stream] - SLACK)
            for query in mine:
                query.expected.page(ticks, self.beats[stream])
        self.unread[stream] = []
        if drain and self.top[stream] > NEVER:
            before = self.beats[stream]
            self.beats[stream] = max(before, self.top[stream] + max(q.length for q in mine))
            for query in mine:
                # A query without rows is not told again what it has missed.
                if self.beats[stream] > before or query.expected.open:
                    query.expected.pass_to(self.beats[stream])

    def sort_out(self) -> None:
        for query in list(self.asked.values()):
            run = query.run
            assert run is not None
            if not run.active:
                del self.asked[query.name]
                assert query.broken and run.status == "failed" and "broken" in str(run.exception())
                (self.aside.__setitem__(query.name, query) if run._resumable else self.over.append(query))
            else:
                assert run.status in (("finished", "waiting") if query.stream == "past" else ("waiting",))
            assert {"heartbeat", "rows", "operators", "late_rows", "queued"} <= set(run.metrics())

    def fail(self) -> None:
        if self.asked:
            self.random.choice(list(self.asked.values())).broken = True

    def prod(self) -> None:
        if self.asked:
            query = self.random.choice(list(self.asked.values()))
            assert query.run is not None
            self.quickly(query.run.prod)
            self.sort_out()

    def stop(self) -> None:
        if self.asked:
            query = self.asked.pop(self.random.choice(list(self.asked)))
            assert query.run is not None
            keys = set(query.run.metrics())
            self.quickly(query.run.stop)
            assert query.run.status == "stopped" and set(query.run.metrics()) == keys
            (self.aside.__setitem__(query.name, query) if query.run._resumable else self.over.append(query))

    def restart(self) -> None:
        self.quickly(self.session.stop)
        assert all(q.run is not None and q.run.status == "stopped" for q in self.asked.values())
        self.asked |= self.aside
        self.aside = {}
        for query in self.asked.values():
            query.broken = False
        self.open()

    def live(self, steps: int) -> None:
        acts = [self.start, *[self.file] * 3, *[self.work] * 3, self.prod, self.fail, self.stop, self.restart]
        try:
            for _ in range(steps):
                self.random.choice(acts)()
                for query in (*self.asked.values(), *self.aside.values(), *self.over):
                    query.check()
            self.restart()
            self.start()
            self.run(drain=True)
            for query in self.asked.values():
                query.check()
                assert not query.expected.open
        finally:
            self.session.stop()


@pytest.mark.parametrize("seed", [2, pytest.param(1, marks=pytest.mark.long)])
def test_a_random_day_on_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    Day(spark, tmp_path, seed).live(30)
