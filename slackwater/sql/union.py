"""Checks the sides of a UNION ALL: their columns are matched by name, so their order should agree."""

from __future__ import annotations

from slackwater.plan import logical as L
from slackwater.sql.source import Span, SqlText


def check_order(first: L.Logical, other: L.Logical, source: SqlText, span: Span) -> None:
    """Refuse a side that has the columns of the first one in another order.

    Other databases match columns by position. We refuse a query that would mean something else there.
    """
    wanted, names = first.written_names(), other.written_names()
    if wanted is not None and names is not None and wanted != names and sorted(wanted) == sorted(names):
        raise source.error(
            span,
            "UNION ALL puts columns together by name, not by place; write them in the order of the first SELECT: "
            + ", ".join(wanted),
        )
