"""Carries out SQL statements on a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark import cloudpickle

from slackwater.calls import called
from slackwater.errors import QueryError, RunError, SqlError, did_you_mean
from slackwater.plan.explain import explain_plan
from slackwater.spark.api.query import Query
from slackwater.spark.api.run import Run
from slackwater.spark.api.sql_streams import declare_stream, declare_table
from slackwater.spark.api.user_aggregates import TakesAggregates
from slackwater.spark.backend.relation import FrameRelation
from slackwater.spark.sinks.sinks import OneSink, sink_by_name
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope
from slackwater.sql.write import to_sql

if TYPE_CHECKING:
    from slackwater.spark.api.session import Session


class SpeaksSql(TakesAggregates):
    """The methods of a session for SQL."""

    @called()
    def sql(self, text: str) -> Any:
        """What the last statement of a SQL text gives; all are carried out, with semicolons between them.

        A SELECT gives a `Query`, to be started. INSERT INTO starts one and gives its `Run`. CREATE STREAM gives the
        `Stream`, EXPLAIN text, SHOW a `pyarrow.Table`. A mistake is a `SqlError`, which says where it is.
        """
        return self._interpreter.run(text)

    @cached_property
    def _interpreter(self) -> Interpreter:
        """Carries out SQL statement by statement."""
        return Interpreter(cast("Session", self))


class Interpreter:
    """The SQL of one session: it knows the views and functions that were created."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._created = Scope()
        self.folder = Path()
        """Where relative paths start."""

    @property
    def scope(self) -> Scope:
        """The names that a query can speak of."""
        session = self._session
        return Scope(
            frozenset(session._catalogue),
            self._created.views,
            self._created.functions,
            frozenset(session._catalogue.tables),
            session._analysis,
        )

    def run(self, text: str) -> Any:
        """Carry out all statements, if all can be read; gives what the last one gives."""
        answer = None
        statements = self.parse(text)
        for n, statement in enumerate(statements):
            answer = self.execute(statement, hold=runs_later(statements[n:]))
        return answer

    def parse(self, text: str) -> list[S.Statement]:
        """Read all statements of a text."""
        return parse(text, self.scope).statements

    def execute(self, statement: S.Statement, hold: bool = False) -> Any:
        """Carry out one statement; with `hold`, streaming sources are not read before RUN."""
        with at(statement):
            return self._execute(statement, hold)

    def _execute(self, statement: S.Statement, hold: bool) -> Any:
        match statement:
            case S.SelectStatement():
                return self.query(statement)
            case S.Insert():
                return self.start(statement, hold)
            case S.CreateStream():
                return declare_stream(self._session, statement, self.folder)
            case S.CreateBounds():
                return self._session.bounds(statement.policy, streams=statement.streams)
            case S.CreateTable():
                return declare_table(self._session, statement, self.folder)
            case S.CreateView():
                return self._view(statement)
            case S.CreateFunction():
                return self._function(statement)
            case S.Explain():
                return self._explain(statement)
            case S.Show():
                return self._show(statement)
            case S.ProdStatement():
                return self._run_of(statement.query).prod(statement.until, statement.where, statement.at)
            case S.Stop():
                return self._run_of(statement.query).stop()
            case S.Forget():
                return self._session.forget(statement.query)
            case S.RunQueries():
                return self._run(statement)
            case S.SetSession():
                raise QueryError(
                    f"{statement.name} is fixed when the session is created; write SET first in a file, or write "
                    f"sw.Session({statement.name}=…)"
                )

    def query(self, select: S.SelectStatement) -> Query:
        """The query of a SELECT, analysed."""
        select = select.again(self.scope)
        select.locations.check(select.query, self._session._analysis)
        return Query(self._session, select.query, select.early, select.sideline, select.corrections)

    def start(self, statement: S.SelectStatement | S.Insert, hold: bool = False) -> Run:
        """Start the query of a SELECT, with its results in memory, or that of an INSERT."""
        insert = statement if isinstance(statement, S.Insert) else S.Insert(statement, (None,), None, None)
        with at(statement):
            sinks, late = [self._sink(sink) for sink in insert.sinks], self._sink(insert.late)
            return self.query(insert.select).start(sinks, late, insert.name, hold, ordered=insert.ordered)

    def _sink(self, written: str | S.SinkFunction | S.SinkCall | None) -> OneSink:
        if isinstance(written, S.SinkCall):
            return sink_by_name(written.name, written.values, written.settings, self._folder)
        return self._folder(written) if isinstance(written, str) else written

    def _folder(self, written: str) -> str:
        place = written if "://" in written else str(self.folder / written)
        if "://" not in place and Path(place).is_file():
            raise QueryError(f"{written!r} is a file; give a folder")
        return place

    def _view(self, view: S.CreateView) -> Query:
        if view.name in self._session._catalogue:
            raise QueryError(f"there is a stream {view.name!r}; give the view another name")
        if view.name in self._created.views and not view.replace:
            raise QueryError(f"there is already a view {view.name!r}; write CREATE OR REPLACE VIEW")
        query = self.query(view.select)
        self._created = self._created.with_view(view.name, query._logical)
        return query

    def _function(self, statement: S.CreateFunction) -> None:
        module = sys.modules.get(getattr(statement.function.function, "__module__", ""))
        if module is not None:
            # Spark's workers may not have the module: the function goes to them by value.
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        self._created = self._created.with_function(statement.name, statement.function)

    def _explain(self, explain: S.Explain) -> str:
        if explain.select is not None:
            return explain_plan(self.query(explain.select)._plan, explain.format)
        assert explain.query is not None
        return self._run_of(explain.query).explain(explain.format)

    def _run_of(self, name: str) -> Run:
        runs = self._session._running.runs
        if name not in runs:
            names = ", ".join(runs) or "none; begin with INSERT INTO"
            raise QueryError(f"there is no query {name!r}{did_you_mean(name, runs)}; there are {names}")
        return runs[name]

    def _run(self, run: S.RunQueries) -> None:
        if not run.continuously:
            self._session.run_available(run.drain, speed=run.speed)
            return
        active = [r for r in self._session._running.runs.values() if r.active]
        if not active:
            raise RunError("no query has been started; begin with INSERT INTO … SELECT …")
        for query in active:
            if query._play is not None and not query._play.live:
                raise RunError(f"query {query.name!r} reads a replay, which has an end; write RUN")
        self._session._running.read_on()
        for query in active:
            query.await_termination()

    # --- tables

    def _show(self, show: S.Show) -> pa.Table:
        if show.query is not None and show.what == "state":
            return self._session.state(self._run_of(show.query).name)
        if show.query is not None:
            return self._run_of(show.query).results()
        return {"streams": self._streams, "tables": self._tables, "queries": self._queries, "views": self._views}[
            show.what
        ]()

    def _streams(self) -> pa.Table:
        nodes = [self._session._catalogue[name].node for name in self._session._catalogue]
        return _table(
            name=[node.name for node in nodes],
            columns=[", ".join(f"{name} {kind}" for name, kind in node.columns) for node in nodes],
            time=[node.written_time for node in nodes],
            source=[node.source for node in nodes],
            disorder=[f"{node.disorder.describe()}{node.bounds or ''}" for node in nodes],
        )

    def _tables(self) -> pa.Table:
        tables = self._session._catalogue.tables
        columns = [FrameRelation(frame).columns for frame in tables.values()]
        return _table(name=list(tables), columns=[", ".join(f"{n} {kind}" for n, kind in c) for c in columns])

    def _queries(self) -> pa.Table:
        runs = list(self._session._running.runs.values())
        figures = [run.metrics() for run in runs]
        return _table(
            name=[run.name for run in runs],
            status=[run.status for run in runs],
            heartbeat=[f["heartbeat"] for f in figures],
            rows=[str(f.get("rows", 0)) for f in figures],
            results=[str(f.get("results", 0)) for f in figures],
            query=[to_sql_or_plan(run.query) for run in runs],
        )

    def _views(self) -> pa.Table:
        views = self._created.views
        return _table(name=list(views), query=[to_sql(query, self.scope) for query in views.values()])


@contextmanager
def at(statement: S.Statement) -> Iterator[None]:
    """Errors inside say where the statement stands in the text."""
    try:
        yield
    except SqlError:
        raise
    except QueryError as error:
        raise statement.error(str(error)) from None


def runs_later(statements: Sequence[S.Statement]) -> bool:
    """Whether one of them is RUN."""
    return any(isinstance(statement, S.RunQueries) for statement in statements)


def to_sql_or_plan(query: Query) -> str:
    """A query as SQL; where a Python function has no name there, as its plan."""
    try:
        return query.to_sql()
    except QueryError:
        return query.describe().replace("\n", "; ")


def _table(**columns: list[str | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
