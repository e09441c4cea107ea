"""A history, then the live stream: each row counts once, wherever the seam is and whenever the program ends."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError, RunError, SqlError

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = "n LONG, t TIMESTAMP, came TIMESTAMP, k STRING, v LONG"
WIDTH = 60


def some_rows(count: int, seed: int) -> pl.DataFrame:
    """A row every ten seconds, up to a minute out of order."""
    source = random.Random(seed)
    return pl.DataFrame(
        [
            {
                "n": n,
                "t": START + timedelta(seconds=10 * n - source.randrange(60)),
                "came": START + timedelta(seconds=10 * n),
                "k": source.choice("abc"),
                "v": n,
            }
            for n in range(count)
        ],
        schema_overrides={"t": pl.Datetime("us", "UTC"), "came": pl.Datetime("us", "UTC")},
    )


def recomputed(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    windows: dict[tuple[datetime, str], list[int]] = {}
    for row in rows.iter_rows(named=True):
        start = START + timedelta(seconds=(row["t"] - START).total_seconds() // WIDTH * WIDTH)
        windows.setdefault((start, row["k"]), []).append(row["v"])
    return sorted((start, k, len(values), sum(values)) for (start, k), values in windows.items())


def answers(out: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(out.glob("part-*.parquet"))])


def found(out: Path) -> list[tuple[Any, ...]]:
    return sorted(answers(out).select("window_start", "k", "n", "total").rows())


def put(folder: Path, rows: pl.DataFrame, name: str) -> None:
    folder.mkdir(exist_ok=True)
    rows.write_parquet(folder / f"{name}.parquet")


class Kill(Exception):
    """The program ends here."""


def live(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def life(
    spark: SparkSession, root: Path, die_after: int | None = None, drain: bool = False, seam: str | None = "n"
) -> dict[str, Any]:
    """One run of the program over what there is; `die_after` says after which page of the history it ends."""
    pages = 0

    def count(page: dict[str, Any]) -> None:
        nonlocal pages
        pages += 1
        if pages == die_after:
            raise Kill

    history = spark.read.schema(SCHEMA).parquet(str(root / "past"))
    with sw.Session(spark, journal=root / "journal") as s:
        stream = s.stream(
            "rows",
            live(spark, root / "new"),
            time="t",
            disorder=sw.bounded("70 seconds"),
            history=history,
            arrival="came",
            seam=seam,
            page="5 minutes",
        )
        run = stream.window(f"{WIDTH} seconds").group_by("k").agg(n="count(*)", total="sum(v)")
        run = run.start(sink=root / "out", name="q", hold=True)
        try:
            s.run_available(drain=drain, progress=count)
        except Kill:
            return {}
        return dict(run.metrics())


@pytest.mark.parametrize("seam", ["n", None])
def test_each_row_counts_once_over_restarts_in_the_history_and_behind_it(
    spark: SparkSession, tmp_path: Path, seam: str | None
) -> None:
    rows = some_rows(360, seed=1)
    put(tmp_path / "past", rows[:200], "0")
    for number, begin in enumerate(range(120, 300, 60)):  # the live stream has some of the history, too
        put(tmp_path / "new", rows[begin : begin + 60], str(number))
    assert life(spark, tmp_path, die_after=2, seam=seam) == {}
    assert life(spark, tmp_path, die_after=1, seam=seam) == {}
    # The store of the past grows meanwhile; what it gets now comes live.
    put(tmp_path / "past", rows[200:260], "1")
    figures = life(spark, tmp_path, seam=seam)
    assert figures["late_rows"] == 0
    put(tmp_path / "new", rows[300:], "9")
    figures = life(spark, tmp_path, drain=True, seam=seam)
    assert figures["late_rows"] == 0
    assert found(tmp_path / "out") == recomputed(rows)
    # Answers of the history have the time of its rows; those behind it have the wall clock's.
    end = rows[199]["came"].item()
    out = answers(tmp_path / "out").with_columns(past=pl.col("emitted_at") <= end + timedelta(minutes=5))
    assert out.filter("past")["window_end"].max() <= end
    assert out.filter(~pl.col("past"))["emitted_at"].min() > datetime(2026, 3, 2, tzinfo=UTC)
    assert out.filter("past").height > 60 and out.filter(~pl.col("past")).height > 60


def test_started_without_hold_the_history_plays_in_the_background_and_a_new_query_is_filled_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = some_rows(240, seed=2)
    put(tmp_path / "past", rows[:150], "0")
    put(tmp_path / "new", rows[150:], "0")
    history = spark.read.schema(SCHEMA).parquet(str(tmp_path / "past"))
    with sw.Session(spark) as s:
        how: dict[str, Any] = {
            "time": "t",
            "disorder": sw.bounded("70 seconds"),
            "arrival": "came",
            "page": "5 minutes",
        }
        stream = s.stream("rows", live(spark, tmp_path / "new"), history=history, **how)
        query = stream.window(f"{WIDTH} seconds").group_by("k")
        first = query.agg(n="count(*)", total="sum(v)").start()
        s.run_available()
        second = query.agg(n="count(*)", total="sum(v)").start(hold=True)
        s.run_available()
        for run in (first, second):
            table = pl.from_arrow(run.results())
            assert isinstance(table, pl.DataFrame)
            assert sorted(table.select("window_start", "k", "n", "total").rows()) == recomputed(rows)
        other = s.stream("other", live(spark, tmp_path / "new"), time="t", disorder=sw.bounded("70 seconds"))
        with pytest.raises(RunError, match="streams with a history and streams without one"):
            stream.union(other).window("1 minute").agg(n="count(*)").start()


def test_what_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "new", some_rows(3, seed=3), "0")
    past, new = spark.read.parquet(str(tmp_path / "new")), live(spark, tmp_path / "new")
    with sw.Session(spark) as s:
        for match, df, how in (
            ("is no static DataFrame", new, {"history": new, "arrival": "came"}),
            ("history= needs a streaming DataFrame", past, {"history": past, "arrival": "came"}),
            ("needs the column 'k' of type string", new, {"history": past.drop("k"), "arrival": "came"}),
            ("say in which order the history is replayed", new, {"history": past}),
            ("seam= is for a stream with history=", new, {"seam": "n"}),
            ("seam='k' is of type string", new, {"history": past, "arrival": "came", "seam": "k"}),
        ):
            with pytest.raises(QueryError, match=match):
                s.stream("x", df, time="t", disorder=sw.bounded("1 second"), **how)


def test_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    rows = some_rows(120, seed=4)
    put(tmp_path / "past", rows[:70], "0")
    put(tmp_path / "new", rows[40:], "0")
    text = f"""
        CREATE TABLE archive FROM 'parquet' OPTIONS (path = '{tmp_path / "past"}');
        CREATE STREAM rows ({SCHEMA}) FROM 'parquet' OPTIONS (path = '{tmp_path / "new"}')
          TIME t DISORDER BOUNDED 70 SECONDS HISTORY archive BY came SEAM n PAGE 5 MINUTES;
        SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows [RANGE {WIDTH} SECONDS, SLIDE {WIDTH} SECONDS] GROUP BY k
    """
    with sw.Session(spark) as s:
        run = s.sql(text).start(hold=True)
        s.run_available()
        table = pl.from_arrow(run.results())
        assert isinstance(table, pl.DataFrame)
        assert sorted(table.select("window_start", "k", "n", "total").rows()) == recomputed(rows)
    with sw.Session(spark) as s, pytest.raises(SqlError, match="there is no table 'archive'; there are none"):
        s.sql(text[text.index("CREATE STREAM") :])
