"""Nexmark's queries answer what polars finds in all rows at once, although rows come late or bids stay away."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from benchmarks.auctions import ours
from benchmarks.auctions.events import House, write
from benchmarks.auctions.queries import QUERIES, READS
from benchmarks.auctions.truth import TRUTH, differences

#: Rows up to three seconds late, and no bids for longer than a window.
HOUSE = House(4_000, 100, delay=3.0, quiet=(12.0, 25.0))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("names", "page"),
    [
        # A join of streams, and one of results with results.
        pytest.param(["q3", "q8"], None, id="live"),
        # Further results with results, and rows with results; the other streams wait for the bids.
        pytest.param(["q5", "q7"], "10 seconds", id="replayed"),
    ],
)
def test_answers_are_those_of_all_rows_at_once(
    spark: SparkSession, tmp_path: Path, names: list[str], page: str | None
) -> None:
    events = HOUSE.make()
    write(events, tmp_path, 3)
    got = ours.answers(spark, HOUSE, names, tmp_path, page)
    for name in names:
        assert differences(TRUTH[name](events), got[name]) is None, name


def test_every_query_has_an_answer_to_compare_with_in_every_house() -> None:
    assert set(QUERIES) == set(TRUTH) == set(READS)
    events = HOUSE.make()
    for name, truth in TRUTH.items():
        assert truth(events).height > 0, name


def test_differences_are_found() -> None:
    rows = pl.DataFrame({"a": [1, 2, 2], "x": [0.1, 0.2, 0.3]})
    assert differences(rows, rows.reverse().with_columns(more=1)) is None
    assert differences(rows, rows.head(2)) == "3 rows expected, 2 came"
    assert differences(rows, rows.drop("x")) == "no columns x; there are a"
    assert differences(rows, rows.with_columns(x=pl.Series([0.1, 0.2, 0.4]))) is not None
    assert differences(rows, rows.with_columns(a=pl.Series([1, 1, 2]))) is not None
