"""Results in a Delta table: each row once whatever crashes, and rows that replace earlier ones by their key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError, SinkError
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.sinks.result_rows import ResultColumns
from slackwater.testing import arrow_plan
from tests.kit import table_job
from tests.kit.faults import Fate
from tests.kit.streams import SAMPLE
from tests.kit.tables import TableWorld, pages_of

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("avg(x)", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("many", pa.list_(pa.int64())),
        ("n_seen", pa.int64()),
    ]
)
COLUMNS = ResultColumns(SCHEMA, frozenset({"n_seen"}))
MORTAL = ("put", "_commit", "_merge_batch", "_force")


def rows(*values: tuple[str | None, float, int]) -> pa.Table:
    """Rows as they come: final ones lack the columns of early ones."""
    columns = [[v[0] for v in values], [v[1] for v in values], [v[2] for v in values], [[v[2]] for v in values]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=False)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(SCHEMA)[:4]))


def read(folder: Path) -> list[tuple[Any, ...]]:
    """All rows of the table, as another program reads them."""
    table = pl.from_arrow(DeltaTable(folder).to_pyarrow_table())
    assert isinstance(table, pl.DataFrame)
    return sorted(table.with_columns(pl.col("at").dt.epoch("us")).select("k", "avg(x)", "at").rows(), key=str)


def commits() -> list[Any]:
    """Small ones and, twice, files of Spark."""
    small = [rows((f"a{n}", n, n), ("b", n, 10 + n)) for n in range(6)]
    small[2:2] = [[rows(("staged", 1, 101), (None, 2, 102)), rows(("staged", 3, 103))]]
    return [*small, [rows(("staged", 4, 104))]]


def test_a_crash_at_any_point_leaves_each_row_once(tmp_path: Path) -> None:
    def world(name: str) -> TableWorld:
        made = sw.sinks.delta(tmp_path / name / "out")
        return TableWorld(made, COLUMNS, tmp_path / name / "journal", commits(), MORTAL)

    calm, fate = world("calm"), Fate()
    assert calm.live(fate)
    wanted = read(tmp_path / "calm/out")
    assert len(wanted) == 16 and len(set(wanted)) == 16
    assert fate.count > 40
    for at in range(1, fate.count + 1):
        stormy = world(str(at))
        assert not stormy.live(Fate(at))
        seen = read(tmp_path / str(at) / "out")
        assert len(set(seen)) == len(seen) and set(seen) <= set(wanted), at
        stormy.live(Fate(random.Random(at).randrange(2, 12)))
        assert stormy.live(Fate())
        assert read(tmp_path / str(at) / "out") == wanted, at


def test_rows_that_wait_make_one_version(tmp_path: Path) -> None:
    world = TableWorld(
        sw.sinks.delta(tmp_path / "out", every="1 hour"), COLUMNS, tmp_path / "j", [rows(("a", 1, 1))] * 40
    )
    assert world.live(Fate())
    assert DeltaTable(tmp_path / "out").version() == 2, "the table, the first commit, and all others"


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_with_a_key_the_table_is_the_last_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("delta")
    row = st.tuples(st.sampled_from(["a", "b", None, "it's"]), st.integers(0, 50).map(float), st.integers(0, 3))
    some = data.draw(
        st.lists(st.tuples(st.booleans(), st.lists(row, min_size=1, max_size=6)), min_size=1, max_size=4)
    )
    # A commit of files has each key once: it is what one close of windows gives.
    world = TableWorld(
        sw.sinks.delta(root / "out", key=("k", "at"), every="6 seconds"),
        COLUMNS,
        root / "journal",
        [
            [rows(*{(k, at): (k, v, at) for k, v, at in part}.values())] if staged else rows(*part)
            for staged, part in some
        ],
        MORTAL,
    )
    world.live(Fate(data.draw(st.integers(1, 30))))
    assert world.live(Fate())
    wanted = {(k, at): (k, v, at) for _, part in some for k, v, at in part}
    assert read(root / "out") == sorted(wanted.values(), key=str)


def test_files_of_spark_are_a_part_of_the_table_as_they_are(tmp_path: Path) -> None:
    world = TableWorld(sw.sinks.delta(tmp_path / "out"), COLUMNS, tmp_path / "journal", commits())
    assert world.live(Fate())
    names = {path.name for path in (tmp_path / "out").glob("*.parquet")}
    assert {
        "part-run-000002-part-0.parquet",
        "part-run-000002-part-1.parquet",
        "part-run-000007-part-0.parquet",
    } < names


def test_a_table_of_others_keeps_its_types_its_parts_and_its_further_columns(tmp_path: Path) -> None:
    there = pa.table(
        {"k": ["theirs"], "avg(x)": pa.array([0], pa.int32()), "at": pa.array([0], SCHEMA.field("at").type)}
    )
    there = there.append_column("more", pa.array([7])).append_column("many", pa.array([[1]], pa.list_(pa.int64())))
    write_deltalake(tmp_path / "out", there, partition_by=["k"])
    world = TableWorld(sw.sinks.delta(tmp_path / "out"), COLUMNS, tmp_path / "journal", commits())
    assert world.live(Fate())
    table = DeltaTable(tmp_path / "out").to_pyarrow_table()
    assert table.schema.field("avg(x)").type == pa.int32() and "n_seen" not in table.schema.names
    assert table.num_rows == 17 and sum(n is None for n in table["more"].to_pylist()) == 16
    assert len(set(read(tmp_path / "out"))) == 17


def test_a_table_without_a_column_of_the_results_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "out", pa.table({"k": ["a"], "at": pa.array([0], SCHEMA.field("at").type)}))
    with pytest.raises(
        SinkError, match=r"the Delta table '.*out' has no column 'avg\(x\)'; add it there, or leave it"
    ):
        TableWorld(sw.sinks.delta(tmp_path / "out"), COLUMNS, tmp_path / "journal", []).sink()


def test_late_rows_make_the_table_when_they_come(tmp_path: Path) -> None:
    world = TableWorld(sw.sinks.delta(tmp_path / "out"), ResultColumns(), tmp_path / "journal", [rows(("a", 1, 1))])
    world.sink()
    assert not DeltaTable.is_deltatable(str(tmp_path / "out"))
    assert world.live(Fate())
    assert read(tmp_path / "out") == [("a", 1.0, 1)]


def test_two_processes_that_write_one_commit_do_not_both_write_it(tmp_path: Path) -> None:
    world = TableWorld(sw.sinks.delta(tmp_path / "out", every="0 seconds"), COLUMNS, tmp_path / "journal", [])
    first, second = world.sink(), world.sink()
    for sink in (first, second, first):
        sink.write(rows(("a", 1, 1)), 0)
    assert read(tmp_path / "out") == [("a", 1.0, 1)]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("g", "window_strt"), r"delta\(key=\('g', 'window_strt'\)\): .* no column 'window_strt' \(did you mean"),
        (
            "g",
            r"results that differ in window_start, window_end would replace each other; write key=\('window_start'",
        ),
    ],
)
def test_a_key_must_tell_results_apart(tmp_path: Path, key: Any, message: str) -> None:
    plan = arrow_plan(SAMPLE, 4, 4, group_by=["g"], disorder=sw.bounded(0), n="count(*)")
    with pytest.raises(QueryError, match=message):
        sw.sinks.delta(tmp_path, key=key).table("run", pages_of(tmp_path), ResultColumns.of(plan))
    with pytest.raises(QueryError, match="late rows have no key; leave key= out"):
        sw.sinks.delta(tmp_path, key=key).table("run", pages_of(tmp_path), ResultColumns.of(None))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(SinkError, match=r"deltalake is not installed; run: pip install 'slackwater\[delta\]'"):
        sw.sinks.delta("out")


def test_settings_of_a_table_hide_its_options() -> None:
    assert "tiger" not in repr(sw.sinks.delta("out", options={"AWS_SECRET_ACCESS_KEY": "tiger"}))


def counts(folder: Path) -> list[tuple[Any, ...]]:
    table = pl.from_arrow(DeltaTable(folder).to_pyarrow_table())
    assert isinstance(table, pl.DataFrame)
    return sorted(table.select("window_start", "k", "n").rows(), key=str)


@pytest.mark.spark
def test_many_rows_come_to_the_table_as_files_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskLayout, "SMALL", 0)
    written = table_job.write_rows(tmp_path, seed=1)
    frame = spark.read.parquet(f"{tmp_path}/rows").selectExpr("*", "timestamp_seconds(t) AS at")
    with sw.Session(spark) as session:
        rows = session.stream("rows", frame, time="at", arrival="at", disorder=sw.bounded("20 seconds"))
        rows.select("k", "v", "at").start(sink=sw.sinks.delta(tmp_path / "out"))
        session.run_available()
    assert any(path.name.startswith("part-") and "-part-" in path.name for path in (tmp_path / "out").iterdir())
    table = DeltaTable(tmp_path / "out").to_pyarrow_table()
    at = [moment.timestamp() for moment in table["at"].to_pylist()]
    found = zip(at, table["k"].to_pylist(), table["v"].to_pylist(), strict=True)
    assert sorted(found, key=str) == sorted(((float(t), k, v) for t, k, v in written), key=str)


@pytest.mark.spark
def test_early_answers_are_replaced_by_final_ones_of_their_key(spark: SparkSession, tmp_path: Path) -> None:
    wanted = table_job.recomputed(table_job.write_rows(tmp_path, seed=2))
    frame = spark.read.parquet(f"{tmp_path}/rows").selectExpr("*", "timestamp_seconds(t) AS at")
    with sw.Session(spark) as session:
        rows = session.stream("rows", frame, time="t", arrival="at", page="15 seconds", disorder=sw.bounded(20))
        query = rows.window(20, slide=10).group_by("k").agg(n="count(*)")
        key = ("k", "window_start", "window_end")
        sink = sw.sinks.delta(tmp_path / "out", key=key, every="0 seconds")
        run = query.start(sink=sink, late=sw.sinks.delta(tmp_path / "late"), early=sw.early(at=0.5))
        session.run_available()
        assert run.metrics()["early_results"] > 0
    assert counts(tmp_path / "out") == wanted
    kinds = DeltaTable(tmp_path / "out").to_pyarrow_table()["kind"].to_pylist()
    assert set(kinds) == {"final"} and not DeltaTable.is_deltatable(str(tmp_path / "late"))


@pytest.mark.spark
def test_killed_before_and_after_its_transaction_a_query_writes_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = table_job.recomputed(table_job.write_rows(tmp_path, seed=3))
    sink = f"delta('{tmp_path}/out', every = '0 seconds')"
    for point in ("after", "before"):
        table_job.die(tmp_path, sink, point, 2)
        assert 0 < len(counts(tmp_path / "out")) < len(wanted)
    table_job.work(spark, tmp_path, sink)
    assert counts(tmp_path / "out") == wanted
