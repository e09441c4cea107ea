"""Streams meet stored relations that change: appended to, overwritten while pages come, given by a function."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.spark.backend import stored_tables
from tests.kit.streams import frame
from tests.spark.test_union_on_spark import live, write

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("master", ["local", "a cluster"])
def test_each_page_meets_the_table_of_its_day(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    monkeypatch.setattr(stored_tables, "is_local", lambda _: master == "local")
    folder, found = str(tmp_path / "names"), list[Any]()

    def save(mode: str, *rows: tuple[str, str]) -> None:
        spark.createDataFrame(rows, "g STRING, name STRING").write.mode(mode).parquet(folder)

    save("overwrite", ("x", "one"))
    given = {"y": "why"}
    with sw.Session(spark) as session:
        streams = live(session, tmp_path)
        session.register_table("given", lambda: pa.table({"g": list(given), "other": list(given.values())}))
        named = streams["a"].select("t", "g").join(spark.read.parquet(folder), on="g", how="left")
        run = named.join("given", on="g", how="left").start(name="named", hold=True)

        def page(number: int) -> list[Any]:
            write(tmp_path / "a", number, frame([[10 * number, "x"], [10 * number + 1, "y"]]))
            session.run_available(drain=False)
            rows = run.results().to_pylist()[len(found) :]
            found.extend(rows)
            return sorted((row["g"], row["name"], row["other"]) for row in rows)

        assert page(1) == [("x", "one", None), ("y", None, "why")]
        save("append", ("y", "two"))
        assert page(2) == [("x", "one", None), ("y", "two", "why")]
        save("overwrite", ("x", "uno"))
        given.clear()
        given["x"] = "ex"
        assert page(3) == [("x", "uno", "ex"), ("y", None, None)]
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 'y' AS g, 'dos' AS name")
        assert page(4) == [("x", None, "ex"), ("y", "dos", None)]
        (Path(folder) / "_temporary").mkdir()
        for file in Path(folder).glob("part-*"):
            file.unlink()
        assert page(5) == [("x", None, "ex"), ("y", "dos", None)], "somebody is writing the table anew"


def test_a_table_may_be_overwritten_while_pages_come(spark: SparkSession, tmp_path: Path) -> None:
    """Every page sees a whole table: one of the versions, never none."""
    folder, over = str(tmp_path / "versions"), threading.Event()

    def save(version: int) -> None:
        rows = [(key, version) for key in range(3)]
        spark.createDataFrame(rows, "k INT, version INT").write.mode("overwrite").parquet(folder)

    def keep_saving() -> None:
        version = 1
        while not over.wait(2.0):
            save(version)
            version += 1

    save(0)
    df = spark.range(30).selectExpr(
        "CAST(id AS INT) AS t", "CAST(id % 3 AS INT) AS k", "timestamp_seconds(id) AS at"
    )
    writer = threading.Thread(target=keep_saving)
    with sw.Session(spark) as session:
        stream = session.stream("s", df, time="t", arrival="at", page="3 seconds", disorder=sw.bounded(0))
        run = stream.select("t", "k").join(spark.read.parquet(folder), on="k", how="left").start()
        writer.start()
        try:
            session.run_available()
        finally:
            over.set()
            writer.join()
        rows = sorted((row["t"], row["version"]) for row in run.results().to_pylist())
    versions = [version for _, version in rows]
    assert [t for t, _ in rows] == list(range(30)), "no row is lost, none meets two versions"
    assert None not in versions and versions == sorted(versions)
    for page in range(10):
        assert len({version for t, version in rows if t // 3 == page}) == 1


def test_what_is_no_table_is_told(spark: SparkSession) -> None:
    with sw.Session(spark) as session:
        with pytest.raises(QueryError, match="is no DataFrame of Spark"):
            session.register_table("names", lambda: 5)
        with pytest.raises(QueryError, match="this DataFrame is a stream"):
            session.register_table("names", lambda: spark.readStream.format("rate").load())
