"""On Spark: what `tune` foretells is what a replay does, and Spark reduces rows to what polars makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions
from typer.testing import CliRunner

import slackwater as sw
from slackwater.cli import app
from slackwater.progress.disorder import Disorder
from slackwater.progress.policies import in_python
from slackwater.tune.report import PolicyTrial, Report

pytestmark = pytest.mark.spark

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOWS, PAGE = ("40 seconds", "20 seconds"), "10 seconds"


def rows(n: int = 500) -> pl.DataFrame:
    """Five minutes of three devices: one is slow, rows come late, some have no time, and there is a pause."""
    rng = np.random.default_rng(7)
    arrival = np.sort(rng.uniform(0, 300, n))
    arrival = arrival[(arrival < 200) | (arrival > 245)]
    device = rng.integers(0, 3, len(arrival))
    late = rng.exponential(6, len(arrival)) * (rng.random(len(arrival)) < 0.4) + 25 * (device == 2)
    sent = [
        None if rng.random() < 0.02 else NOON + timedelta(seconds=s) for s in (arrival - late).round(3).tolist()
    ]
    received = [NOON + timedelta(seconds=s) for s in arrival.round(3).tolist()]
    return pl.DataFrame({"sent": sent, "received": received, "device": [f"d{d}" for d in device]})


def settings() -> dict[str, object]:
    names = {"time": "sent", "arrival": "received", "source": "device"}
    return {**names, "windows": WINDOWS, "page": PAGE, "delays": ["12 seconds"], "targets": [0.05]}


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> Report:
    return sw.tune(spark.createDataFrame(rows().to_arrow()), **settings())  # type: ignore[arg-type]


def test_spark_reduces_rows_as_polars_does(report: Report) -> None:
    here = sw.tune(rows(), **settings()).as_dict()  # type: ignore[arg-type]
    assert report.as_dict() == here | {"lost_by_line": report.lost}, "rows one by one are looked at here only"


def policy(tried: PolicyTrial) -> Disorder:
    return eval(in_python(tried.policy), {"sw": sw})


def answers(table: pa.Table) -> list[float]:
    """The waits of windows, but for those that end in the last tenth of the time."""
    ends, given = (table[c].cast("int64").to_numpy() / 1e6 for c in ("window_end", "emitted_at"))
    first, last = ((NOON + timedelta(seconds=s)).timestamp() for s in (10, 300))
    return [g - e for e, g in zip(ends, given, strict=True) if e <= last - (last - first) / 10]


def start(stream: sw.Stream, tried: PolicyTrial) -> sw.Run:
    window = stream.window(*WINDOWS, disorder=policy(tried))
    grouped = window.group_by("device") if tried.by_source else window
    return grouped.agg(n="count(*)").start()


def test_a_replay_does_what_was_foretold(spark: SparkSession, report: Report) -> None:
    df = spark.createDataFrame(rows().to_arrow())
    with sw.Session(spark) as s:

        def stream(name: str) -> sw.Stream:
            names = {"time": "sent", "arrival": "received", "source": "device"}
            return s.stream(name, df, **names, page=PAGE, disorder=sw.bounded("1 hour"))  # type: ignore[arg-type]

        # Queries of one stream share its jobs, so that a page's arrival may be learned before all have reported. So
        # policies that go by reports have a stream of their own.
        others, runs = stream("others"), list[sw.Run]()
        written = [tried for tried in report.tried if not tried.policy.startswith("rival: ")]
        for n, tried in enumerate(written):
            hears = tried.policy.startswith(("drop_ratio", "disorder_control"))
            runs.append(start(stream(f"s{n}") if hears else others, tried))
        s.run_available()
        for tried, run in zip(written, runs, strict=True):
            metrics, figures, waits = run.metrics(), tried.figures, answers(run.results())
            name = tried.policy, tried.by_source
            assert (metrics["late_rows"], metrics["lost_pairs"]) == (figures.lost_rows, figures.lost_pairs), name
            assert metrics["lost_share"] == pytest.approx(figures.lost_share), name
            assert run.results().num_rows == figures.answers, name
            assert np.mean(waits) == pytest.approx(figures.wait_mean), name
            assert np.quantile(waits, (0.95, 0.99)) == pytest.approx((figures.wait_p95, figures.wait_p99)), name
    assert any(tried.figures.lost_rows for tried in report.tried)
    assert {tried.by_source for tried in report.tried} == {False, True}


def lost_by_native(spark: SparkSession, pages: list[pl.DataFrame], delay: str, folder: Path) -> int:
    """The (row, window) pairs that are in no answer of `withWatermark`, where each page is a micro-batch."""
    folder.mkdir()
    schema = spark.createDataFrame(pages[0].to_arrow()).schema
    stream = spark.readStream.schema(schema).parquet(str(folder)).withWatermark("sent", delay)
    counts = stream.groupBy(functions.window("sent", *WINDOWS)).count()
    table = f"native_{folder.name}"
    running = counts.writeStream.format("memory").queryName(table).outputMode("append").start()
    far = pages[0].head(1).with_columns(pl.lit(NOON + timedelta(days=1)).cast(pages[0]["sent"].dtype).alias("sent"))
    try:
        for n, page in enumerate([*pages, far]):  # the last one closes all windows
            page.write_parquet(folder / f"_{n}.parquet")  # not seen before it is whole
            (folder / f"_{n}.parquet").rename(folder / f"{n}.parquet")
            running.processAllAvailable()
    finally:
        running.stop()
    (kept,) = spark.table(table).groupBy().sum("count").collect()[0]
    return sum(2 * page["sent"].count() for page in pages) - int(kept)


def test_native_spark_loses_what_was_foretold(spark: SparkSession, tmp_path: Path) -> None:
    given = rows()
    report = sw.tune(given, time="sent", arrival="received", windows=WINDOWS, page="30 seconds", targets=[0.05])
    (fixed,) = report.fixed
    pages = given.group_by(pl.col("received").dt.truncate("30s"), maintain_order=True)
    found = lost_by_native(spark, [page for _, page in pages], fixed.native, tmp_path / "five_percent")
    assert found == fixed.figures.lost_pairs > 0


def test_what_spark_cannot_take_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows(20).to_arrow())
    with pytest.raises(sw.QueryError, match=r"no column 'snet' \(did you mean 'sent'\?\)"):
        sw.tune(df, time="snet", arrival="received")
    with pytest.raises(
        sw.QueryError, match="counts in sequences; a back-test needs a timestamp, as in time='timesta"
    ):
        sw.tune(df, time="unix_millis(sent)", arrival="received")
    with pytest.raises(sw.QueryError, match="is a stream; a back-test needs rows that have arrived"):
        sw.tune(spark.readStream.format("rate").load(), time="timestamp", arrival="timestamp")


def test_the_command_lets_spark_read(spark: SparkSession, tmp_path: Path) -> None:
    file = str(tmp_path / "rows.parquet")
    rows(100).write_parquet(file)
    columns = ["--time", "sent", "--arrival", "received", "--target", "0.05", "--page", PAGE, "--json", "-"]
    by_spark, here = (CliRunner().invoke(app, ["tune", file, *columns, *more]) for more in (["--spark"], []))
    assert by_spark.exit_code == 0, by_spark.output
    read, known = (json.loads(result.stdout) for result in (by_spark, here))
    assert read == known | {"lost_by_line": read["lost_by_line"]}
    missing = CliRunner().invoke(app, ["tune", f"{file}s", "--spark", *columns])
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "cannot be read as parquet: [PATH_NOT_FOUND]" in missing.stderr
