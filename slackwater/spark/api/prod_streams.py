"""Streams of prods as a user declares them, and which running queries a prod of theirs is for (S5 section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from slackwater.errors import QueryError
from slackwater.operators.prod import Prod
from slackwater.operators.prod_stream import QUERY, UNTIL, WHERE
from slackwater.plan.nodes import StreamNode, WindowNode, answering
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.progress.time_kinds import Internal, Latent
from slackwater.spark.api.declare import stream_node
from slackwater.spark.api.prods import check_condition
from slackwater.spark.api.relation import columns_of, time_in_ticks
from slackwater.spark.api.run import Run

PRODS = "prods"


@dataclass(frozen=True)
class Control:
    """A declared stream of prods."""

    node: StreamNode
    domain: TimeDomain
    """What its prods are times of."""
    columns: dict[str, str]
    """Spark SQL of what a prod says, by column."""


def check_role(name: str, role: str | None, given: dict[str, object]) -> bool:
    """Whether a stream is one of prods."""
    if role is None:
        return False
    if role != PRODS:
        raise QueryError(
            f"stream {name!r}: there is no role {role!r}; leave role= out for a stream that queries read, or write "
            f"role={PRODS!r} for one whose rows are prods"
        )
    for argument, value in given.items():
        if value is not None:
            raise QueryError(
                f"stream {name!r}: a stream of prods moves no time and has no sources; leave out {argument}="
            )
    return True


def read_control(name: str, df: DataFrame, time: str | Internal | Latent) -> Control:
    """The stream of prods, or an error that says what to write."""
    if not isinstance(time, str):
        raise QueryError(
            f"stream {name!r}: a prod asks for windows that end by a time, so the time of a stream of prods is a "
            f"column: write time='asked' for sw.{time.describe()}"
        )
    node = stream_node(name, df, time, None, bounded("0 seconds") if _is_stamp(df, time) else bounded(0))
    domain, columns = node.domain, {}
    named = {column.lower(): column for column in df.columns}  # Spark does not look at capitals either
    if UNTIL in named:
        columns[UNTIL], domain = time_in_ticks(df, named[UNTIL], UNTIL)
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
    return Control(node, domain, columns)


def fitting(control: Control, runs: Iterable[Run], query: str | None, prod: Prod) -> list[Run]:
    """The running queries that a prod is for."""
    return [r for r in runs if r.active and query in (None, r.name) and _fits(control, r, prod)]


def _fits(control: Control, run: Run, prod: Prod) -> bool:
    top = answering(run.plan)
    if not isinstance(top, WindowNode):
        return False
    if prod.until is not None and control.domain != top.domain:
        return False
    try:
        if prod.where is not None:
            check_condition(top, prod.where)
    except QueryError:
        return False
    return True


def _is_stamp(df: DataFrame, time: str) -> bool:
    return time_in_ticks(df, time)[1] is TimeDomain.TIMESTAMP
