"""Answers that late rows correct, on Spark: resident and spilled, over a restart, in a folder and a keyed table."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark

FILES = 5
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "middle": "median(v)",
    "money": "sum(CAST(v AS DECIMAL(12, 3)))",
    "distinct": "approx_count_distinct(v)",
    "low": "approx_percentile(v, 0)",
}


def write_pages(folder: Path) -> pl.DataFrame:
    source, pages = np.random.default_rng(5), []
    folder.mkdir()
    for n in range(FILES):
        t = n * 40 + source.integers(-60, 40, 120)
        page = pl.DataFrame(
            {"t": t, "k": source.integers(0, 4, 120), "v": source.integers(0, 9, 120).astype(float)}
        )
        page = page.with_columns(pl.when(pl.col("k") > 0).then("k"))
        pages.append(page)
    last = pl.DataFrame({"t": [1_000] * 4, "k": [None, 1, 2, 3], "v": [0.0] * 4}, schema=pages[0].schema)
    pages.append(pl.DataFrame({"t": [3, 1_001], "k": [3, 1], "v": [5.0, 1.0]}, schema=pages[0].schema))
    pages.insert(FILES, last)
    for n, page in enumerate(pages):
        page.write_parquet(folder / f"{n}.parquet")
        os.utime(folder / f"{n}.parquet", (1_000_000 + n, 1_000_000 + n))
    return pl.concat(pages)


def expected(rows: pl.DataFrame, range: int, slide: int) -> dict[Any, Any]:
    """All windows, of all rows."""
    starts = pl.int_ranges((pl.col("t") - range) // slide + 1, pl.col("t") // slide + 1) * slide
    laid = rows.with_columns(start=starts).explode("start")
    v, money = pl.col("v"), pl.col("v").sum().cast(pl.Decimal(38, 3))
    found = laid.group_by("k", "start").agg(
        n=pl.len(), total=v.sum(), middle=v.median(), money=money, distinct=v.n_unique(), low=v.min()
    )
    return {(r["k"], r["start"]): answer(r) for r in found.to_dicts()}


def answer(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in AGGREGATES)


def stands(told: list[dict[str, Any]]) -> dict[Any, Any]:
    """What stands after all rows that were told, each of which names the commit that it replaces."""
    now: dict[Any, dict[str, Any]] = {}
    for row in sorted(told, key=lambda row: row["commit"]):
        key = (row["k"], row["window_start"])
        before = now.get(key)
        assert row["replaces"] == (None if before is None else before["commit"])
        now[key] = row
    return {key: answer(row) for key, row in now.items()}


def query(s: sw.Session, spark: SparkSession, folder: Path, source: str | None) -> sw.Query:
    df = spark.readStream.schema("t BIGINT, k BIGINT, v DOUBLE").option("maxFilesPerTrigger", 1)
    rows = s.stream("rows", df.parquet(str(folder)), time="t", source=source, disorder=sw.bounded(10))
    return rows.window(70, slide=30).group_by("k").agg(**AGGREGATES)


@pytest.mark.parametrize(("limit", "store"), [(2**28, "resident"), (0, "spilled")])
@pytest.mark.parametrize("source", [None, "k"])
def test_late_rows_correct_answers(
    spark: SparkSession, tmp_path: Path, limit: int, store: str, source: str | None
) -> None:
    rows = write_pages(tmp_path / "all")
    (tmp_path / "in").mkdir()
    told: list[dict[str, Any]] = []

    def take(frame: DataFrame, commit_id: int) -> None:
        mine = pl.DataFrame(frame.toArrow()).to_dicts()
        assert {row["commit"] for row in mine} == {commit_id}
        told.extend(mine)

    for life, files in enumerate((range(3), range(3, FILES + 2))):
        for n in files:
            os.link(tmp_path / "all" / f"{n}.parquet", tmp_path / "in" / f"{n}.parquet")
        with (
            warnings.catch_warnings(),
            sw.Session(spark, journal=tmp_path / "journal", resident_limit=limit, batch_pages=False) as s,
        ):
            warnings.simplefilter("error", sw.QueryWarning)
            made = query(s, spark, tmp_path / "in", source)
            sinks = [
                take,
                tmp_path / "out",
                sw.sinks.delta(tmp_path / "delta", key=("k", "window_start", "window_end")),
            ]
            run = made.start(sinks, name="q", hold=True, corrections=1_000_000)
            s.run_available()
            figures = run.metrics()
            assert figures["store"] == store
            if life:
                assert figures["lost_pairs"] == figures["late_rows"] == 0
                assert figures["corrected_results"] == sum(row["kind"] == "corrected" for row in told) > 20
    wanted = expected(rows, 70, 30)
    assert stands(told) == wanted
    in_folder = pl.concat([pl.read_parquet(f) for f in sorted((tmp_path / "out").glob("part-*.parquet"))])
    assert stands(in_folder.to_dicts()) == wanted
    in_table = pl.DataFrame(DeltaTable(tmp_path / "delta").to_pyarrow_table()).to_dicts()
    assert {(r["k"], r["window_start"]): answer(r) for r in in_table} == wanted


def test_sql_says_it_and_text_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    write_pages(tmp_path / "in")
    with sw.Session(spark, batch_pages=False) as s:
        query(s, spark, tmp_path / "in", None)
        text = (
            "SELECT k, count(*) AS n FROM rows [RANGE 70, SLIDE 30] GROUP BY k HAVING count(*) < 30 CORRECTIONS 500"
        )
        q = s.sql(text)
        assert "corrections for 500" in q.explain()
        assert q.to_sql().endswith("CORRECTIONS 500")
        assert s.sql(q.to_sql()).describe() == q.describe()
        run = q.start(hold=True)
        s.run_available()
        kinds = pl.DataFrame(run.results())["kind"].unique().sort().to_list()
        assert kinds == ["corrected", "final", "withdrawn"]
        with pytest.raises(QueryError, match="CORRECTIONS where the query starts"):
            s.sql(f"CREATE VIEW w AS {text}")
        with pytest.raises(QueryError, match="corrections= with ordered=True"):
            s.sql("SELECT count(*) AS n FROM rows [RANGE 70, SLIDE 30]").start(ordered=True, corrections=5)
