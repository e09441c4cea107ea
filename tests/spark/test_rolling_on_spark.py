"""Windows of a row on Spark: the same as on in-process pages, on any attribute, and as Spark's own OVER says."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.operators.backend import PartialsTooLarge
from slackwater.spark.backend.work import PageJobs
from slackwater.spark.state import spilled_records
from tests.kit.windows import window_of
from tests.spark.test_both_page_kinds import ALL, Scenario, comparable, on_arrow, on_spark, scattered

pytestmark = pytest.mark.spark

PLAIN = {n: text for n, text in ALL.items() if not text.startswith("approx")}
SCENARIOS = {
    "range": scattered(1, {"range": 9}, aggregates=PLAIN),
    "rows": scattered(2, {"rows": 4}, aggregates=PLAIN),
    "rows with a slide": scattered(3, {"rows": 4, "slide": 3}, aggregates=PLAIN),
    "rows with a slide, spilled": scattered(10, {"rows": 5, "slide": 2}, resident_limit=0, aggregates=PLAIN),
    "no groups": scattered(4, {"range": 20}, group_by=(), aggregates=PLAIN),
    "filtered": scattered(5, {"rows": 3}, where="v > 0 OR k = 'a'", aggregates=PLAIN),
    "projected": scattered(6, {"range": 6}, select={"k": "k", "v": "v * 2", "t": "t + 1"}, aggregates=PLAIN),
    "only rows without a time": Scenario([[(None, "a", 1.0, None)]], {"range": 10}, aggregates=PLAIN),
    "by source": scattered(7, {"range": 9}, punctuated=True, source="k", aggregates=PLAIN),
    "by source, last rows": scattered(8, {"rows": 3}, slack=2, source="k", where="v > 0", aggregates=PLAIN),
    "by source, spilled": scattered(
        9, {"range": 9}, slack=40, source="k", resident_limit=0, where="v > 0 OR k = 'a'", aggregates=PLAIN
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    rows, late, figures = on_arrow(SCENARIOS[name])
    spark_rows, spark_late, spark_figures = on_spark(spark, SCENARIOS[name])
    assert comparable(spark_rows) == comparable(rows)
    assert comparable(spark_late) == comparable(late)
    for key in ("rows", "missing_time", "late_rows", "lost_pairs", "windows", "results", "pages"):
        assert spark_figures[key] == figures[key], key


def write_pages(folder: Path, pages: int = 3, rows: int = 300) -> None:
    source = np.random.default_rng(5)
    folder.mkdir()
    for p in range(pages):
        t = p * 50 + source.integers(-30, 50, rows)
        pl.DataFrame(
            {
                "t": (t * 1_000_000).astype("datetime64[us]"),
                "order_id": source.permutation(rows) + p * (rows - 20),
                "price": [Decimal(int(n)) / 100 for n in source.integers(0, 500, rows) + p * 400],
                "k": t % 4,
                "v": source.integers(0, 40, rows).astype(float),
                "d": [Decimal(int(n)) / 4 for n in source.integers(0, 100, rows)],
            },
            schema_overrides={"price": pl.Decimal(10, 2), "d": pl.Decimal(12, 2)},
        ).write_parquet(folder / f"{p}.parquet")
        os.utime(folder / f"{p}.parquet", (1_000_000 + p, 1_000_000 + p))


SCHEMA = "t TIMESTAMP, order_id BIGINT, price DECIMAL(10,2), k BIGINT, v DOUBLE, d DECIMAL(12,2)"


def stream_of(s: sw.Session, folder: Path, time: str, slack: Any) -> Any:
    df = s.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return s.stream("rows", df, time=time, disorder=sw.bounded(slack))


def values(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[c] for c in columns) for r in rows)


def over(spark: SparkSession, folder: Path, frame: str) -> list[dict[str, Any]]:
    spark.read.schema(SCHEMA).parquet(str(folder)).createOrReplaceTempView("all_rows")
    aggregates = "sum(v) OVER w AS total, max(v) OVER w AS top, sum(d) OVER w AS money, avg(d) OVER w AS mean"
    return (
        spark.sql(f"SELECT *, {aggregates}, count(*) OVER w AS n FROM all_rows WINDOW w AS ({frame})")
        .toArrow()
        .to_pylist()
    )


AGGREGATES = {"total": "sum(v)", "top": "max(v)", "money": "sum(d)", "mean": "avg(d)", "n": "count(*)"}


def test_a_range_window_is_sparks_own_range_between(spark: SparkSession, tmp_path: Path) -> None:
    write_pages(tmp_path / "in")
    with sw.Session(spark, batch_pages=False) as s:
        rows = stream_of(s, tmp_path / "in", "t", "3 minutes")
        run = rows.rolling(range="30 seconds").group_by("k").agg(**AGGREGATES).start(hold=True)
        s.run_available()
        got = run.results().to_pylist()
    frame = "PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '29.999999' SECOND PRECEDING AND CURRENT ROW"
    wanted = [{**r, "window_end": r["t"]} for r in over(spark, tmp_path / "in", frame)]
    columns = ("k", "window_end", *AGGREGATES)
    assert values(got, *columns) == values(wanted, *columns)
    assert [r["window_end"] for r in got] == sorted(r["window_end"] for r in got)


def test_windows_go_by_another_attribute(spark: SparkSession, tmp_path: Path) -> None:
    """S4 Q2: [RANGE 100 tuples, WATTR orderID], with an order of its own and a projection before it."""
    write_pages(tmp_path / "in")
    with sw.Session(spark, batch_pages=False) as s:
        rows = stream_of(s, tmp_path / "in", "t", "3 minutes")
        # The stream's policy is in minutes, which says nothing of order numbers: S4's best effort.
        text = rows.rolling(rows=100, on="order_id").agg(n="count(*)").explain()
        assert "disorder_control(dratio='0%', timeout='10 minutes')" in text
        query = rows.where("k <> 1").select("v", "k", "d", number="order_id")
        windows = query.rolling(rows=100, on="number", disorder=sw.bounded(400))
        run = windows.agg(**AGGREGATES).start(hold=True)
        other = rows.window("1 hour").agg(n="count(*)").start(hold=True)
        s.run_available()
        got = run.results().to_pylist()
        assert sum(r["n"] for r in other.results().to_pylist()) == 900
        assert run.metrics()["late_rows"] == 0
    # Order numbers come twice where pages overlap; results in order are compared by what does not depend on ties.
    files = sorted((tmp_path / "in").iterdir())
    plain = (
        pl.concat([pl.read_parquet(f) for f in files])
        .filter(pl.col("k") != 1)
        .sort("order_id", maintain_order=True)
    )
    assert [r["window_end"] for r in got] == plain["order_id"].to_list()
    wanted = plain["v"].rolling_sum(100, min_samples=1).to_list()
    assert [r["total"] for r in got] == pytest.approx(wanted)


def test_decimals_are_a_time(spark: SparkSession, tmp_path: Path) -> None:
    write_pages(tmp_path / "in")
    with sw.Session(spark, batch_pages=False) as s:
        rows = stream_of(s, tmp_path / "in", "price", "5.01")
        each = rows.rolling(range="0.5").agg(**AGGREGATES).start(hold=True)
        slid = rows.window(Decimal("2.5"), slide="0.5", offset="0.25").agg(n="count(*)").start(hold=True)
        s.run_available()
        got, windows = each.results(), slid.results().to_pylist()
        with pytest.raises(QueryError, match="at most 2 digits behind the point"):
            rows.rolling(range="0.005")
    wanted = over(spark, tmp_path / "in", "ORDER BY price RANGE BETWEEN 0.49 PRECEDING AND CURRENT ROW")
    assert str(got.schema.field("window_end").type) == "decimal128(19, 2)"
    assert values([{**r, "price": r["window_end"]} for r in got.to_pylist()], "price", *AGGREGATES) == values(
        wanted, "price", *AGGREGATES
    )
    prices = [r["price"] for r in wanted]
    assert windows
    for w in windows:
        assert w["window_end"] - w["window_start"] == Decimal("2.5")
        assert w["n"] == sum(w["window_start"] <= p < w["window_end"] for p in prices)


def test_a_later_session_goes_on_where_one_has_stopped(spark: SparkSession, tmp_path: Path) -> None:
    write_pages(tmp_path / "in", pages=4)
    os.rename(tmp_path / "in/3.parquet", tmp_path / "3.parquet")

    def life(journal: Path, drain: bool) -> None:
        with sw.Session(spark, journal=journal, batch_pages=False) as s:
            rows = stream_of(s, tmp_path / "in", "t", "10 seconds")
            query = rows.rolling(range="1 minute").group_by("k").agg(**AGGREGATES)
            query.start(sink=tmp_path / f"out-{journal.name}", name="q", hold=True)
            s.run_available(drain=drain)

    life(tmp_path / "twice", drain=False)
    os.rename(tmp_path / "3.parquet", tmp_path / "in/3.parquet")
    life(tmp_path / "twice", drain=True)
    life(tmp_path / "once", drain=True)
    results = [
        spark.read.parquet(str(tmp_path / f"out-{name}")).toArrow().to_pylist() for name in ("twice", "once")
    ]
    columns = ("k", "window_end", *AGGREGATES)
    assert len(results[0]) > 900
    assert values(results[0], *columns) == values(results[1], *columns)


def test_a_query_may_have_a_policy_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    write_pages(tmp_path / "in")
    with sw.Session(spark, batch_pages=False) as s:
        rows = stream_of(s, tmp_path / "in", "t", "3 minutes")
        strict = rows.window("10 seconds", disorder=sw.bounded("0 seconds")).agg(n="count(*)")
        again = rows.window("1 minute", slide="10 seconds", disorder=sw.bounded("0 seconds")).agg(n="count(*)")
        assert strict._plan.inputs == again._plan.inputs
        runs = [strict.start(hold=True), rows.window("10 seconds").agg(n="count(*)").start(hold=True)]
        s.run_available()
        late = [run.metrics()["late_rows"] for run in runs]
    assert late[0] > 0
    assert late[1] == 0


def test_a_page_that_spark_will_not_bring_to_the_driver_is_spilled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pages(tmp_path / "in")

    def refuse(work: PageJobs, columns: object, limit: object) -> None:
        raise PartialsTooLarge

    def answer() -> tuple[str, list[dict[str, Any]]]:
        with sw.Session(spark, batch_pages=False) as s:
            rows = stream_of(s, tmp_path / "in", "t", "10 seconds").where("v > 3")
            run = rows.rolling(range="40 seconds").agg(**AGGREGATES).start(hold=True)
            s.run_available()
            return run.metrics()["store"], run.results().drop_columns(["emitted_at"]).to_pylist()

    kind, resident = answer()
    monkeypatch.setattr(PageJobs, "collect", refuse)
    spilled_kind, spilled = answer()
    assert (kind, spilled_kind) == ("resident", "spilled")
    columns = ("window_end", *AGGREGATES)
    assert values(resident, *columns) == values(spilled, *columns)


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"range": "40 seconds"}, id="range"),
        pytest.param({"rows": 7}, id="rows", marks=pytest.mark.long),
    ],
)
def test_spilled_rows_answer_as_resident_ones(
    spark: SparkSession, tmp_path: Path, window: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled_records, "_FEW", 100)
    monkeypatch.setattr(spilled_records, "_CELL_ROWS", 50)
    write_pages(tmp_path / "in", pages=4)
    os.rename(tmp_path / "in/3.parquet", tmp_path / "3.parquet")

    def life(name: str, limit: int, drain: bool = True) -> dict[str, Any]:
        with sw.Session(spark, journal=tmp_path / name, resident_limit=limit, batch_pages=False) as s:
            rows = stream_of(s, tmp_path / "in", "t", "10 seconds")
            query = window_of(rows, **window).group_by("k").agg(**AGGREGATES, tail="last(t)")
            run = query.start(sink=tmp_path / f"out-{name}", late=tmp_path / f"late-{name}", name="q", hold=True)
            s.run_available(drain=drain)
            return run.metrics()

    assert life("spilled", 0, drain=False)["store"] == "spilled"
    os.rename(tmp_path / "3.parquet", tmp_path / "in/3.parquet")
    spilled, resident = life("spilled", 0), life("resident", 2**30)
    assert (spilled["store"], resident["store"]) == ("spilled", "resident")
    # Spilled rows leave with their whole cell, so that some of the last one may still be counted.
    for key in ("late_rows", "results", "windows"):
        assert spilled[key] == resident[key], key
    assert spilled["late_rows"] > 0
    columns = ("k", "window_end", "tail", *AGGREGATES)
    both = [spark.read.parquet(str(tmp_path / f"out-{n}")).toArrow().to_pylist() for n in ("spilled", "resident")]
    assert values(both[0], *columns) == values(both[1], *columns)
    left = {p.parent.name for p in (tmp_path / "spilled/spill").rglob("*.parquet") if "window-" not in p.name}
    assert len(left) <= 1, "the stream may go on, so the last cell stays"
