"""The results of each window in order, the first of them, and OVER, on Spark: as Spark's batch queries say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark

SHOP = (
    "SELECT shop, sum(price) AS revenue, count(*) AS n FROM sales [RANGE 60 SECONDS, SLIDE 60 SECONDS] "
    "GROUP BY shop"
)


@pytest.fixture
def sales(spark: SparkSession, tmp_path: Path) -> str:
    """Rows of ten minutes, some of them 20 seconds late, with many equal revenues."""
    source = np.random.default_rng(3)
    rows = 2_000
    at = np.arange(rows) * 300_000
    pl.DataFrame(
        {
            "t": (at - source.integers(0, 20, rows) * 1_000_000).astype("datetime64[us]"),
            "at": at.astype("datetime64[us]"),
            "shop": source.integers(0, 12, rows),
            "price": source.integers(1, 4, rows),
        }
    ).write_parquet(tmp_path / "sales.parquet")
    spark.read.parquet(str(tmp_path / "sales.parquet")).createOrReplaceTempView("sales_table")
    return str(tmp_path / "sales.parquet")


def session(spark: SparkSession, sales: str, source: str | None = None, **settings: Any) -> sw.Session:
    s = sw.Session(spark=spark, **settings)
    s.stream(
        "sales",
        spark.read.parquet(sales),
        time="t",
        arrival="at",
        page="30 seconds",
        source=source,
        disorder=sw.bounded("20 seconds"),
    )
    return s


def batch(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    """What Spark says of the windows as a table `w`."""
    spark.sql(
        "SELECT window(t, '60 seconds').start AS window_start, shop, sum(price) AS revenue, count(*) AS n "
        "FROM sales_table GROUP BY window(t, '60 seconds'), shop"
    ).createOrReplaceTempView("w")
    return [tuple(row) for row in spark.sql(query).collect()]


TOP = (
    "SELECT {start}, shop, revenue FROM (SELECT *, row_number() OVER (PARTITION BY window_start "
    "ORDER BY revenue DESC, shop, n) AS r FROM w) WHERE r <= 3 ORDER BY window_start, r"
).format(start="unix_seconds(window_start)")


def final(run: Any, *columns: str) -> list[tuple[Any, ...]]:
    table = pl.DataFrame(run.results()).filter(pl.col("kind") == "final")
    return table.select(pl.col("window_start").dt.epoch("s"), *columns).rows()


@pytest.mark.parametrize("source", [None, "shop"])
def test_the_top_of_each_window_in_python_and_sql(spark: SparkSession, sales: str, source: str | None) -> None:
    with session(spark, sales, source) as s:
        shops = s.sql(SHOP)
        queries = [
            shops.top(3, by="revenue"),
            shops.top(3, by=F.col("revenue")),
            shops.orderBy(F.desc("revenue"), F.asc("shop")).limit(3),
            s.sql(f"{SHOP} ORDER BY sum(price) DESC, 1 + shop LIMIT 3"),
            s.sql(f"{SHOP} QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY revenue DESC, shop) <= 3"),
            s.sql(shops.top(3, by="revenue").to_sql()),
        ]
        runs = [query.start() for query in queries]
        s.run_available(drain=True)
        wanted = batch(spark, TOP)
        found = [final(run, "shop", "revenue") for run in runs]
        assert wanted and found[:4] == [wanted] * 4 and found[5] == wanted
        assert sorted(found[4]) == sorted(wanted)


CALLS = {
    "rank": "rank() OVER (PARTITION BY window_start ORDER BY revenue DESC)",
    "share": "round(revenue / sum(revenue) OVER (PARTITION BY window_start), 6)",
    "ntile": "ntile(4) OVER (PARTITION BY window_start ORDER BY revenue, shop)",
    "running": "sum(n) OVER (PARTITION BY window_start ORDER BY revenue, shop ROWS 2 PRECEDING)",
    "lag": "revenue - lag(revenue, 2, 0) OVER (PARTITION BY window_start ORDER BY revenue DESC, shop)",
}


def test_over_the_results_of_each_window(spark: SparkSession, sales: str) -> None:
    with session(spark, sales) as s:
        by_rank = F.rank().over(Window.partitionBy("window_start").orderBy(F.desc("revenue")))
        run = s.sql(SHOP).select("shop", "revenue", **CALLS, column=by_rank).start()
        best = s.sql(SHOP).where(f"{CALLS['rank']} = 1").select("shop").start()
        s.run_available(drain=True)
        columns = ", ".join(CALLS.values())
        wanted = batch(
            spark, f"SELECT unix_seconds(window_start), shop, revenue, {columns}, {CALLS['rank']} FROM w"
        )
        assert sorted(final(run, "shop", "revenue", *CALLS, "column")) == sorted(wanted)
        first = {row[:2] for row in wanted if row[-1] == 1}
        assert set(final(best, "shop")) == first


def test_early_tops_are_replaced_by_the_final_one(spark: SparkSession, sales: str) -> None:
    commits: list[list[tuple[Any, ...]]] = []

    def keep(rows: DataFrame, commit_id: int) -> None:
        commits.append([tuple(row) for row in rows.select("kind", "window_start", "revenue").collect()])

    with session(spark, sales) as s:
        run = s.sql(SHOP).top(2, by="revenue").start(early=sw.early(every="10 seconds"))
        s.sql(SHOP).top(2, by="revenue").start(sink=keep, early=sw.early(every="10 seconds"))
        with pytest.raises(QueryError, match="needs all of them; leave where= out"):
            run.prod(where="shop = 1")
        s.run_available(drain=True)
        assert run.metrics()["early_results"] > 10
        # Other shops may have been on top early on: their rows went when those of the window came anew.
        assert set(run.results()["kind"].to_pylist()) == {"final"}
    early = [rows for rows in commits if rows and rows[0][0] == "early"]
    assert early
    for rows in commits:
        for window in {row[1] for row in rows}:
            revenues = [revenue for _, start, revenue in rows if start == window]
            assert len(revenues) <= 2 and revenues == sorted(revenues, reverse=True)


def test_spilled_windows_are_sorted_in_files(spark: SparkSession, sales: str, tmp_path: Path) -> None:
    with session(spark, sales, resident_limit=0) as s:
        run = s.sql(SHOP).top(3, by="revenue").start(sink=str(tmp_path / "out"))
        s.run_available(drain=True)
        assert run.metrics()["windows"] > 5
    got = pl.read_parquet(tmp_path / "out" / "*.parquet")
    assert sorted(got.select(pl.col("window_start").dt.epoch("s"), "shop", "revenue").rows()) == sorted(
        batch(spark, TOP)
    )


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda q: q.select(r=F.rank().over(Window.orderBy("n"))), "write OVER .PARTITION BY window_start"),
        (lambda q: q.top(0, by="n"), r"limit\(0\)"),
        (lambda q: q.top(3, by="m"), "no column 'm'"),
        (lambda q: q.order_by(), "needs a column"),
    ],
)
def test_mistakes_say_what_to_write(
    spark: SparkSession, sales: str, write: Callable[[Any], Any], words: str
) -> None:
    with session(spark, sales) as s, pytest.raises(QueryError, match=words):
        write(s.sql(SHOP))
