"""first and last of several columns come from one row on Spark too: resident, spilled, for each row, filtered."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_both_page_kinds import Scenario, on_spark

pytestmark = pytest.mark.spark

#: Simultaneous rows in two pages, and one that a filter drops; by (v, p) the last is (2.0, 7).
PAGES: list[list[Any]] = [[(5, "a", 1.0, 9), (5, "a", 2.0, 6), (5, "x", 3.0, 1)], [(5, "a", 2.0, 7)]]
ENDS = {"fv": "first(v)", "fp": "first(p)", "lv": "last(v)", "lp": "last(p)"}


@pytest.mark.parametrize(
    ("window", "resident_limit"),
    [({"range": 10, "slide": 5}, 2**28), ({"range": 10, "slide": 5}, 0), ({"range": 7}, 2**28)],
    ids=["resident", "spilled", "for each row"],
)
def test_simultaneous_rows_give_whole_rows(
    spark: SparkSession, window: dict[str, int], resident_limit: int
) -> None:
    scenario = Scenario(PAGES, window, 5, (), "k = 'a'", aggregates=ENDS, resident_limit=resident_limit)
    rows, _, _ = on_spark(spark, scenario)
    assert rows and {tuple(row[name] for name in ENDS) for row in rows} == {(1.0, 9, 2.0, 7)}
