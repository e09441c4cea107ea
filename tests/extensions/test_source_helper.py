"""A source helper of one's own: `readings(spark, file)` follows a growing CSV file of a gauge, by its lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

import slackwater as sw

pytestmark = pytest.mark.spark


class Readings(DataSource):
    """Spark's contract for a source in Python: a name, a schema, a reader that knows offsets."""

    @classmethod
    def name(cls) -> str:
        return "gauge_readings"

    def schema(self) -> str:
        return "seconds BIGINT, level DOUBLE"

    def simpleStreamReader(self, schema: StructType) -> Lines:
        return Lines(self.options["path"])


class Lines(SimpleDataSourceStreamReader):
    """The offset is the number of lines that were read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:
        return {"line": 0}

    def _lines(self, first: int, last: int | None) -> list[tuple[int, float]]:
        written = Path(self._path).read_text().splitlines()[first:last]
        return [(int(time), float(level)) for time, level in (line.split(",") for line in written)]

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        found = self._lines(start["line"], None)
        return iter(found), {"line": start["line"] + len(found)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        return iter(self._lines(start["line"], end["line"]))


def readings(spark: SparkSession, file: Path) -> DataFrame:
    """The helper that users call: a streaming DataFrame for `session.stream(…)`."""
    spark.dataSource.register(Readings)
    return spark.readStream.format(Readings.name()).load(str(file))


def test_a_stream_of_it_is_read_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "gauge.csv"
    file.write_text("1,3.0\n4,5.0\n12,7.0\n")
    with sw.Session(spark) as session:
        gauge = session.stream("gauge", readings(spark, file), time="seconds", disorder=sw.bounded(2))
        run = gauge.window(10, 10).agg(n="count(*)", top="max(level)").start(hold=True)
        session.run_available(drain=False)
        with file.open("a") as more:
            more.write("9,8.0\n25,1.0\n")
        session.run_available()
        found = [(row["window_start"], row["n"], row["top"]) for row in run.results().to_pylist()]
    assert found == [(0, 2, 5.0), (10, 1, 7.0), (20, 1, 1.0)]
    assert run.metrics()["late_rows"] == 1, "9 came behind 12 - 2"
