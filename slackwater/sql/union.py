"""The sides of a UNION ALL: their columns go together by name, so their order must not say something else."""

from __future__ import annotations

from slackwater.plan import logical as L
from slackwater.sql.source import Source, Span


def check_order(first: L.Logical, other: L.Logical, source: Source, span: Span) -> None:
    """Refuse a side that has the columns of the first one in another order.

    Elsewhere UNION ALL goes by place. Where both ways give other rows, nobody should have to guess.
    """
    wanted, found = _names(first), _names(other)
    if wanted is not None and found is not None and wanted != found and sorted(wanted) == sorted(found):
        raise source.error(
            span,
            "UNION ALL puts columns together by name, not by place; write them in the order of the first SELECT: "
            + ", ".join(wanted),
        )


def _names(query: L.Logical) -> list[str] | None:
    """The columns that a query was written with; None where a star or a function stands for them."""
    if isinstance(query, (L.Where, L.Union)):
        return _names(query.inputs[0])
    if isinstance(query, L.Aggregate):
        return [_name(column) for column in (*query.groups, *query.aggregates)]
    if isinstance(query, L.Select):
        names = [_name(column) for column in query.columns]
        return None if "*" in names else names
    return None


def _name(column: L.Column) -> str:
    name, text = column
    return (text if name is None else name).strip("`").lower()
