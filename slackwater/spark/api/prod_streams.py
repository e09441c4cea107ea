"""Streams of prods as a user declares them, and which running queries a prod of theirs is for (S5 section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from slackwater.errors import QueryError
from slackwater.events import decision
from slackwater.operators.backend import Backend
from slackwater.operators.prod import Prod
from slackwater.operators.prod_request import check_asked
from slackwater.operators.prod_stream import AT, QUERY, UNTIL, WHERE, ProdRow
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import LAST_TIME, TimeDomain
from slackwater.progress.time_kinds import Internal, Latent
from slackwater.spark.api.declare import stream_node
from slackwater.spark.api.run import Run
from slackwater.spark.backend.relation import columns_of, time_in_ticks

PRODS = "prods"


@dataclass(frozen=True)
class Control:
    """A declared stream of prods."""

    node: StreamNode
    domains: dict[str, TimeDomain]
    """What `until` and `at` are times of."""
    columns: dict[str, str]
    """Spark SQL of what a prod says, by column."""


def check_role(name: str, role: str | None, arguments: dict[str, object]) -> bool:
    """Whether a stream is one of prods."""
    if role is None:
        return False
    if role != PRODS:
        raise QueryError(
            f"stream {name!r}: there is no role {role!r}; leave role= out for a stream that queries read, or write "
            f"role={PRODS!r} for one whose rows are prods"
        )
    for argument, value in arguments.items():
        if value is not None:
            raise QueryError(
                f"stream {name!r}: a stream of prods moves no time and has no sources; leave out {argument}="
            )
    return True


def read_control(name: str, df: DataFrame, time: str | Internal | Latent, arrival: str | None) -> Control:
    """The stream of prods, or an error that says what to write."""
    if not isinstance(time, str):
        raise QueryError(
            f"stream {name!r}: a prod asks for windows that end by a time, so the time of a stream of prods is a "
            f"column: write time='asked' for sw.{time.describe()}"
        )
    node = stream_node(name, df, time, None, bounded("0 seconds") if _is_stamp(df, time) else bounded(0))
    domains, columns = {UNTIL: node.domain}, {}
    named = {column.lower(): column for column in df.columns}  # Spark does not look at capitals either
    for column in (UNTIL, AT):
        if column in named and not (column == AT and _says_when(named[column], time, arrival)):
            columns[column], domains[column] = _ticks(name, df, named[column], column)
    for column in (WHERE, QUERY):
        if column not in named:
            continue
        ((_, kind),) = columns_of(df, [f"`{named[column]}`"], column)
        if not isinstance(kind, StringType):
            raise QueryError(
                f"stream {name!r}: the column {column!r} of a stream of prods is text, not {kind.simpleString()}; "
                "rename it, or leave it out"
            )
        columns[column] = f"`{named[column]}`"
    return Control(node, domains, columns)


def _says_when(column: str, *times: str | None) -> bool:
    """Whether a column says when a prod was sent, or when it came: then it says nothing of windows."""
    word = re.compile(rf"\b{re.escape(column)}\b", re.IGNORECASE)  # Spark does not look at capitals either
    return any(word.search(text) for text in times if text is not None)


def _ticks(name: str, df: DataFrame, column: str, what: str) -> tuple[str, TimeDomain]:
    """Spark SQL of a time that a prod says, and its domain."""
    try:
        ticks, domain = time_in_ticks(df, f"`{column}`", what)
    except QueryError:
        kind = df.schema[column].dataType.simpleString()
        raise QueryError(
            f"stream {name!r}: the column {column!r} of a stream of prods is of type {kind}; it says for which "
            "windows, by a timestamp, a date, a whole number or a decimal of at most 18 digits: convert it in the "
            "DataFrame, or rename it"
        ) from None
    if what == AT:
        # An instant out of reach is in no window; null would ask for others.
        ticks = f"CASE WHEN `{column}` IS NOT NULL THEN coalesce({ticks}, {LAST_TIME}L) END"
    return ticks, domain


def fitting(
    control: Control, runs: Iterable[Run], query: str | None, asked: ProdRow, backend: Backend
) -> list[Prod]:
    """A prod for each of the running queries that are asked."""
    asked_runs = (run for run in runs if run.active and query in (None, run.name))
    return [prod for run in asked_runs if (prod := _prod(control, run, asked, backend)) is not None]


def _prod(control: Control, run: Run, asked: ProdRow, backend: Backend) -> Prod | None:
    """The prod for a query; None if it does not fit."""
    try:
        check_asked(run.plan, asked, backend, f"role={PRODS!r}")
    except QueryError as error:
        decision("prod.refused", query=run.name, at=asked.at, where=asked.where, error=error)
        return None
    times = {UNTIL: asked.until, AT: asked.at}
    if any(tick is not None and control.domains[name] != run.plan.domain for name, tick in times.items()):
        return None
    return replace(asked.of(run.plan), query=run.name)


def _is_stamp(df: DataFrame, time: str) -> bool:
    return time_in_ticks(df, time)[1] is TimeDomain.TIMESTAMP
