"""A streaming DataFrame over files: through ingest, executor, panes and sink, against Spark's own batch answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.engine.loop import Loop
from slackwater.operators.backend import Folded
from slackwater.operators.page import Page
from slackwater.plan.nodes import StreamNode
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.backend.locations.files import Files
from slackwater.spark.backend.one_task import SideBySide
from slackwater.spark.backend.scan import by_reference
from slackwater.spark.backend.work import PageJobs
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.kernel import PaneKernel
from tests.kit.windows import window_of

pytestmark = pytest.mark.spark

SCHEMA = "t TIMESTAMP, k STRING, v DOUBLE"


def write_files(folder: Path, files: int = 4, rows: int = 50, start: int = -90) -> pl.DataFrame:
    """Disordered rows around 1970 with null groups, null values and rows without a time."""
    parts = []
    for f in range(files):
        seconds = [start + f * 40 + (i * 17) % 60 for i in range(rows)]
        parts.append(
            pl.DataFrame(
                {
                    "t": pl.Series([None if i % 25 == 3 else s * 1_000_000 for i, s in enumerate(seconds)]).cast(
                        pl.Datetime("us", "UTC")
                    ),
                    "k": [None if i % 7 == 0 else f"k{i % 3}" for i in range(rows)],
                    "v": [None if i % 5 == 0 else float(i) for i in range(rows)],
                }
            )
        )
        parts[-1].write_parquet(folder / f"{f}.parquet")
        os.utime(folder / f"{f}.parquet", (1_000_000 + f, 1_000_000 + f))  # Spark takes files by their age
    return pl.concat(parts)


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda r: (str(r["window_start"]), str(r["k"])))


def batch_answer(spark: SparkSession, folder: Path, window: str) -> list[dict[str, object]]:
    spark.read.schema(SCHEMA).parquet(str(folder)).createOrReplaceTempView("rows")
    return (
        spark.sql(
            f"""SELECT k, count(*) AS n, sum(v) AS total, avg(v) AS mean, max(v) AS top, stddev(v) AS sd,
                   window.start AS window_start, window.end AS window_end
            FROM rows GROUP BY window(t, {window}), k"""
        )
        .toArrow()
        .to_pylist()
    )


AGGREGATES = {"n": "count(*)", "total": "sum(v)", "mean": "avg(v)", "top": "max(v)", "sd": "stddev(v)"}


@pytest.mark.parametrize(
    ("window", "sql"),
    [
        ({"range": "20 seconds", "slide": "20 seconds"}, "'20 seconds'"),
        pytest.param(
            {"range": "30 seconds", "slide": "10 seconds"}, "'30 seconds', '10 seconds'", marks=pytest.mark.long
        ),
        ({"range": "7 seconds", "slide": "3 seconds"}, "'7 seconds', '3 seconds'"),
        (
            {"range": "20 seconds", "slide": "5 seconds", "offset": "2 seconds"},
            "'20 seconds', '5 seconds', '2 seconds'",
        ),
    ],
)
def test_final_results_equal_sparks_batch_answer(
    spark: SparkSession, tmp_path: Path, window: dict[str, str], sql: str
) -> None:
    write_files(tmp_path)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, tmp_path), time="t", disorder=sw.bounded("2 minutes"))
        run = window_of(rows, **window).group_by("k").agg(**AGGREGATES).start(hold=True)
        s.run_available()
        got = run.results()
        metrics = run.metrics()
    assert set(got["kind"].to_pylist()) == {"final"}
    wanted = in_order(batch_answer(spark, tmp_path, sql))
    mine = in_order(got.drop_columns(["kind", "emitted_at", "completeness"]).to_pylist())
    assert len(mine) == len(wanted)
    for a, b in zip(mine, wanted, strict=True):
        assert {k: v if k != "sd" else v and pytest.approx(v) for k, v in b.items()} == a
    assert metrics["rows"] == 200
    assert metrics["missing_time"] == 8
    assert metrics["late_rows"] == 0
    # One a page, and a glance at the times of the second, for people.
    assert metrics["spark_jobs"] == metrics["pages"] + 1 == 5


def test_results_come_before_the_end_and_one_job_a_page(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, files=6)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, tmp_path), time="t", disorder=sw.bounded("1 minute"))
        run = rows.where("v >= 0").window("20 seconds").group_by("k").agg(n="count(*)").start(hold=True)
        s.run_available(drain=False)
        before = run.results().num_rows
        assert run.metrics()["spark_jobs"] == run.metrics()["pages"] + 1 == 7  # with the glance
        s.run_available(drain=True)
        assert 0 < before < run.results().num_rows


def test_where_does_not_keep_rows_from_moving_time(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, tmp_path), time="t", disorder=sw.bounded("10 seconds"))
        run = rows.where("1 = 0").window("20 seconds").agg(n="count(*)").start(hold=True)
        s.run_available(drain=False)
        assert run.metrics()["heartbeat"] == "1970-01-01 00:01:18.999999"
        assert run.metrics()["rows"] == 200
        assert run.results().num_rows == 0


def test_select_renames_and_computes(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, tmp_path), time="t", disorder=sw.bounded("2 minutes"))
        query = rows.select("upper(k) AS key", double="v * 2").window("1 hour", offset="30 minutes")
        run = query.group_by("key").agg(total="sum(double)", n="count(double)").start(hold=True)
        s.run_available()
        totals = {r["key"]: (r["total"], r["n"]) for r in run.results().to_pylist()}
    frame = pl.read_parquet(tmp_path / "*.parquet").filter(pl.col("t").is_not_null())
    for key, total, n in frame.group_by("k").agg(pl.col("v").sum() * 2, pl.col("v").count().alias("n")).iter_rows():
        assert totals[None if key is None else key.upper()] == (total, n)


def test_two_queries_share_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, tmp_path), time="t", disorder=sw.bounded("2 minutes"))
        one = rows.window("1 day").agg(n="count(*)").start(hold=True)
        two = rows.where("k = 'k1'").window("1 day").agg(n="count(*)").start(hold=True)
        s.run_available()
        assert sum(one.results()["n"].to_pylist()) == 192
        expected = pl.read_parquet(tmp_path / "*.parquet").filter((pl.col("k") == "k1") & pl.col("t").is_not_null())
        assert sum(two.results()["n"].to_pylist()) == expected.height
        assert one.metrics()["pages"] == 4
        assert s._running.readers._ingests["rows"].columns == {"t", "k"}


def worked_off(s: sw.Session) -> None:
    """Wait until Spark has handed over all there is, and it has been worked on."""
    s._running.readers._ingests["rows"].query.processAllAvailable()  # type: ignore[union-attr]
    s._running.loop.call(lambda: None)


def test_a_running_query_takes_files_that_come_later(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_files(folder, files=2)
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("rows", read_stream(spark, folder), time="t", disorder=sw.bounded("0 seconds"))
        run = rows.window("20 seconds").agg(n="count(*)").start()
        worked_off(s)
        first = run.metrics()["rows"]
        write_files(tmp_path / "in", files=3)
        worked_off(s)
        assert (first, run.metrics()["rows"]) == (100, 150)
        run.stop()
        assert not s._running.readers._ingests


def test_integer_time_and_unparsable_time(spark: SparkSession, tmp_path: Path) -> None:
    pl.DataFrame({"seq": ["1", "x", "12", None, "30"]}).write_parquet(tmp_path / "a.parquet")
    with sw.Session(spark, batch_pages=False) as s:
        df = spark.readStream.schema("seq STRING").parquet(str(tmp_path))
        late: list[list[str | None]] = []
        orders = s.stream("orders", df, time="try_cast(seq AS BIGINT)", disorder=sw.bounded(0))
        run = (
            orders.window(10)
            .agg(n="count(*)")
            .start(late=lambda rows, _: late.append([r.seq for r in rows.collect()]), hold=True)
        )
        s.run_available()
        got = [(r["window_start"], r["n"]) for r in run.results().to_pylist()]
        assert got == [(0, 1), (10, 1), (30, 1)]
        assert run.metrics()["missing_time"] == 2
    assert [sorted(page, key=str) for page in late] == [[None, "x"]]


def work_when_all_wait(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """A session that is paused goes on when so many pages have come."""
    offered, offer = list[str](), Loop.offer

    def let_in(self: Loop, source: str, page: Page) -> Any:
        safe = offer(self, source, page)
        offered.append(source)
        if len(offered) == pages:
            self.set_paused(False)
        return safe

    monkeypatch.setattr(Loop, "offer", let_in)


@pytest.mark.parametrize("filtered", [False, True])
def test_pages_taken_together_are_worked_on_side_by_side(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filtered: bool
) -> None:
    source, side_by_side, run = tmp_path / "source", list[int](), SideBySide.run

    def spy(self: SideBySide, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        side_by_side.append(len(jobs))
        return run(self, jobs)

    monkeypatch.setattr(SideBySide, "run", spy)
    work_when_all_wait(monkeypatch, 12)
    monkeypatch.setattr(TaskLayout, "SMALL", 10)
    source.mkdir()
    write_files(source, files=12)
    with sw.Session(spark) as s:
        rows = s.stream("rows", read_stream(spark, source), time="t", disorder=sw.bounded("2 hours"))
        kept = rows.where("k <> 'k1'").select("k", v="v + 1") if filtered else rows
        windows = kept.window("30 seconds", slide="10 seconds").group_by("k").agg(n="count(*)", total="sum(v)")
        got = windows.start(hold=True)
        s.pause()  # until all of them wait
        s.run_available(drain=True)
        found = got.results().select(["k", "n", "total", "window_start"]).to_pylist()
        assert got.metrics()["late_rows"] == 0
    assert max(side_by_side) >= 2
    spark.read.schema(SCHEMA).parquet(str(source)).createOrReplaceTempView("rows")
    value, keep = ("v + 1", "k <> 'k1'") if filtered else ("v", "true")
    expected = spark.sql(
        f"""SELECT k, count(*) AS n, sum({value}) AS total, window.start AS window_start FROM rows
        WHERE {keep} GROUP BY window(t, '30 seconds', '10 seconds'), k"""
    )
    assert in_order(found) == in_order(expected.toArrow().to_pylist())


@pytest.mark.parametrize("most", [1, 2**20])
def test_no_more_pages_are_taken_than_have_room_for_what_they_come_down_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    source, folds, fold = tmp_path / "source", list[int](), PageJobs.fold

    def spy(self: PageJobs, kernel: PaneKernel) -> Folded:
        folds.append(self.files)
        return fold(self, kernel)

    monkeypatch.setattr(PageJobs, "fold", spy)
    monkeypatch.setattr("slackwater.spark.backend.backend._MOST_PARTIALS", most)
    work_when_all_wait(monkeypatch, 8)
    source.mkdir()
    rows_in_files = write_files(source, files=8)
    with sw.Session(spark) as s:
        rows = s.stream("rows", read_stream(spark, source), time="t", disorder=sw.bounded("2 hours"))
        got = rows.window("30 seconds").group_by("k").agg(n="count(*)").start(hold=True)
        s.pause()  # until all of them wait
        s.run_available(drain=True)
        assert sum(got.results()["n"].to_pylist()) == rows_in_files["t"].is_not_null().sum()
    assert sum(folds) == 8
    assert (max(folds) == 1) == (most == 1)


def with_task(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, and the task that has them."""
    task = TaskContext.get()
    assert task is not None
    here = f"{task.taskAttemptId()}"
    return pa.RecordBatch.from_pydict({**rows.to_pydict(), "task": [here] * rows.num_rows})


