"""The sink for tables of PostgreSQL: COPY, or an upsert by key, in one transaction with the commit id.

slackwater_commits (run, commit_id)            beside the table: the last commit of each run that is in it

The transaction begins with the commit id, whose row it locks. So a commit that comes again is left out, and of two
processes that write the same commit the second finds it done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc

from slackwater.errors import QueryError, SinkError
from slackwater.masking import masked
from slackwater.progress.time import Span
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.result_rows import ResultColumns, batches, imported, last_of_key, read_key, schema_of
from slackwater.spark.sinks.table_sink import Table, TableSettings, read_every
from slackwater.spark.storage.storage_dir import StorageDir

_COMMITS = "slackwater_commits"
#: Unique indexes whose nulls are equal begin with this version of the server.
_OLDEST = 150_000
#: Arrow's checks of types, and what PostgreSQL calls them.
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: pa.types.is_int8(kind) or pa.types.is_int16(kind), "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "text"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_nested, "jsonb"),
)


@dataclass(frozen=True)
class Postgres(TableSettings):
    """A table of PostgreSQL; see `postgres`."""

    dsn: str = field(repr=False)
    name: str
    key: tuple[str, ...] = ()
    every: int = 1_000_000

    def table(self, run: str, pages: SparkBackend, columns: ResultColumns) -> Table:
        """The table."""
        columns.check_key("postgres", self.key)
        return PostgresTable(self, run, columns)


def postgres(dsn: str, table: str, key: str | Sequence[str] = (), every: Span = "1 second") -> Postgres:
    """Results in a table of PostgreSQL, each exactly once, as a sink for `start(sink=…)`.

    Args:
        dsn: address of the database, as in "postgresql://user@host:5432/database" or "host=… dbname=…". A password
            may stand there, in PGPASSWORD or in ~/.pgpass; no message shows it.
        table: its name, perhaps with a schema, as in "reports.late"; it is made if it is not there.
        key: columns by which a row replaces an earlier one, such as the group, window_start and window_end. Then an
            early answer is replaced by the final one. Without a key each row is added.
        every: rows wait for others, so that there is at most one transaction in this time.

    >>> postgres("postgresql://me:secret@db/flights", "late", key=("carrier", "window_start", "window_end"))
    Postgres(name='late', key=('carrier', 'window_start', 'window_end'), every=1000000)

    Needs the package psycopg: pip install 'slackwater[postgres]'.
    """
    imported("psycopg", "postgres")
    if not table.strip("."):
        raise QueryError(f"postgres(table={table!r}): give the name of a table, as in 'late' or 'reports.late'")
    return Postgres(dsn, table, read_key(key), read_every("postgres", every))


class PostgresTable:
    """Writes the rows of one run to a table."""

    advice = "see that the server runs and lets this user write to the table"

    def __init__(self, settings: Postgres, run: str, columns: ResultColumns) -> None:
        self._psycopg = imported("psycopg", "postgres")
        self._dsn = settings.dsn
        self._name = settings.name
        self._key = settings.key
        self._run = run
        self._columns = columns
        self.about = f"the table {settings.name!r} of PostgreSQL at {self._where()}"
        sql = self._psycopg.sql
        schema, _, _ = settings.name.rpartition(".")
        self._names = {
            "table": sql.Identifier(*settings.name.split(".")),
            "commits": sql.Identifier(*([schema] if schema else []), _COMMITS),
            "staged": sql.Identifier("slackwater_rows"),
            "key": sql.SQL(", ").join(map(sql.Identifier, settings.key)),
        }
        self._connection: Any = None
        self._kept: list[str] | None = None
        """The columns that are written."""

    def _where(self) -> str:
        """The address without the password."""
        try:
            address = self._psycopg.conninfo.conninfo_to_dict(self._dsn)
        except self._psycopg.ProgrammingError:
            raise QueryError(
                "postgres(…): the address of the database cannot be read; write "
                "'postgresql://user@host:5432/database' or 'host=… user=… dbname=…'"
            ) from None
        return f"{address.get('host', 'localhost')}:{address.get('port', 5432)}/{address.get('dbname', '')}"

    def _run_sql(self, text: str, values: Sequence[object] = (), **names: Any) -> Any:
        composed = self._psycopg.sql.SQL(text).format(**self._names, **names)
        return self._connection.execute(composed, values or None)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """A transaction of its own connection: an idle one might be cut, and would have to be closed."""
        with self._psycopg.connect(self._dsn) as self._connection:
            yield

    def open(self) -> int:
        """Connect, and make what is not there."""
        try:
            with self._connected():
                self._run_sql("CREATE TABLE IF NOT EXISTS {commits} (run text PRIMARY KEY, commit_id bigint)")
                if self._columns.schema is not None:
                    self._make(self._columns.schema)
                taken = self._run_sql("SELECT commit_id FROM {commits} WHERE run = %s", [self._run]).fetchone()
        except self._psycopg.Error as error:
            raise SinkError(f"cannot open {self.about}: {masked(str(error)).strip()}; {self.advice}") from error
        return -1 if taken is None else int(taken[0])

    def _make(self, schema: pa.Schema) -> None:
        """Make the table and its key if they are not there; then see which columns it takes."""
        if self._key and self._connection.info.server_version < _OLDEST:
            version = self._connection.info.server_version // 10_000
            raise SinkError(
                f"postgres(key=…) needs PostgreSQL 15 or later, and the server is {version}; leave key= out"
            )
        exists = "SELECT to_regclass(%s)"
        address = self._names["table"].as_string(self._connection)
        if self._run_sql(exists, [address]).fetchone()[0] is None:
            sql = self._psycopg.sql
            columns = [sql.Identifier(f.name) + sql.SQL(f" {_type(f)}") for f in schema]
            unique = ", UNIQUE NULLS NOT DISTINCT ({key})" if self._key else ""
            self._run_sql(
                f"CREATE TABLE IF NOT EXISTS {{table}} ({{columns}}{unique})", columns=sql.SQL(", ").join(columns)
            )
        there = self._run_sql("SELECT * FROM {table} LIMIT 0").description
        self._kept = self._columns.kept(self.about, schema, [column.name for column in there])
        self._check_index(address)

    def _check_index(self, address: str) -> None:
        """An upsert needs a unique index over the key, in which two nulls are equal."""
        found = self._run_sql(
            """
            SELECT 1 FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
            WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL
            GROUP BY indexrelid, indnullsnotdistinct
            HAVING array_agg(attname::text ORDER BY attname) = %s AND (indnullsnotdistinct OR bool_and(attnotnull))
            """,
            [address, sorted(self._key, key=str.encode)],
        ).fetchone()
        if self._key and found is None:
            key = self._names["key"].as_string(self._connection)
            raise SinkError(
                f"{self.about} has no unique index over its key; make one: "
                f"CREATE UNIQUE INDEX ON {address} ({key}) NULLS NOT DISTINCT"
            )

    def put(self, rows: pa.Table | StorageDir, first: int, last: int) -> None:
        """Write the rows in one transaction."""
        with self._connected():
            if self._kept is None:
                self._make(self._columns.schema or schema_of(rows))
            if not self._note(last):
                return
            if self._key:
                self._run_sql("CREATE TEMP TABLE {staged} (LIKE {table}) ON COMMIT DROP")
            for part in batches(rows, self._columns.schema):
                self._write(last_of_key(part.select(self._kept), self._key))

    def _note(self, last: int) -> bool:
        """Write the commit id; False if it is there already. Another process that writes it waits for this one."""
        return bool(
            self._run_sql(
                "INSERT INTO {commits} AS c VALUES (%s, %s) ON CONFLICT (run) DO UPDATE "
                "SET commit_id = excluded.commit_id WHERE c.commit_id < excluded.commit_id",
                [self._run, last],
            ).rowcount
        )

    def _write(self, rows: pa.Table) -> None:
        """Write some rows: straight into the table, or by a staged one whose rows replace those of their keys."""
        sql = self._psycopg.sql
        columns = sql.SQL(", ").join(map(sql.Identifier, rows.schema.names))
        to = self._names["staged" if self._key else "table"]
        with self._connection.cursor().copy(
            sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(to, columns)
        ) as copy:
            copy.write(_csv(rows))
        if self._key:
            others = [sql.Identifier(name) for name in rows.schema.names if name not in self._key]
            changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
            action = sql.SQL("UPDATE SET {}").format(changes) if others else sql.SQL("NOTHING")
            self._run_sql(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staged} ON CONFLICT ({key}) DO {action}",
                columns=columns,
                action=action,
            )
            self._run_sql("TRUNCATE {staged}")


def _type(column: pa.Field) -> str:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    for fits, name in _TYPES:
        if fits(kind):
            return name
    raise QueryError(f"postgres(…): column {column.name!r} is a {kind}, which no table has; cast it with select()")


def _csv(rows: pa.Table) -> memoryview:
    """Rows as PostgreSQL reads them: a null is nothing, an empty text is a pair of quotes."""
    for at, column in enumerate(rows.schema):
        if pa.types.is_nested(column.type):
            texts = [None if v is None else orjson.dumps(v, default=str).decode() for v in rows[at].to_pylist()]
            rows = rows.set_column(at, column.name, pa.array(texts, pa.string()))
        elif pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            encoded = "\\x" + pl.Series(rows[at]).bin.encode("hex")
            rows = rows.set_column(at, column.name, encoded.to_arrow())
    buffer = pa.BufferOutputStream()
    pc.write_csv(rows, buffer, pc.WriteOptions(include_header=False, quoting_style="all_valid"))
    return memoryview(buffer.getvalue())
