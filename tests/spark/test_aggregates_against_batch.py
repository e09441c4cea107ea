"""Aggregates over windows of a stream equal Spark's own `GROUP BY window` over the rows that were not late."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.aggregates.registry import BY_FUNCTION

pytestmark = pytest.mark.spark

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
FOLDED = {
    "sum_over": "sum(x) FILTER (WHERE i > 0)",
    "n_over": "count(*) FILTER (WHERE i > 0)",
    "mean_over": "avg(d) FILTER (WHERE s = 'p' OR s IS NULL)",
    "n_if": "count_if(i > 0)",
    "every": "every(i > -3)",
    "some": "some(i > 3) FILTER (WHERE x > 0)",
    "bits": "bit_xor(i)",
    "bits_or": "bit_or(i) FILTER (WHERE x > 0)",
    "share": "count(*) FILTER (WHERE i > 0) / count(*)",
    # Places are distinct: Spark says of equal ones that either value may come.
    "least_at": "min_by(s, id)",
    "most_at": "max_by(struct(s, x), id) FILTER (WHERE i > 0)",
}


def rows(spark: SparkSession, seed: int = 1, count: int = 400) -> DataFrame:
    """Rows of some minutes, disordered by up to 20 seconds; one in thirty comes two minutes late."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        at = number * 1.0
        behind = 120 if rng.random() < 1 / 30 else rng.uniform(0, 20)
        i = rng.choice([None, *range(-4, 5)])
        made.append(
            {
                "id": number,
                "t": _BEGIN + timedelta(seconds=at - behind),
                "at": _BEGIN + timedelta(seconds=at),
                "k": rng.choice(["a", "b", "c", None]),
                "i": i,
                "x": rng.choice([None, *(n / 4 for n in range(-8, 9))]),
                "d": rng.choice([None, 1.0, float("nan"), -0.5]),
                "s": rng.choice([None, "", "p", "q", "é"]),
            }
        )
    frame = pl.DataFrame(made, infer_schema_length=None)
    return spark.createDataFrame(frame.to_arrow())


def answers(
    spark: SparkSession,
    given: DataFrame,
    aggregates: dict[str, str],
    window: dict[str, str],
    limit: int = 2**30,
    journal: Path | None = None,
    page: str = "20 seconds",
) -> tuple[list[dict[str, Any]], set[int]]:
    """Final results, and the ids of the rows that were late; with a journal, of a session that was restarted."""
    late: set[int] = set()
    final: list[dict[str, Any]] = []

    def keep(frame: DataFrame, commit_id: int) -> None:
        late.update(row["id"] for row in frame.select("id").collect())

    def take(frame: DataFrame, commit_id: int) -> None:
        final.extend(frame.toArrow().to_pylist())

    parts = [given] if journal is None else [given.where("at < '2024-01-01T00:03:00Z'"), given]
    for part in parts:
        with sw.Session(spark, journal=journal, resident_limit=limit) as s:
            stream = s.stream("rows", part, time="t", arrival="at", page=page, disorder=sw.bounded("20 seconds"))
            run = stream.window(**window).group_by("k").agg(**aggregates).start(take, name="q", late=keep)
            s.run_available(drain=part is given)
            if part is given:
                assert run.metrics()["store"] == ("resident" if limit else "spilled")
    return final, late


def check(
    spark: SparkSession, given: DataFrame, aggregates: dict[str, str], window: dict[str, str], **how: Any
) -> None:
    """Compare with Spark's batch answer over the rows that were not late."""
    found, late = answers(spark, given, aggregates, window, **how)
    assert late or "slide" in window
    spans = F.window("t", window["size"], window.get("slide"))
    left = given.where(~F.col("id").isin(list(late)))
    keys = {(row["window_start"], row["k"]): row for row in found}
    # Spark itself cannot have all of them in one SELECT.
    for distinct in (False, True):
        some = {name: sql for name, sql in aggregates.items() if ("DISTINCT" in sql) is distinct}
        if not some:
            continue
        grouped = left.groupBy(spans, "k").agg(*(F.expr(sql).alias(name) for name, sql in some.items()))
        wanted = grouped.select(F.col("window.start").alias("window_start"), "k", *some).toArrow().to_pylist()
        assert len(found) == len(wanted)
        for row in wanted:
            mine = keys[row["window_start"], row["k"]]
            assert not [(n, mine[n], row[n]) for n in some if not same(mine[n], row[n])]


