"""`s.state()` while a query runs, and from the journal of a session that has stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("limit", [2**28, 1])
def test_the_open_windows_live_and_from_a_journal(spark: SparkSession, tmp_path: Path, limit: int) -> None:
    """Also of windows that have been spilled to files."""
    rows = pl.DataFrame({"t": [1, 5, 12, 13], "k": ["a", "b", "a", "a"], "v": [1, 2, 3, 4]})
    (tmp_path / "in").mkdir()
    rows.write_parquet(tmp_path / "in" / "0.parquet")

    def started(s: sw.Session) -> Any:
        frame = spark.readStream.schema("t LONG, k STRING, v LONG").parquet(str(tmp_path / "in"))
        stream = s.stream("rows", frame, time="t", disorder=sw.bounded(0))
        query = stream.window(10).group_by("k").agg(n="count(*)", total="sum(v)")
        return query.start(sink=tmp_path / "out", name="q", hold=True)

    wanted = [{"k": "a", "n": 2, "total": 7, "window_start": 10, "window_end": 20, "heartbeat": 12}]
    for life in range(2):
        with sw.Session(spark, journal=tmp_path / "journal", resident_limit=limit) as s:
            started(s)
            if not life:
                s.run_available(drain=False)
            assert s.state("q").to_pylist() == wanted
            assert s.sql("SHOW STATE OF q").to_pylist() == wanted
            with pytest.raises(QueryError, match="no such query is running; there are q"):
                s.state("other")
