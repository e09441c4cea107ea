"""OVER (… ORDER BY time RANGE …) on the rows of a stream: a window for each row, beside its own columns.

SQL's bounds include both ends, and all rows of the current instant. The aggregates of each window are versions, and
a row meets the version of its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import sqlglot
from sqlglot import exp

from slackwater.aggregates.over import over_calls
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.identifiers import bare
from slackwater.plan.join_condition import length_of
from slackwater.plan.select_results import Pairs
from slackwater.plan.spark_sql import SparkSQL
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.time import Span, TimeDomain

_BOUNDS = "RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW"
_RANKS = frozenset("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value".split())  # noqa: SIM905
#: The windows of a SELECT, each with its partition, and the calls over it by column.
_Frames = dict[tuple[Span, tuple[str, ...]], dict[str, str]]


def over_rows(
    rows: AnalysedPlan, query: L.Select, pairs: Pairs, of: Callable[[L.Logical], AnalysedPlan]
) -> tuple[AnalysedPlan, Pairs]:
    """The rows with a column for each call, and the projection in terms of these."""
    frames, taken, columns = _Frames(), {name.lower() for name in rows.relation.names}, list[tuple[str, str]]()
    for name, sql in pairs:
        for call in reversed(over_calls(sql)):
            if call.function in _RANKS:
                raise QueryError(
                    f"select {name}={sql!r}: OVER (…) on the rows of a stream takes aggregates; for the last "
                    "rows of each group write rolling(rows=…), for ranks a window, as in window('10 minutes')"
                )
            window = _parsed(sql[call.start : call.end], f"select {name}={sql!r}")
            key = _frame(window, rows, f"select {name}={sql!r}"), call.partition
            text = window.this.sql(SparkSQL)
            calls = frames.setdefault(key, {})
            column = calls.setdefault(text, _free(f"over_{len(taken)}", taken))
            sql = f"{sql[: call.start]}`{column}`{sql[call.end :]}"
        columns.append((name, sql))
    node, source = query.inputs[0], query.inputs[0]
    for (length, partition), calls in frames.items():
        groups = tuple((_free(f"over_{len(taken)}", taken), sql) for sql in partition)
        aggregates = tuple((column, text) for text, column in calls.items())
        windows = L.Aggregate((source,), L.Window(length), groups, aggregates)
        on = " AND ".join(f"({sql}) <=> `{column}`" for column, sql in groups) or None
        node = L.JoinAsof((node, windows), on, "left", _span(0, rows.node.domain))
    return of(node), tuple(columns)


def _parsed(call: str, written: str) -> exp.Window:
    try:
        window = sqlglot.parse_one(call, dialect=SparkSQL)
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"{written}: {str(error).splitlines()[0]}") from None
    if not isinstance(window, exp.Window):
        raise QueryError(f"{written}: write the aggregate, then OVER (…)")
    return window


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _frame(window: exp.Expr, rows: AnalysedPlan, written: str) -> Span:
    """The length of the window of a row, the row's own instant included."""
    order, spec = window.args.get("order"), window.args.get("spec")
    times = [name for name, span in rows.node.time_columns().items() if span == (0, 0)]
    keys: Sequence[exp.Expr] = [] if order is None else order.expressions
    by = keys[0].this.sql(SparkSQL) if len(keys) == 1 and not keys[0].args.get("desc") else None
    if by is None or bare(by) not in times:
        time = times[0] if times else "the time of the stream, which must be among the columns"
        raise QueryError(f"{written}: the rows of a stream come in the order of their time; write ORDER BY {time}")
    kind, start, end = (
        (None, None, None) if spec is None else (spec.text("kind"), spec.args["start"], spec.args.get("end"))
    )
    if kind == "ROWS":
        raise QueryError(
            f"{written}: rows of one instant have no order, so ROWS would depend on chance; write {_BOUNDS}, or "
            "[ROWS 100], which gives the group and the aggregates of each row"
        )
    if spec is None or kind is None or end not in (None, "CURRENT ROW") or not isinstance(start, exp.Expr):
        raise QueryError(
            f"{written}: say how far the window of a row reaches back, and no further; write {_BOUNDS}"
        )
    if spec.text("start_side") != "PRECEDING":
        raise QueryError(f"{written}: later rows are not known yet; write {_BOUNDS}")
    ticks = length_of(start, rows.node.domain)
    if ticks is None or ticks < 0 or ticks.denominator != 1:
        raise QueryError(f"{written}: {start.sql(SparkSQL)} is no length; write {_BOUNDS}")
    return _span(int(ticks) + 1, rows.node.domain)


def _span(ticks: int, domain: TimeDomain) -> Span:
    if domain.scale is not None:
        return Decimal(ticks).scaleb(-domain.scale)
    return f"{ticks} microseconds" if domain is TimeDomain.TIMESTAMP else ticks
