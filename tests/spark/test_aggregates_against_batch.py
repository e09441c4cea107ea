"""Aggregates over windows of a stream equal Spark's own `GROUP BY window` over the rows that were not late."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw

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
) -> tuple[list[dict[str, Any]], set[int]]:
    """Final results, and the ids of the rows that were late; with a journal, of a session that was restarted."""
    late: set[int] = set()

    def keep(frame: DataFrame, commit_id: int) -> None:
        late.update(row["id"] for row in frame.select("id").collect())

    parts = [given] if journal is None else [given.where("at < '2024-01-01T00:03:00Z'"), given]
    for part in parts:
        with sw.Session(spark, journal=journal, resident_limit=limit) as s:
            stream = s.stream(
                "rows", part, time="t", arrival="at", page="20 seconds", disorder=sw.bounded("20 seconds")
            )
            run = stream.window(**window).group_by("k").agg(**aggregates).start(name="q", late=keep)
            s.run_available(drain=part is given)
            if part is given:
                assert run.metrics()["store"] == ("resident" if limit else "spilled")
                return run.results().to_pylist(), late
    raise AssertionError


def check(
    spark: SparkSession, given: DataFrame, aggregates: dict[str, str], window: dict[str, str], **how: Any
) -> None:
    """Compare with Spark's batch answer over the rows that were not late."""
    found, late = answers(spark, given, aggregates, window, **how)
    assert late or "slide" in window
    spans = F.window("t", window["size"], window.get("slide"))
    left = given.where(~F.col("id").isin(list(late)))
    grouped = left.groupBy(spans, "k").agg(*(F.expr(sql).alias(name) for name, sql in aggregates.items()))
    wanted = grouped.select(F.col("window.start").alias("window_start"), "k", *aggregates).toArrow().to_pylist()
    assert len(found) == len(wanted)
    keys = {(row["window_start"], row["k"]): row for row in found}
    for row in wanted:
        mine = keys[row["window_start"], row["k"]]
        assert not [(n, mine[n], row[n]) for n in aggregates if not same(mine[n], row[n])]


def same(one: Any, other: Any) -> bool:
    """Equal values; floating-point sums may differ by the order of their terms."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (one != one and other != other)
    return bool(one == other)


TUMBLING = {"size": "1 minute"}
#: No row is late for these, but for the windows that it falls into.
SLIDING = {"size": "1 minute", "slide": "20 seconds"}


@pytest.mark.parametrize("limit", [0, 2**30], ids=["spilled", "resident"])
def test_folded_aggregates_are_sparks(spark: SparkSession, limit: int) -> None:
    check(spark, rows(spark), FOLDED, TUMBLING, limit=limit)


def test_folded_aggregates_of_sliding_windows_are_sparks(spark: SparkSession) -> None:
    check(spark, rows(spark).where("at - t < INTERVAL 1 MINUTE"), FOLDED, SLIDING)
