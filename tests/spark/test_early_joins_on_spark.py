"""S5 section 3.3, prods through Join, on Spark: early answers are those in process, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.testing import Script
from tests.kit.joins import join_of, renamed
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, windows
from tests.kit.traffic_on_spark import readings
from tests.spark.test_union_on_spark import SPARK, write

pytestmark = pytest.mark.spark

RESULTS = (
    L.Select((windows(A, 6, 3, "g", n="count(*)"),), (("g", "g"), ("i", "n"))),
    L.Select((windows(B, 6, 3, "g", n="count(*)"),), (("g2", "g"), ("i2", "n"))),
)
ROWS = renamed(A, "", "g", "i"), renamed(B, "2", "g", "i")
QUERIES = {
    "results": windows(join_of(*RESULTS, (8, 5), "g = g2"), 12, 6, "g"),
    "results semi": windows(join_of(*RESULTS, (8, 5), "g = g2", "semi"), 12, 6, "g"),
    "rows": windows(join_of(*ROWS, (L.Window(rows=2), 9), "g = g2", "full"), 12, 6, "g"),
    "alone": windows(join_of(*ROWS, (8, 5), "g = g2", "left"), 12, 6, "g"),
}
POLICIES: dict[str, Disorder] = {"a": sw.bounded(5), "b": sw.bounded(2)}
PAGES = {
    "a": [[[1, "x"], [2, "y"], [6, "x"]], [[9, "x"], [5, "x"], [11, "z"]], [[17, "x"], [21, "y"]]],
    "b": [[[2, "x"], [3, "y"], [4, "x"]], [[8, "y"], [7, "x"], [12, "x"]], [[19, "y"], [18, "x"]]],
}


def answers(rows: list[dict[str, Any]], kind: str) -> list[str]:
    """What was said of each window and group, early or in the end."""
    values = ("n_seen", "whole_seen") if kind == "early" else ("n", "whole")
    columns = ("window_start", "g", *values)
    return sorted(repr([row.get(c) for c in columns]) for row in rows if row["kind"] == kind)


def pages(name: str) -> list[Any]:
    return [frame([[t, g, 0, 0.25, t] for t, g in rows]) for rows in PAGES[name]]


def test_early_answers_over_joins_agree_with_pages_in_process(spark: SparkSession, tmp_path: Path) -> None:
    got: dict[str, list[dict[str, Any]]] = {name: [] for name in QUERIES}

    def session_of(*numbers: int) -> None:
        with sw.Session(spark, journal=tmp_path / "journal") as session:
            for name, policy in POLICIES.items():
                (tmp_path / name).mkdir(exist_ok=True)
                files = spark.readStream.schema(SPARK).parquet(str(tmp_path / name))
                session.stream(name, files, time="t", disorder=policy)

            def keeping(name: str) -> Any:
                def keep(df: DataFrame, commit_id: int) -> None:
                    got[name] += df.toArrow().to_pylist()

                return keep

            runs = [sw.Query(session, query).start(sink=keeping(n), name=n) for n, query in QUERIES.items()]
            for number in numbers:
                for name in "ab":
                    write(tmp_path / name, number, pages(name)[number])
                    session.run_available(drain=False)
                    for run in runs:
                        run.prod()
            if not numbers:
                session.run_available()
                joins = [join for run in runs for join in run.metrics()["joins"].values()]
                kept = sum(join["left_rows"] + join["right_rows"] for join in joins)
                left = (tmp_path / "journal" / "spill").rglob("*.parquet")
                assert sum(pq.read_metadata(f).num_rows for f in left) == kept, "early rows leave no file"

    session_of(0, 1)
    session_of(2)
    session_of()
    for name, query in QUERIES.items():
        script = Script(plan(query, POLICIES))
        for number in range(3):
            for stream in "ab":
                script.page(pages(stream)[number], stream=stream).prod()
        wanted = script.drain().results
        assert answers(got[name], "early") == answers(wanted, "early") and len(answers(wanted, "early")) > 5, name
        # A live stream may go on, so rows that may find a partner yet are not out.
        ours, theirs = answers(got[name], "final"), answers(wanted, "final")
        assert ours and set(ours) <= set(theirs) and len(ours) == len(set(ours)), name


JOINED = """SELECT count(*) AS n FROM s [ROWS 2] AS a JOIN s [ROWS 2] AS b ON a.sensor = b.sensor
            WINDOW [RANGE 30 SECONDS, SLIDE 30 SECONDS]"""


def test_a_join_of_rows_is_asked_by_a_stream_and_by_its_sink(spark: SparkSession) -> None:
    asks = spark.sql("SELECT timestamp_seconds(119) AS asked")
    with sw.Session(spark) as s:
        rows = readings(spark)
        s.stream("s", rows, time="time", arrival="seen", page="10 seconds", disorder=sw.bounded("5 seconds"))
        s.stream("ask", asks, time="asked", arrival="asked", role="prods")
        run = s.sql(JOINED).start(lambda rows, commit_id: True, name="joined")
        s.run_available()
        figures = run.metrics()
        assert figures["results"] > 0 and figures["early_results"] > 0 and "prods_refused" not in figures
        assert (figures["prod_streams"]["ask"]["prods"], figures["prod_streams"]["ask"]["refused"]) == (1, 0)
