"""Every aggregate over every type of Spark: refused at the step in our words, or right wherever its state lies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stages")]

#: Spark SQL of a value of each type, made of a number `n` and a text `word`.
VALUES = {
    "boolean": "n > 2",
    "tinyint": "CAST(n AS TINYINT)",
    "int": "CAST(n AS INT)",
    "bigint": "n",
    "float": "CAST(n AS FLOAT) / 4",
    "double": "n / 4",
    "decimal5": "CAST(n / 4 AS DECIMAL(5, 2))",
    "decimal38": "CAST(n AS DECIMAL(38, 10)) + 1234567890123456789012345678BD",
    "string": "word",
    "char": "CAST(word AS CHAR(9))",
    "varchar": "CAST(word AS VARCHAR(9))",
    "collated": "word COLLATE UTF8_LCASE",
    "binary": "unhex(concat('FF0', n))",
    "date": "date_add(DATE'1500-01-01', CAST(n AS INT))",
    "timestamp": "t",
    "timestamp_ntz": "CAST(t AS TIMESTAMP_NTZ)",
    "day_interval": "t - at",
    "year_interval": "make_ym_interval(1, CAST(n AS INT))",
    "interval": "make_interval(1, 2, 3, 4)",
    "array": "array(n, 2 * n)",
    "struct": "struct(n, word)",
    "map": "map(coalesce(word, '-'), n)",
    "variant": "parse_json(word)",
    "array_of_variant": "array(parse_json(word))",
    "void": "NULL",
}
NUMBERS = {"tinyint", "int", "bigint", "float", "double", "decimal5", "decimal38"}
TEXTS = {"string", "char", "varchar"}
PLAIN = NUMBERS | TEXTS | {"boolean", "binary", "date", "timestamp", "timestamp_ntz"}
STRANGE = {"year_interval", "interval", "variant", "array_of_variant"}
TAKEN: dict[str, set[str]] = {
    "count({})": set(VALUES) - STRANGE,
    **{f"{f}({{}})": NUMBERS | TEXTS for f in ("sum", "avg", "stddev", "var_pop")},
    "approx_percentile({}, 0.5)": NUMBERS | TEXTS,
    **{f"{f}({{}})": PLAIN for f in ("min", "max")},
    **{f"{f}({{}})": PLAIN | {"array", "struct"} for f in ("first", "last")},
    **{f"{f}({{}})": {"boolean"} for f in ("bool_and", "bool_or", "count_if")},
    **{f"{f}({{}})": {"tinyint", "int", "bigint"} for f in ("bit_and", "bit_or", "bit_xor")},
    "min_by({}, n)": PLAIN | {"array", "struct"},
    "max_by(n, {})": PLAIN,
    "approx_count_distinct({})": set(VALUES) - STRANGE - {"map", "collated"},
}
#: What Spark itself gives for the same rows.
AS_SPARK = ("count", "sum", "avg", "stddev", "var_pop", "min", "max", "bool_and", "bool_or", "count_if")
AS_SPARK += ("bit_and", "bit_or", "bit_xor")
#: What a window for each row has.
RUNNING = (*AS_SPARK, "first", "last")


def accepted(functions: tuple[str, ...] | None = None) -> dict[str, str]:
    """Accepted aggregates by the name of their column."""
    return {
        f"{call.partition('(')[0]}_of_{kind}": call.format(VALUES[kind])
        for call, kinds in TAKEN.items()
        for kind in VALUES
        if kind in kinds and (functions is None or call.partition("(")[0] in functions)
    }


def rows(spark: SparkSession, until: int = 12) -> DataFrame:
    stamps = [datetime(2024, 1, 1, 0, 0, i, tzinfo=UTC) for i in range(12)]
    made = {
        "t": stamps,
        "at": stamps,
        "k": ["a", "b"] * 6,
        "n": [5, 3, None, 4, 1, 4, 2, None, 5, 1, 3, 2],
        "word": ["7", "3", None, "4", "1", "4", "2", None, "7", "1", "B", "b"],
    }
    return spark.createDataFrame(pl.DataFrame(made).head(until).to_arrow())


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> Iterator[sw.Stream]:
    with sw.Session(spark) as s:
        yield s.stream("rows", rows(spark), time="t", arrival="at", disorder=sw.bounded("0 seconds"))


@pytest.mark.parametrize("call", TAKEN)
def test_an_aggregate_takes_what_it_can_merge_and_refuses_the_rest_in_our_words(
    stream: sw.Stream, call: str
) -> None:
    window, taken = stream.window("1 minute"), set()
    for kind, sql in VALUES.items():
        try:
            window.agg(x=call.format(sql))
            taken.add(kind)
        except sw.QueryError as error:
            assert str(error).startswith(f"x={call.format(sql)!r}: ")
            assert "[" not in str(error).replace(call.format(sql), ""), "Spark's words"
    assert taken == TAKEN[call]


def test_groups_are_values_that_can_be_compared(stream: sw.Stream) -> None:
    window = stream.window("1 minute")
    taken = set()
    for kind, sql in VALUES.items():
        try:
            window.group_by(g=sql).agg(n="count(*)")
            taken.add(kind)
        except sw.QueryError as error:
            assert "group_by" in str(error)
    assert taken == PLAIN | {"array", "struct"}


def play(spark: SparkSession, frames: list[DataFrame], limit: int, journal: Path | None) -> list[dict[str, Any]]:
    for frame in frames:
        with sw.Session(spark, journal=journal, resident_limit=limit) as s:
            stream = s.stream(
                "rows", frame, time="t", arrival="at", page="4 seconds", disorder=sw.bounded("1 second")
            )
            made = stream.window("1 minute").group_by("k").agg(**accepted())
            run = made.start(name="q")
            last = frame is frames[-1]
            s.run_available(drain=last)
            if last:
                assert run.metrics()["store"] == ("resident" if limit else "spilled")
                return sorted(run.results().drop_columns(["emitted_at"]).to_pylist(), key=lambda row: row["k"])
    raise AssertionError


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def differing(found: list[dict[str, Any]], wanted: list[dict[str, Any]], names: Any) -> list[tuple[Any, ...]]:
    pairs = [(n, f[n], w[n]) for f, w in zip(found, wanted, strict=True) for n in names]
    return [pair for pair in pairs if not same(*pair[1:])]


@pytest.fixture(scope="module")
def resident(spark: SparkSession) -> list[dict[str, Any]]:
    return play(spark, [rows(spark)], 2**30, None)


def test_accepted_aggregates_are_sparks(spark: SparkSession, resident: list[dict[str, Any]]) -> None:
    made = accepted(AS_SPARK)
    plain = rows(spark).groupBy("k").agg(*(F.expr(sql).alias(name) for name, sql in made.items()))
    wanted = sorted(plain.toArrow().to_pylist(), key=lambda row: row["k"])
    assert differing(resident, wanted, made) == []


@pytest.mark.parametrize(
    "limit", [pytest.param(0, id="spilled"), pytest.param(2**30, id="restored", marks=pytest.mark.long)]
)
def test_accepted_aggregates_are_the_same_wherever_their_state_lies(
    spark: SparkSession, tmp_path: Path, resident: list[dict[str, Any]], limit: int
) -> None:
    found = play(spark, [rows(spark, 8), rows(spark)], limit, tmp_path / "journal")
    assert differing(found, resident, accepted()) == []


def test_accepted_aggregates_have_windows_for_each_row(spark: SparkSession, resident: list[dict[str, Any]]) -> None:
    made = {name: sql for name, sql in accepted(RUNNING).items() if not name.endswith(("_array", "_struct"))}
    with sw.Session(spark) as s:
        stream = s.stream("rows", rows(spark), time="t", arrival="at", disorder=sw.bounded("1 second"))
        run = stream.rolling(range="1 minute").group_by("k").agg(**made).start()
        s.run_available()
        found = pl.DataFrame(run.results().drop_columns(["emitted_at"])).sort("window_end")
    last = found.group_by("k", maintain_order=True).last().sort("k").to_dicts()
    assert differing(last, resident, made) == []
