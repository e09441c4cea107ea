"""Names of columns: with dots and spaces in backticks, and with capitals that do not count but stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.plan.node import answering
from tests.kit.kept_rows import KeptRows

pytestmark = pytest.mark.spark

START = datetime(2024, 1, 1, tzinfo=UTC)


def rows(spark: SparkSession) -> DataFrame:
    stamps = [START + timedelta(seconds=10 * i) for i in range(12)]
    made = {"the.time": stamps, "came at": stamps, "a.b": ["x", "y"] * 6, "v w": list(range(12)), "ä": [1] * 12}
    return spark.createDataFrame(pl.DataFrame(made).to_arrow())


def declared(s: sw.Session, spark: SparkSession, **settings: Any) -> sw.Stream:
    return s.stream(
        "rows",
        rows(spark),
        time="`the.time`",
        arrival="`came at`",
        page="20 seconds",
        disorder=sw.bounded("0 seconds"),
        **settings,
    )


@pytest.mark.parametrize("limit", [2**30, 0], ids=["resident", "spilled"])
def test_names_in_backticks_work_everywhere(spark: SparkSession, limit: int) -> None:
    with sw.Session(spark, resident_limit=limit) as s:
        stream = declared(s, spark, source="`a.b`").where("`v w` >= 0").select("*", **{"2 v": "2 * `v w`"})
        query = (
            stream.window("1 minute")
            .group_by("`a.b`")
            .agg(**{"to.tal": "sum(`v w`)", "twice": "sum(`2 v`)", "me an": "sum(`v w`) / count(`ä`)"})
        )
        top = answering(query._plan)
        assert top is not None and top.kernel.source == "a.b"
        run = (
            query.where("`to.tal` > 0")
            .select("`a.b`", "`to.tal`", "twice", "`me an`", **{"x.y": "`to.tal` + 1"})
            .start()
        )
        outer = query.window("1 minute").agg(**{"m.x": "max(`to.tal`)"}).start()
        run.prod(where="`a.b` = 'x'")
        s.run_available()
        found = run.results().drop_columns(["emitted_at"]).to_pylist()
        finals = [r for r in found if r["kind"] == "final"]
        assert run.results().schema.names[:5] == ["a.b", "to.tal", "twice", "me an", "x.y"]
        largest = outer.results()["m.x"].to_pylist()
    got = sorted((r["window_start"], r["a.b"], r["to.tal"], r["twice"], r["me an"], r["x.y"]) for r in finals)
    later = START + timedelta(minutes=1)
    assert got == [
        (START, "x", 6, 12, 2.0, 7),
        (START, "y", 9, 18, 3.0, 10),
        (later, "x", 24, 48, 8.0, 25),
        (later, "y", 27, 54, 9.0, 28),
    ]
    assert sorted(largest) == [9, 27]


def test_a_name_without_its_backticks_is_named(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        with pytest.raises(sw.QueryError, match=r"time 'the\.time': 'the\.time' is no plain name; .*`the\.time`"):
            s.stream("rows", rows(spark), time="the.time", disorder=sw.bounded("0 seconds"))
        stream = declared(s, spark)
        for write in (
            lambda: stream.where("v w > 0"),
            lambda: stream.select("v w"),
            lambda: stream.window("1 minute").group_by("v w"),
            lambda: stream.window("1 minute").agg(m="sum(v w)"),
            lambda: stream.window("1 minute").agg(m="sum(v w) / 2"),
        ):
            with pytest.raises(sw.QueryError, match=r"'v w' is no plain name; write it in backticks, `v w`"):
                write()


def test_names_keep_their_capitals_which_do_not_count(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        frame = rows(spark).toDF("T", "At", "Key", "V", "one")
        stream = s.stream(
            "rows", frame, time="t", arrival="AT", page="10 seconds", source="key", disorder=sw.bounded("0 seconds")
        )
        query = (
            stream.select("Key", Value="v")
            .window("1 minute")
            .group_by("KEY")
            .agg(N="count(*)", Total="sum(VALUE)", Share="TOTAL / n")
        )
        top = answering(query._plan)
        assert top is not None and top.kernel.source == "KEY"
        run, other = KeptRows(), KeptRows()
        query.start(run, early=sw.early(at=0.5))
        query.select("key", seen_twice="2 * n", same="TOTAL", Kind="kind").start(other, early=sw.early(at=0.5))
        s.run_available()
        mine, theirs = run.results(), other.results()
    assert mine.schema.names[:4] == ["KEY", "N", "Total", "Share"]
    early = [r for r in mine.to_pylist() if r["kind"] == "early"]
    assert early and all(r["Share_seen"] == r["Total_seen"] / r["N_seen"] for r in early)
    assert all(r["completeness"] is None or 0 < r["completeness"] <= 1 for r in early)
    selected = [r for r in theirs.to_pylist() if r["kind"] == "early"]
    pairs = zip(early, selected, strict=True)
    assert all((b["seen_twice_seen"], b["same_seen"]) == (2 * a["N_seen"], a["Total_seen"]) for a, b in pairs)
    finals = sorted((r["KEY"], r["Total"]) for r in mine.to_pylist() if r["kind"] == "final")
    assert finals == [("x", 6), ("x", 24), ("y", 9), ("y", 27)]
