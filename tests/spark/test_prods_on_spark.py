"""Prods and nested aggregates on Spark: Q3-4, the sources of prods, resident and spilled state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.plan.condition import check_condition_text
from tests.kit.kept_rows import KeptRows
from tests.kit.traffic_on_spark import READINGS, q3_4, readings, said, traffic

pytestmark = pytest.mark.spark

FINALS = [
    ("final", 110, 40, 2),
    ("final", 120, 55, 2),
    ("final", 130, 56, 2),
    ("final", 140, 26, 2),
    ("final", 150, 10, 2),
    ("final", 160, 0, 1),
    ("final", 170, 0, 1),
]
#: A page is there ten seconds after its first reading, and windows are prodded 7.5 seconds into their last slide.
EARLY = [
    ("early", 110, 40, 2),
    ("early", 120, 40, 2),
    ("early", 130, 55, 2),
    ("early", 140, 26, 2),
    ("early", 150, 10, 2),
]


@pytest.mark.parametrize("limit", [2**28, 0])
def test_q3_4_is_right_early_and_in_the_end_from_resident_and_spilled_state(
    spark: SparkSession, tmp_path: Path, limit: int
) -> None:
    with sw.Session(spark, journal=tmp_path, resident_limit=limit) as s:
        kept = KeptRows()
        run = q3_4(traffic(s, readings(spark))).start(kept, early=sw.early(at=0.75))
        s.run_available()
        rows = said(kept.results(), "most", "sensors")
        assert sorted(r for r in rows if r[0] == "final") == FINALS
        assert [r for r in rows if r[0] == "early"] == EARLY
        figures = run.metrics()
        assert [figures["store"], figures["inner"][0]["store"]] == ["resident" if limit else "spilled"] * 2
        assert (figures["late_rows"], figures["results"]) == (0, 7)
    assert list((tmp_path / "staged").glob("*")) == []


def test_what_lies_between_two_aggregates_is_spark_sql_too(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        sums = traffic(s, readings(spark)).window("30 seconds", slide="10 seconds").group_by("sensor")
        rows = sums.agg(volume="sum(volume)").where("volume BETWEEN 10 AND 50")
        named = rows.select(
            lane="concat('lane ', sensor)", volume="volume", ends="date_format(window_end, 'mm:ss')"
        )
        query = named.window("60 seconds").group_by("lane")
        run = query.agg(all="sum(volume)", last="max(ends)").start()
        s.run_available()
        rows = [(r["lane"], r["all"], r["last"]) for r in run.results().sort_by("lane").to_pylist()]
    # The sums of sensor 1 that end within (60, 120] are 40, 40; within (120, 180] 50, 10, 10, 0 and 0.
    assert [r for r in rows if r[0] == "lane 1"] == [("lane 1", 80, "02:00"), ("lane 1", 70, "02:30")]
    assert [r for r in rows if r[0] == "lane 2"] == [("lane 2", 30, "01:50"), ("lane 2", 26, "02:20")]


@pytest.mark.parametrize("limit", [2**28, 0])
def test_a_run_is_prodded_until_a_time_and_for_some_groups(spark: SparkSession, limit: int) -> None:
    with sw.Session(spark, resident_limit=limit) as s:
        stream = traffic(s, readings(spark))
        sums = stream.window("30 seconds", slide="10 seconds").group_by("sensor").agg(volume="sum(volume)")
        run = sums.start()
        nested = q3_4(stream).start()
        # The last page brings time to 140 - 5 seconds: windows that end at 140 and later stay open.
        s.run_available(drain=False)
        run.prod(until="1970-01-01 00:02:30", where="sensor = 1")
        early = [r for r in said(run.results(), "sensor", "volume_seen") if r[0] == "early"]
        assert sorted(early) == [("early", 140, 1, 10), ("early", 150, 1, 10)]
        run.prod(at="1970-01-01 00:02:05", where="sensor = 2")
        early = [r for r in said(run.results(), "sensor") if r[0] == "early" and r[2] == 2]
        assert {end for _, end, _ in early} == {140, 150}, "of the windows that contain it, 130 is final"
        with pytest.raises(sw.QueryError, match="write one of them"):
            run.prod(until="1970-01-01", at="1970-01-01")
        nested.prod(until="1970-01-01 00:02:20")
        early = [r for r in said(nested.results(), "most", "sensors") if r[0] == "early"]
        assert early == [("early", 140, 26, 2)]
        with pytest.raises(sw.QueryError, match=r"prod\(where=.*group columns"):
            nested.prod(where="sensor = 1")


def test_a_sink_function_may_ask_for_more(spark: SparkSession) -> None:
    got: list[tuple[Any, ...]] = []

    def take(frame: DataFrame, commit_id: int) -> object:
        table = frame.toArrow()
        got.extend(said(table, "volume"))
        final = table["kind"][0].as_py() == "final"
        return sw.prod(until="1970-01-01 00:02:10", where="sensor = 2") if final else True

    with sw.Session(spark) as s:
        stream = traffic(s, readings(spark, READINGS[:3]))
        windows = stream.window("30 seconds", slide="10 seconds")
        windows.group_by("sensor").agg(volume="sum(volume)").start(take)
        s.run_available(drain=False)
    # At 112 - 5 seconds no window has ended: nothing was asked. Without a final answer there is no feedback.
    assert got == []
    with sw.Session(spark) as s:
        stream = traffic(s, readings(spark, READINGS[:4]))
        windows = stream.window("30 seconds", slide="10 seconds")
        windows.group_by("sensor").agg(volume="sum(volume)").start(take)
        s.run_available(drain=False)
    finals = [("final", 110, 40), ("final", 110, 30)]
    asked = [("early", 120, 55), ("early", 130, 55)]
    open_ones = [("early", 120, 40), ("early", 120, 55), ("early", 130, 50), ("early", 130, 55)]
    assert got[:8] == finals + asked + open_ones
    assert all(r[0] == "early" and r[1] > 110 for r in got[8:]) and len(got) < 16


@pytest.mark.parametrize("limit", [2**28, 0])
def test_early_and_final_results_in_files_are_one_table(spark: SparkSession, tmp_path: Path, limit: int) -> None:
    with sw.Session(spark, resident_limit=limit) as s:
        windows = traffic(s, readings(spark)).window("30 seconds", slide="10 seconds").group_by("sensor")
        run = windows.agg(volume="sum(volume)", last="max(time)").start(str(tmp_path))
        s.run_available(drain=False)
        run.prod()
        s.run_available()
    read = spark.read.parquet(str(tmp_path))
    counts = F.count(F.lit(1)).alias("n"), F.count("volume_seen").alias("seen")
    kinds = {r["kind"]: (r["n"], r["seen"]) for r in read.groupBy("kind").agg(*counts).collect()}
    assert kinds == {"early": (6, 6), "final": (12, 0)}
    schemas = [pq.read_schema(f) for f in tmp_path.glob("*.parquet")]
    assert len({(tuple(s.names), tuple(s.types)) for s in schemas}) == 1 < len(schemas)
    assert pl.read_parquet(tmp_path / "*.parquet").shape == (18, len(read.columns))


def test_a_run_says_where_its_windows_are_prodded_and_how_well(spark: SparkSession) -> None:
    rows = [(100 + n, 1 + n % 2, n % 5) for n in range(200)]
    with sw.Session(spark) as s:
        windows = traffic(s, readings(spark, rows)).window("30 seconds", slide="10 seconds")
        run = windows.agg(volume="sum(volume)").start(early=sw.early(accuracy=0.98))
        s.run_available()
        figures = run.metrics()
    assert figures["prods"] > 10 and 0 <= figures["prodded_at"] <= 2
    assert 0 < figures["running_accuracy"] <= 1 and figures["target_reachable"] in (True, False)
    assert run.metrics()["prodded_at"] == figures["prodded_at"]


def test_prod_inside_a_sinks_function_says_what_to_do_instead(spark: SparkSession) -> None:
    runs: list[sw.Run] = []
    with sw.Session(spark) as s:
        windows = traffic(s, readings(spark)).window("30 seconds", slide="10 seconds")
        runs.append(windows.agg(n="count(*)").start(lambda df, commit_id: runs[0].prod()))
        with pytest.raises(sw.RunError, match=r"give back sw\.prod"):
            s.run_available()


def test_what_does_not_fit_is_refused_with_what_to_write(spark: SparkSession) -> None:
    asks = spark.createDataFrame([(1, 2, "x")], "t BIGINT, where INT, until STRING")
    with sw.Session(spark) as s:
        stream = traffic(s, readings(spark))
        with pytest.raises(sw.QueryError, match=r"no role 'prod'.*role='prods'"):
            s.stream("ask", asks, time="t", role="prod")
        with pytest.raises(sw.QueryError, match="leave out disorder="):
            s.stream("ask", asks, time="t", role="prods", disorder=sw.bounded(1))
        with pytest.raises(sw.QueryError, match="column 'until' of a stream of prods is of type string"):
            s.stream("ask", asks, time="t", role="prods")
        with pytest.raises(sw.QueryError, match="column 'where' of a stream of prods is text, not int"):
            s.stream("ask", asks.drop("until"), time="t", role="prods")
        with pytest.raises(sw.QueryError, match="there is no column 'when'"):
            s.stream("ask", asks, time="when", role="prods")
        with pytest.raises(sw.QueryError, match="static DataFrame"):
            s.stream("ask", asks.select("t"), time="t", role="prods")
        ask = s.stream("ask", readings(spark), time="time", arrival="seen", role="prods")
        with pytest.raises(sw.QueryError, match="'ask' is a stream of prods"):
            ask.window("10 seconds").agg(n="count(*)").start()
        rolling = stream.rolling(range="10 seconds").agg(n="count(*)")
        for nest in (
            lambda: rolling.window("1 minute"),
            lambda: rolling.where("n > 1").window("1 minute"),
        ):
            with pytest.raises(sw.QueryError, match=r"windows for each row.*give the first window a slide"):
                nest()
        query = stream.window("10 seconds").group_by("sensor").agg(n="count(*)")
        with pytest.raises(sw.QueryError, match="windows over results need a slide"):
            query.rolling(range="1 minute")
        with pytest.raises(sw.QueryError, match="leave out on="):
            query.where("n > 1").window(10, on="n")
        with pytest.raises(sw.QueryError, match="first window"):
            query.where("n > 1").window("1 minute", disorder=sw.bounded("1 minute"))
        with pytest.raises(sw.QueryError, match="there is no column 'volume'; there are sensor, n, window_start"):
            query.window("1 minute").agg(x="max(volume)")


GROUPS = """
    SELECT k, CAST(k AS BIGINT) * 10000000000 AS l, array('A', 'b', 'É', NULL, "O'Hare", 'a_b')[k + 2] AS g,
        array('1', ' 1', 'x', NULL, '7', '')[k + 2] AS s, date_add(DATE '2024-01-01', k) AS d,
        nullif(k, 0) % 2 = 0 AS b, CAST(k / 4 AS DECIMAL(8, 2)) AS m, k / 3 AS f,
        timestamp_micros(k * 3600500000) AS ts, CAST(timestamp_seconds(k * 3600) AS TIMESTAMP_NTZ) AS tn,
        concat('z ', k) AS `my key`
    FROM (SELECT explode(array(-2, -1, 0, 1, 2, 3)) AS k)
