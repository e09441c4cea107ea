"""Early answers that a join would make too small are refused however they are asked for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from tests.kit.traffic_on_spark import readings

pytestmark = pytest.mark.spark

JOINED = """SELECT count(*) AS n FROM s [ROWS 2] AS a JOIN s [ROWS 2] AS b ON a.sensor = b.sensor
            WINDOW [RANGE 30 SECONDS, SLIDE 30 SECONDS]"""


def test_a_join_of_rows_is_not_asked_early(spark: SparkSession) -> None:
    asks = spark.sql("SELECT timestamp_seconds(119) AS asked")
    with sw.Session(spark) as s:
        rows = readings(spark)
        s.stream("s", rows, time="time", arrival="seen", page="10 seconds", disorder=sw.bounded("5 seconds"))
        s.stream("ask", asks, time="asked", arrival="asked", role="prods")
        with pytest.raises(QueryError, match=r"early=: this query joins windows of rows"):
            s.sql(JOINED).start(early=sw.early(at=0.5))
        with pytest.raises(QueryError, match=r"early=: this query joins windows of rows"):
            s.sql(f"{JOINED} EMIT EARLY AT 50%").start()
        asked: list[object] = []

        def take(rows: object, commit_id: int) -> bool:
            asked.append(rows)
            return True

        run = s.sql(JOINED).start(take, name="joined")
        with pytest.raises(QueryError, match=r"prod\(\): this query joins windows of rows.*give the join a range"):
            run.prod()
        with pytest.raises(QueryError, match=r"prod\(\): this query joins windows of rows"):
            s.sql("PROD joined")
        s.run_available()
        figures = run.metrics()
        assert figures["results"] > 0 and figures["early_results"] == 0
        assert figures["prods_refused"] == len(asked)
        assert (figures["prod_streams"]["ask"]["prods"], figures["prod_streams"]["ask"]["refused"]) == (1, 1)
