"""A sink of one's own: rows in a SQLite table, each commit exactly once, also if a commit comes again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw

pytestmark = pytest.mark.spark


class Sqlite:
    """Appends rows to a table. The commit ids that it has taken lie in the same database, in one transaction."""

    def __init__(self, file: Path, table: str) -> None:
        self._file, self._table = file, table
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS commits (id INTEGER PRIMARY KEY)")

    def __call__(self, rows: DataFrame, commit_id: int) -> None:
        table = rows.select("k", "n", rows.window_start.cast("string").alias("start")).toArrow()
        with closing(sqlite3.connect(self._file)) as database, database:
            taken = database.execute("INSERT OR IGNORE INTO commits VALUES (?)", (commit_id,)).rowcount
            if taken:
                columns = ", ".join(table.column_names)
                database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns})")
                given = [tuple(row.values()) for row in table.to_pylist()]
                database.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?)", given)

    def rows(self) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self._file)) as database:
            return database.execute(f"SELECT * FROM {self._table} ORDER BY start, k").fetchall()


def test_each_commit_lands_once(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime.fromtimestamp(t, UTC) for t in (1, 4, 12, 31)]
    past = pl.DataFrame({"t": times, "k": ["a", "b", "a", "a"], "at": times})
    sink, commits = Sqlite(tmp_path / "answers.db", "counts"), list[tuple[DataFrame, int]]()

    def keep(rows: DataFrame, commit_id: int) -> None:
        commits.append((rows.localCheckpoint(), commit_id))
        sink(rows, commit_id)

    with sw.Session(spark) as session:
        rows = session.stream(
            "past", spark.createDataFrame(past.to_arrow()), time="t", arrival="at", disorder=sw.bounded("0 seconds")
        )
        query = rows.window("10 seconds", "10 seconds").group_by("k").agg(n="count(*)")
        query.start(sink=keep)
        session.run_available()
    found = sink.rows()
    assert [row[:2] for row in found] == [("a", 1), ("b", 1), ("a", 1), ("a", 1)]
    for again in commits:
        sink(*again)
    assert sink.rows() == found, "after a crash the last commit may come again"
