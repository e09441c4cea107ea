"""Results in a table of PostgreSQL: each row once whatever crashes, and the last one of each key."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError, SinkError
from slackwater.spark.sinks.result_rows import ResultColumns
from tests.kit import table_job
from tests.kit.faults import Fate
from tests.kit.postgres import PASSWORD, Server, ask
from tests.kit.tables import TableWorld

pytestmark = pytest.mark.postgres

AT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.string()), ("avg(x)", pa.float64()), ("at", AT), ("n_seen", pa.int64())])
COLUMNS = ResultColumns(SCHEMA, frozenset({"n_seen"}))
MORTAL = ("put", "_note", "_write")


def rows(*values: tuple[str | None, float, int]) -> pa.Table:
    """Rows as they come: final ones lack the columns of early ones."""
    arrays = [pa.array([v[n] for v in values], SCHEMA.field(n).type) for n in range(3)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(SCHEMA)[:3]))


def read(database: str, table: str = "out") -> list[tuple[Any, ...]]:
    found = ask(database, f'SELECT k, "avg(x)", (extract(epoch FROM at) * 1000000)::bigint FROM {table}')
    return sorted(found, key=str)


def commits() -> list[Any]:
    """Small ones and, twice, files of Spark."""
    small = [rows((f"a{n}", n, n), ('"b', n, 10 + n)) for n in range(6)]
    small[2:2] = [[rows(("staged", 1, 101), (None, 2, 102)), rows(("", 3, 103))]]
    return [*small, [rows(("staged", 4, 104))]]


def test_a_crash_at_any_point_leaves_each_row_once(database: str, tmp_path: Path) -> None:
    def world(name: str) -> TableWorld:
        made = sw.sinks.postgres(database, name, every="10 seconds")
        return TableWorld(made, COLUMNS, tmp_path / name, commits(), MORTAL, name)

    calm, fate = world("calm"), Fate()
    assert calm.live(fate)
    wanted = read(database, "calm")
    assert len(wanted) == 16 and len(set(wanted)) == 16 and ("", 3.0, 103) in wanted
    assert fate.count > 40
    for at in range(1, fate.count + 1):
        stormy = world(f"at{at}")
        assert not stormy.live(Fate(at))
        seen = read(database, f"at{at}")
        assert len(set(seen)) == len(seen) and set(seen) <= set(wanted), at
        stormy.live(Fate(random.Random(at).randrange(2, 12)))
        assert stormy.live(Fate())
        assert read(database, f"at{at}") == wanted, at


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_with_a_key_the_table_is_the_last_row_of_each_key(
    server: Server, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    row = st.tuples(st.sampled_from(["a", "b", None, "it's"]), st.integers(0, 50).map(float), st.integers(0, 3))
    commit = st.tuples(st.booleans(), st.lists(row, min_size=1, max_size=6))
    some, database = data.draw(st.lists(commit, min_size=1, max_size=4)), server.database()
    sink = sw.sinks.postgres(database, "out", key=("k", "at"), every="6 seconds")
    written = [[rows(*part[:3]), rows(*part)] if files else rows(*part) for files, part in some]
    world = TableWorld(sink, COLUMNS, tmp_path_factory.mktemp("journal"), written, MORTAL)
    world.live(Fate(data.draw(st.integers(1, 30))))
    assert world.live(Fate())
    wanted = {(k, at): (k, v, at) for _, part in some for k, v, at in part}
    assert read(database) == sorted(wanted.values(), key=str)


def test_all_types_come_through(database: str, tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 10, 30, 0, 5, UTC)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), True),
        "small": (pa.int16(), -3),
        "whole": (pa.int32(), 7),
        "real": (pa.float32(), 0.5),
        "exact": (pa.float64(), 0.1 + 0.2),
        "wide": (pa.float64(), float("-inf")),
        "money": (pa.decimal128(12, 2), Decimal("-1234567890.12")),
        "text": (pa.string(), 'a "b",\n\\N é\t'),
        "empty": (pa.string(), ""),
        "raw": (pa.binary(), b"\x00\xff,"),
        "day": (pa.date32(), date(2026, 3, 1)),
        "utc": (AT, moment),
        "local": (pa.timestamp("us"), moment.replace(tzinfo=None)),
        "many": (pa.list_(pa.int64()), [1, None]),
        "pair": (pa.struct([("a", pa.string())]), {"a": 'x"'}),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in values.items()])
    full = pa.table({name: pa.array([value, None], kind) for name, (kind, value) in values.items()}, schema)
    sink = sw.sinks.postgres(database, "out")
    assert TableWorld(sink, ResultColumns(schema), tmp_path, [full]).live(Fate())
    assert ask(database, "SELECT * FROM out") == [tuple(v for _, v in values.values()), (None,) * len(values)]
    with pytest.raises(QueryError, match=r"column 'took' is a duration.*cast it with select"):
        odd = ResultColumns(pa.schema([("took", pa.duration("us"))]))
        TableWorld(sw.sinks.postgres(database, "other"), odd, tmp_path, []).sink()


def test_a_server_may_be_started_again_between_two_writes(server: Server, tmp_path: Path) -> None:
    database = server.database()
    sink = TableWorld(sw.sinks.postgres(database, "out", every="0 seconds"), COLUMNS, tmp_path, []).sink()
    sink.write(rows(("a", 1, 1)), 0)
    server.stop()
    server.start()
    sink.write(rows(("b", 1, 1)), 1)
    assert read(database) == [("a", 1.0, 1), ("b", 1.0, 1)]


def test_two_processes_that_write_one_commit_do_not_both_write_it(database: str, tmp_path: Path) -> None:
    world = TableWorld(sw.sinks.postgres(database, "out", every="0 seconds"), COLUMNS, tmp_path, [])
    first, second = world.sink(), world.sink()
    for sink in (first, second, first):
        sink.write(rows(("a", 1, 1)), 0)
    assert read(database) == [("a", 1.0, 1)]


def test_a_table_of_others_needs_the_columns_and_the_key(database: str, tmp_path: Path) -> None:
    def open_with(*key: str) -> None:
        TableWorld(sw.sinks.postgres(database, "s.out", key=key), COLUMNS, tmp_path, [rows(("a", 1, 1))]).live(
            Fate()
        )

    ask(database, "CREATE SCHEMA s")
    ask(database, "CREATE TABLE s.out (k text, at timestamptz, more int DEFAULT 7)")
    with pytest.raises(
        SinkError, match=r"the table 's.out' of PostgreSQL at 127.0.0.1:\d+/d\w+ has no column 'avg"
    ):
        open_with()
    ask(database, 'ALTER TABLE s.out ADD "avg(x)" int')
    open_with()
    assert ask(database, "SELECT * FROM s.out") == [("a", datetime.fromtimestamp(1e-6, UTC), 7, 1)]
    ask(database, "CREATE UNIQUE INDEX ON s.out (k, at)")
    with pytest.raises(
        SinkError, match=r'CREATE UNIQUE INDEX ON "s"."out" \("k", "at"\) NULLS NOT DISTINCT'
    ) as told:
        open_with("k", "at")
    ask(database, str(told.value).split("make one: ")[1])
    open_with("k", "at")


def test_late_rows_make_the_table_when_they_come(database: str, tmp_path: Path) -> None:
    world = TableWorld(sw.sinks.postgres(database, "out"), ResultColumns(), tmp_path, [[rows(("a", 1, 1))]])
    world.sink()
    assert ask(database, "SELECT to_regclass('out')") == [(None,)]
    assert world.live(Fate())
    assert read(database) == [("a", 1.0, 1)]


def test_no_message_has_the_password(server: Server, tmp_path: Path) -> None:
    assert PASSWORD not in repr(sw.sinks.postgres(server.address("none"), "out"))
    wrong = server.address("none").replace(PASSWORD, "leopard")
    for address, message in (
        (server.address("none"), "cannot open the table 'out' .*does not exist"),
        (wrong, "password authentication failed"),
        (f"{wrong} host=x", "cannot open|cannot be read"),
        ("password=leopard xyz", "the address of the database cannot be read; write 'postgresql://user@host"),
    ):
        with pytest.raises((SinkError, QueryError), match=message) as told:
            TableWorld(sw.sinks.postgres(address, "out"), COLUMNS, tmp_path, []).sink()
        assert "leopard" not in str(told.value) and PASSWORD not in str(told.value)


@pytest.mark.spark
def test_killed_before_and_after_its_transaction_a_query_writes_each_row_once(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    wanted = table_job.recomputed(table_job.write_rows(tmp_path, seed=3))
    sink = f"postgres('{database}', 'out', every = '0 seconds', key = ('k', 'window_start', 'window_end'))"
    for point in ("after", "before"):
        table_job.die(tmp_path, sink, point, 2)
        assert 0 < len(ask(database, "SELECT * FROM out")) < len(wanted)
    table_job.work(spark, tmp_path, sink)
    assert sorted(ask(database, "SELECT window_start, k, n FROM out"), key=str) == wanted
