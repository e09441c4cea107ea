"""S5 section 3.2 b on Spark: prods that ride in the stream of data, in a replay and in SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.kit.kept_rows import KeptRows
from tests.kit.traffic_on_spark import readings, said

pytestmark = pytest.mark.spark


def test_s5_section_3_2_b_prods_ride_in_the_stream(spark: SparkSession) -> None:
    rows = [(100, 1, 40), (105, 2, 30), (120, -1, 0), (112, 2, 25), (121, 1, 10), (122, 2, 1), (140, 1, 0)]
    with sw.Session(spark) as s:
        stream = s.stream(
            *("s", readings(spark, rows)),
            **{"time": "time", "arrival": "seen", "page": "10 seconds", "prods": "sensor < 0"},
            disorder=sw.bounded("60 seconds"),
        )
        run = stream.window("60 seconds").agg(v="sum(volume)", n="count(*)").start(kept := KeptRows())
        plain = stream.start()
        s.run_available()
        # The prod is in the page of 120 to 130: it follows the rows of that page, and asks for windows up to 120.
        assert said(kept.results(), "v_seen", "n_seen")[:1] == [("early", 120, 95, 3)]
        assert [r for r in said(kept.results(), "v", "n") if r[0] == "final"] == [
            ("final", 120, 95, 3),
            ("final", 180, 11, 3),
        ]
        assert plain.results().num_rows == 6
        figures = run.metrics()
        assert (figures["rows"], figures["missing_time"]) == (6, 0)


def test_sql_has_words_for_it(spark: SparkSession) -> None:
    readings(spark).createOrReplaceTempView("prods_in_stream")
    with sw.Session(spark) as s:
        rows, late = readings(spark), sw.bounded("1 s")
        for prods, says in (
            ("nope = 1", "prods 'nope = 1': there is no"),
            ("sensor = 1 AND", "prods"),
            ("", "prods="),
        ):
            with pytest.raises(sw.QueryError, match=f"stream 'wrong': {says}"):
                s.stream("wrong", rows, time="time", arrival="seen", prods=prods, disorder=late)
        known = s.stream("known", rows, time="time", arrival="seen", disorder=late)
        with pytest.raises(sw.QueryError, match="where 'sensor = 1 AND'"):
            known.where("sensor = 1 AND").start()
        with pytest.raises(sw.QueryError, match="a stream of prods moves no time"):
            s.stream("ask", readings(spark), time="time", arrival="seen", role="prods", prods="sensor = 1")
        with pytest.raises(sw.QueryError, match="needs rows with a time"):
            s.stream("t", readings(spark), time=sw.internal(), arrival="seen", prods="sensor = 1")
        with pytest.raises(sw.QueryError, match="nothing"):
            s.stream("t", readings(spark), time="time", arrival="seen", prods="nothing", disorder=sw.bounded("1 s"))