"""
CONDITIONS = (
    *(
        "k = 1",
        "K IN (1, 2)",
        "`My Key` = 'z 1'",
        "\"my key\" = 'z 1'",
        'g = "A"',
        "g = 'O''Hare'",
        "g = 'O\\'Hare'",
    ),
    *("k % 2 = -1", "k div 2 = -1", "k div 0 IS NULL", "k / 0 IS NULL", "k / 2 = 0.5", "f = 1 / 3", "-k = 2"),
    *(
        "g IS NULL",
        "g <=> NULL",
        "g NOT IN ('A', NULL)",
        "b IS NOT TRUE",
        "b IS TRUE",
        "NOT b",
        "k NOT BETWEEN 0 AND 1",
    ),
    *("g LIKE 'a_b'", "g RLIKE '^[a-z]$'", "g || 'x' = 'Ax'", "concat(g, 'x') = 'x'", "substring(g, 1, 1) = 'a'"),
    *("ts = TIMESTAMP '1970-01-01 01:00:00.5'", "ts > TIMESTAMP '1970-01-01 01:00:00Z'", "ts > TIMESTAMP '1970'"),
    *("ts = TIMESTAMP '1970-01-01T03:00:00.5+02:00'", "ts > TIMESTAMP_NTZ '1970-1-1 1:0'", "ts > tn", "ts < d"),
    *(
        "tn = TIMESTAMP '1970-01-01 01:00:00'",
        "tn = TIMESTAMP '1970-01-01 03:00:00+02:00'",
        "ts > DATE '1970-01-01'",
    ),
    *("ts > '1970-01-01 01:00:00'", "tn = '1970-01-01 01:00:00Z'", "tn IN ('1970-01-01 01:00:00')", "ts > 'x'"),
    *("date(ts) = DATE '1970-01-01'", "date(tn) = '1970-01-01'", "hour(ts) = '1'", "CAST(d AS TIMESTAMP) > ts"),
    *("d = '2024-01-02'", "d = '2024-1-2 10:00'", "d > '2024'", "d <=> 'x'", "d <> 'x'", "'2024-01-02' < d"),
    *(
        "d BETWEEN '2024-01-01' AND '2024-01-03'",
        "d IN ('2024-01-02', NULL)",
        "d = DATE '2024-1-2'",
        "year(d) = '2023'",
    ),
    *(
        "k = '1'",
        "k = ' +1 '",
        "k <> 'x'",
        "k > '0'",
        "l = '10000000000'",
        "k NOT IN ('1')",
        "m = '.25'",
        "f < 'inf'",
    ),
    *("CAST(s AS INT) = 1", "CAST(s AS DOUBLE) < 5", "CAST(g AS STRING) = 'b'", "k = 1L", "m = 0.25BD", "f = 1.0D"),
)


def test_conditions_choose_the_groups_that_sparks_own_filter_chooses(spark: SparkSession) -> None:
    frame = spark.sql(GROUPS)
    answered = frame.select("k", *(F.expr(sql).alias(str(place)) for place, sql in enumerate(CONDITIONS))).toArrow()
    groups = pl.DataFrame(frame.toArrow())
    with sw.Session(spark) as session:
        for place, sql in enumerate(CONDITIONS):
            chosen = [r["k"] for r in answered.select(["k", str(place)]).to_pylist() if r[str(place)]]
            check_condition_text(sql)
            met = groups[session._running.pages.matching(groups, sql)]
            assert (sql, met["k"].to_list()) == (sql, chosen)
            assert met.schema == groups.schema


@pytest.mark.parametrize(
    "where", ["ts = TIMESTAMP 'x'", "x = 1", "k", "k = 'O'Hare'", "g REGEXP '('", "max(k) > 0"]
)
def test_a_condition_that_is_none_is_refused(spark: SparkSession, where: str) -> None:
    groups = pl.DataFrame(spark.sql(GROUPS).toArrow())
    with sw.Session(spark) as session, pytest.raises(sw.QueryError):
        session._running.pages.matching(groups, where)


@pytest.mark.parametrize("limit", [2**28, 0])
def test_s5_section_3_3_windows_for_each_row_answer_a_prod(spark: SparkSession, limit: int) -> None:
    """Three rows wait: time is at 135, and those of 121, 122 and 140 have come in the last page."""
    with sw.Session(spark, resident_limit=limit) as s:
        run = traffic(s, readings(spark)).rolling(range="30 seconds").agg(volume="sum(volume)").start()
        s.run_available(drain=False)
        run.prod()
        run.prod(until="1970-01-01 00:02:10")
        rows = said(run.results(), "volume", "volume_seen", "volume_low")
        assert [r for r in rows if r[0] == "early"] == [("early", 140, 36, 36, None)]
        assert [r[1:3] for r in rows if r[0] == "final"] == [
            (100, 40),
            (105, 70),
            (112, 95),
            (121, 105),
            (122, 106),
        ]
        assert run.metrics()["early_results"] == 1
        s.run_available()
        rows = said(run.results(), "volume")
        assert rows[-1] == ("final", 140, 36) and len(rows) == 6


def test_s5_section_3_3_unions_and_joins_of_results_answer_a_prod(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark) as s:
        stream = traffic(s, readings(spark))
        sums = stream.window("10 seconds").group_by("sensor").agg(volume="sum(volume)")
        most = stream.window("60 seconds").group_by("sensor").agg(volume="max(volume)")
        both = sums.select(what="'sum'", sensor="sensor", volume="volume").union(
            most.select(what="'most'", sensor="sensor", volume="volume")
        )
        union = both.start(kept := KeptRows(), early=sw.early(at=1))
        left, right = (stream.where(f"sensor = {n}").window("60 seconds").agg(v="sum(volume)") for n in (1, 2))
        pairs = left.select(one="v").join(right.select(two="v"), on="one > two", within="1 second")
        join = pairs.start([tmp_path / "pairs", None])
        s.run_available(drain=False)
        join.prod()
        union.prod(where="sensor = 1")
        rows = said(kept.results(), "what", "sensor", "volume_seen")
        early = [r for r in rows if r[0] == "early"]
        # A page of ten seconds is there when they are over: so are windows of ten seconds, and that until 120.
        assert early == [
            *(("early", 110, "sum", 1, 40), ("early", 110, "sum", 2, 30), ("early", 120, "sum", 2, 25)),
            *(("early", 120, "most", 1, 40), ("early", 120, "most", 2, 30)),
            *(("early", 130, "sum", 1, 10), ("early", 130, "sum", 2, 1), ("early", 150, "sum", 1, 0)),
            *(("early", 150, "sum", 1, 0), ("early", 180, "most", 1, 10)),
        ]
        assert [r for r in rows if r[0] == "final" and r[2] == "most"] == [
            ("final", 120, "most", 1, None),
            ("final", 120, "most", 2, None),
        ]
        mine = {"one": 10, "two": 1}
        assert join.results().to_pylist() == [{**mine, "kind": "early"}]
        assert pq.read_table(tmp_path / "pairs").to_pylist() == [{**mine, "kind": "early"}]