def same(one: Any, other: Any) -> bool:
    """Equal values; floating-point sums may differ by the order of their terms."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (one != one and other != other)
    return bool(one == other)


TUMBLING = {"size": "1 minute"}
#: Where rows are kept, a page is a job and a window another one: half as many pages have the same rows.
LONG_PAGE = "40 seconds"
#: No row is late for these, but for the windows that it falls into.
SLIDING = {"size": "1 minute", "slide": "20 seconds"}


@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_folded_aggregates_are_sparks(spark: SparkSession, limit: int) -> None:
    check(spark, rows(spark), FOLDED, TUMBLING, limit=limit)


def test_folded_aggregates_of_sliding_windows_are_sparks(spark: SparkSession) -> None:
    check(spark, rows(spark).where("at - t < INTERVAL 1 MINUTE"), FOLDED, SLIDING)


KEPT = {
    "users": "count(DISTINCT s)",
    "pairs": "count(DISTINCT s, i) FILTER (WHERE x > 0)",
    "once": "sum(DISTINCT x)",
    "mean_once": "avg(DISTINCT i)",
    "middle": "median(x)",
    "quarter": "percentile(x, array(0.25, 0.5)) FILTER (WHERE i > 0)",
    "cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC)",
    "often": "mode(i, true)",
    "set": "array_sort(collect_set(s))",
    "in_order": "string_agg(s, ',') WITHIN GROUP (ORDER BY id)",
    "corr": "corr(x, i)",
    "slope": "regr_slope(x, i)",
    "kurtosis": "kurtosis(x) FILTER (WHERE i > 0)",
    "skewness": "skewness(x)",
    "maybe": "try_sum(i)",
    "ratio": "count(DISTINCT s) / count(*)",
    # With some that are folded beside them.
    "n": "count(*)",
    "sd": "stddev(x)",
    "begins": "min_by(s, id)",
}
#: Spark itself cannot have this one beside other distinct values.
WORDS = {"words": "listagg(DISTINCT s, '{') WITHIN GROUP (ORDER BY s DESC)"}
DISTINCT = {name: KEPT[name] for name in ("users", "pairs", "once", "mean_once", "n")}
_IN_TIME = "transform(array_sort(collect_list(struct(t, s)) FILTER (WHERE s IS NOT NULL)), v -> v.s)"


@pytest.mark.parametrize("aggregates", [KEPT, DISTINCT, WORDS], ids=["kept", "distinct", "words"])
@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_kept_rows_give_what_spark_gives(spark: SparkSession, limit: int, aggregates: dict[str, str]) -> None:
    check(spark, rows(spark), aggregates, TUMBLING, limit=limit, page=LONG_PAGE)


@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_kept_rows_of_sliding_windows_after_a_restart(spark: SparkSession, tmp_path: Path, limit: int) -> None:
    given = rows(spark).where("at - t < INTERVAL 1 MINUTE")
    check(spark, given, KEPT, SLIDING, limit=limit, journal=tmp_path / "journal")


@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_lists_are_in_the_order_of_time(spark: SparkSession, limit: int) -> None:
    given = rows(spark).where("at - t < INTERVAL 1 MINUTE")
    found, _ = answers(
        spark, given, {"v": "collect_list(s)", "w": "listagg(s, '|')"}, TUMBLING, limit, page=LONG_PAGE
    )
    grouped = given.groupBy(F.window("t", "1 minute").start.alias("window_start"), "k").agg(
        F.expr(_IN_TIME).alias("v")
    )
    wanted = {(r["window_start"], r["k"]): r["v"] for r in grouped.toArrow().to_pylist()}
    assert {(r["window_start"], r["k"]): r["v"] for r in found} == wanted
    assert all(row["w"] == ("|".join(row["v"]) if row["v"] else None) for row in found)


class Count:
    """Values that are not null, folded."""

    def init(self) -> int:
        return 0

    def add(self, state: int, x: pa.Array) -> int:
        return state + len(x) - x.null_count

    def merge(self, one: int, other: int) -> int:
        return one + other

    def value(self, state: int) -> int:
        return state


def closest(t: pa.Array, x: pa.Array) -> float | None:
    """How far the closest three neighbours are from a ramp 0, 1, 2 (S5 section 4.4.2)."""
    values = [v for v in x.to_pylist() if v is not None]
    shapes = (values[n : n + 3] for n in range(len(values) - 2))
    return min((sum((b - a) ** 2 for a, b in enumerate(shape)) for shape in shapes), default=None)


@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_aggregates_of_the_users_own(spark: SparkSession, limit: int) -> None:
    given = rows(spark, count=200).where("at - t < INTERVAL 1 MINUTE")
    try:
        with sw.Session(spark, resident_limit=limit) as s:
            s.register_aggregate("my_count", Count(), "BIGINT")
            s.register_aggregate("closest", closest, "DOUBLE")
            s.stream("rows", given, time="t", arrival="at", page=LONG_PAGE, disorder=sw.bounded("20 seconds"))
            run = s.sql(
                "SELECT k, my_count(x) AS n, count(x) AS m, my_count(x) FILTER (WHERE i > 0) AS n_over, "
                "count(x) FILTER (WHERE i > 0) AS m_over, closest(t, x) AS c, collect_list(x) AS xs, "
                "count(DISTINCT s) AS d FROM rows [RANGE 1 MINUTE, SLIDE 30 SECONDS] GROUP BY k"
            ).start()
            s.run_available(drain=True)
            found = run.results().to_pylist()
    finally:
        for name in ("my_count", "closest"):
            BY_FUNCTION.pop(name, None)
    assert len(found) > 10
    for row in found:
        xs = pa.array(row["xs"], pa.float64())
        assert (row["n"], row["n_over"], row["c"]) == (row["m"], row["m_over"], closest(xs, xs))