def test_a_map_of_pages_taken_together_has_a_task_for_each_core(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    rows_in_files = write_files(source, files=11)
    work_when_all_wait(monkeypatch, 11)
    with sw.Session(spark) as s:
        rows = s.stream("rows", read_stream(spark, source), time="t", disorder=sw.bounded("2 hours"))
        mapped = rows.map(with_task, schema="k STRING, v DOUBLE, task STRING")
        got = mapped.window("1 hour").group_by("task").agg(n="count(*)").start(hold=True)
        s.pause()  # until all of them wait
        s.run_available(drain=True)
        results, pages = got.results(), got.metrics()["mapped_pages"]
    assert sum(results["n"].to_pylist()) == rows_in_files["t"].is_not_null().sum()
    tasks = len(set(results["task"].to_pylist()))
    # The first page is taken alone, and is one file; then come four and six.
    assert pages < 11 and tasks == 1 + 2 * (pages - 1)


def test_pages_are_taken_together_as_long_as_what_they_come_down_to_fits(
    spark: SparkSession, tmp_path: Path
) -> None:
    backend = SparkBackend(spark, StorageDir.of(tmp_path))
    node = StreamNode("rows", (), "t", "t", TimeDomain.SEQUENCE, sw.bounded(5))
    schema = spark.createDataFrame([], "t BIGINT").schema.json()

    def page(number: int) -> Page:
        return by_reference(Files("parquet", (), schema, (f"{number}",), 1), node, number, 0, "x", ["*"])

    group = [page(number) for number in range(4)]
    whole = backend.merge(group)
    assert whole is not None and whole.origin == group[-1].origin
    most, layout = backend._most_partials, backend.work(whole).shape
    layout.folded(files=2, size=most / 2)
    assert backend.merge(group) == whole  # four quarters
    layout.folded(files=2, size=most)
    assert backend.merge(group) is None and backend.merge(group[:2]) is not None
