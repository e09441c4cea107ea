"""CUBE on Spark, beside Spark's own over the same rows; the steps of Python are the text of SQL."""

from __future__ import annotations

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark


def test_a_cube_is_that_of_spark_by_source_in_one_job_a_page(spark: SparkSession) -> None:
    df = spark.range(600).selectExpr(
        "timestamp_seconds(id * 7 % 600) AS t",
        "timestamp_seconds(id) AS at",
        "id % 3 AS a",
        "IF(id % 7 = 0, NULL, CAST(id % 5 AS STRING)) AS b",
        "CAST(id AS DECIMAL(9, 2)) AS v",
    )
    with sw.Session(spark) as s:
        rows = s.stream(
            "rows", df, time="t", arrival="at", page="200 seconds", disorder=sw.bounded("10 minutes"), source="a"
        )
        query = (
            rows.window("5 minutes")
            .cube("a", "b")
            .agg(n="count(*)", v="sum(v)", d="count(DISTINCT v)", gid="grouping_id()", ga="grouping(a)")
        )
        assert s.sql(query.to_sql())._plan == query._plan
        run = query.start()
        s.run_available(drain=True)
        assert run.metrics()["pages"] == 3
        assert run.metrics()["spark_jobs"] < 2 * 3 + 4
        names = ["a", "b", "n", "v", "d", "gid", "ga", "window_start"]
        found = pl.DataFrame(run.results()).select(names).sort(names)
        df.createOrReplaceTempView("grouped_rows")
        wanted = spark.sql(
            "SELECT a, b, count(*) AS n, sum(v) AS v, count(DISTINCT v) AS d, grouping_id(w, a, b) AS gid, "
            "grouping(a) AS ga, w AS window_start FROM (SELECT *, window(t, '5 minutes').start AS w "
            "FROM grouped_rows) GROUP BY GROUPING SETS ((w, a, b), (w, a), (w, b), (w))"
        )
        assert found.equals(pl.DataFrame(wanted.toArrow()).cast(dict(found.schema)).sort(names))

        window = rows.window("5 minutes")
        text = window.group_by("a").rollup("b").agg(n="count(*)").to_sql()
        assert text.endswith("GROUP BY GROUPING SETS ((a, b), (a))")
        text = window.grouping_sets([["b"], []], "a", "b").agg(n="count(*)").to_sql()
        assert text.endswith("GROUP BY GROUPING SETS ((b), ())")
        with pytest.raises(QueryError, match="'c' is not among the columns"):
            window.grouping_sets([["c"]], "a", "b")
