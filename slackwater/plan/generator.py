"""One row to many: a generator such as explode in a projection becomes a step of its own before the projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlglot
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from slackwater.aggregates.user_text import closing_bracket
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.nodes import StepNode
from slackwater.plan.spark_sql import SparkSQL
from slackwater.plan.steps import Explode
from slackwater.plan.unite import AnalysedPlan

#: Spark's functions that give several rows for one.
GENERATORS = frozenset(
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple")
)


@dataclass(frozen=True)
class Generator:
    """A call that gives several rows for one."""

    call: str
    names: tuple[str, ...] = ()
    """The names of its columns, as far as the user has written them."""


def generator(name: str | None, sql: str) -> Generator | None:
    """The generator that a column of a projection is; None for a plain column.

    >>> generator(None, "posexplode(items) AS (n, item)")
    Generator(call='posexplode(items)', names=('n', 'item'))
    >>> generator("(n, item)", "posexplode(items)").names, generator("x", "size(items)")
    (('n', 'item'), None)
    """
    words = sql.split("(")
    if words[0].strip().lower() not in GENERATORS or len(words) < 2:
        return None
    try:
        tokens = SparkSQL().tokenize(sql)
    except sqlglot.errors.SqlglotError:
        return None  # the back end reports it
    closing = closing_bracket(tokens, 1)
    if closing is None:
        return None
    names = [t.text for t in tokens[closing + 1 :] if t.token_type in (TokenType.VAR, TokenType.IDENTIFIER)]
    if len(names) < len([t for t in tokens[closing + 1 :] if t.text.upper() not in ("AS", "(", ")", ",")]):
        return None  # a part of another expression, which is refused
    written = [] if name is None else name.strip("()").split(",")
    return Generator(sql[: tokens[closing].end + 1], tuple(n.strip(" `") for n in written or names))


def exploded(below: AnalysedPlan, columns: Sequence[L.Column]) -> tuple[AnalysedPlan, tuple[L.Column, ...]]:
    """The rows after the generator of a projection, and the projection over them."""
    found = [(at, call) for at, column in enumerate(columns) if (call := generator(*column)) is not None]
    if not found:
        return below, tuple(columns)
    if len(found) > 1:
        calls = " and ".join(call.call for _, call in found)
        raise QueryError(f"select(): {calls} in one projection; put one select(…) behind the other")
    if below.node.answers():
        raise QueryError(
            f"{found[0][1].call} on results: its rows would have no window any more; put a window behind it, or "
            "explode in the sink's function"
        )
    at, wanted = found[0]
    relation, hidden, names = below.relation.exploded(wanted.call, "select")
    given = wanted.names or tuple(names)
    if len(given) != len(hidden):
        raise QueryError(
            f"select {wanted.call!r} gives {len(hidden)} columns, {', '.join(names)}; name each of them, as in "
            f"{wanted.call} AS ({', '.join(names)})"
        )
    fields = [pa.field(name, relation.type_of(f"`{name}`", wanted.call)) for name in hidden]
    step = Explode(wanted.call, tuple(hidden))
    node = StepNode((below.node,), step, pa.schema([*below.node.schema, *fields]))
    made = [(name, f"`{column}`") for name, column in zip(given, hidden, strict=True)]
    before, after = (_without_star(part, below.relation.names) for part in (columns[:at], columns[at + 1 :]))
    return AnalysedPlan(node, relation), (*before, *made, *after)


def _without_star(columns: Sequence[L.Column], names: Sequence[str]) -> list[L.Column]:
    own: list[L.Column] = [(name, f"`{name}`") for name in names]
    return [c for name, sql in columns for c in (own if name is None and sql.strip() == "*" else [(name, sql)])]
