"""Aggregates as a user writes them, `avg(dep_delay)`."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from slackwater.aggregates.aggregate import Aggregate, Call, TypeOf
from slackwater.aggregates.registry import BY_FUNCTION, known
from slackwater.aggregates.user_text import arguments as written_arguments
from slackwater.aggregates.user_text import clauses
from slackwater.errors import QueryError, did_you_mean


def parse_aggregate(name: str, text: str, type_of: TypeOf, written: str | None = None) -> Aggregate:
    """Read one aggregate; `written` is the expression that it was taken out of, for messages.

    >>> import pyarrow as pa
    >>> parse_aggregate("n", "count(*)", lambda sql: pa.int64()).partials()
    (Count(argument='*', fields=('',)),)
    >>> parse_aggregate("n", "median(x)", lambda sql: pa.int64())
    Traceback (most recent call last):
    ...
    slackwater.errors.QueryError: n='median(x)': unknown aggregate 'median'; known are count, sum, avg, ...
    """
    shown = text if written is None else written
    tree = _tree(name, text, shown)
    parts = clauses(text)
    function, arguments = _call(name, parts.call, shown, tree)
    kind = BY_FUNCTION.get(function)
    # Spark does not know all aliases.
    alias = kind is not None and function in kind.aliases and len(kind.functions) == 1
    spark = kind.functions[0] if kind is not None and alias else function
    texts = tuple(written_arguments(parts.call)) if arguments else ()
    call = Call(name, text, spark, tuple(arguments), texts, type_of, shown)
    if any(isinstance(a, exp.Distinct) for a in arguments):
        raise call.error("exact DISTINCT has no small partial; write approx_count_distinct(…)")
    if kind is None:
        # A function that sqlglot knows is no slip of the pen.
        misspelt = isinstance(sqlglot.parse_one(parts.call, dialect="spark"), exp.Anonymous)
        hint = did_you_mean(function, BY_FUNCTION) if misspelt else ""
        raise call.error(f"unknown aggregate {function!r}{hint}; known are {known()}")
    if arguments and call.first == "*" and not kind.takes_star:
        raise call.error(f"only count takes a star; write {function}({kind.written})")
    if parts.order is not None:
        raise call.error(f"{function} takes no WITHIN GROUP; leave it out")
    aggregate = kind.read(call)
    conditions = [f"({parts.where})"] if parts.where is not None else []
    if parts.ignore_nulls:
        conditions.append(f"({call.first}) IS NOT NULL")
    for condition in conditions:
        type_of(f"CASE WHEN {condition} THEN 1 END")
        aggregate = aggregate.filtered(condition)
    return aggregate


def _tree(name: str, text: str, shown: str) -> exp.Expr:
    """What was written, clauses behind the call included."""
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        found = getattr(error, "errors", None)
        raise QueryError(
            f"{name}={shown!r} is not an expression: {found[0]['description'] if found else error}"
        ) from None


def _call(name: str, text: str, shown: str, whole: exp.Expr) -> tuple[str, list[exp.Expression]]:
    """The function and its arguments, given the text of the bare call."""
    tree = _bare(whole)
    if not isinstance(tree, (exp.Func, exp.Any)):
        raise QueryError(
            f"{name}={shown!r} is not an aggregate call; write one of {known()}, as in {name}='sum(x)'"
        )
    function = text.strip().split("(", 1)[0].strip().strip("`").lower()
    if not text.strip().endswith(")") or (isinstance(tree, exp.Anonymous) and not tree.name):
        raise QueryError(f"{name}={shown!r} is not a single aggregate call, as in {name}='sum(x)'")
    if not is_aggregate(tree) and any(is_aggregate(inner) for inner in tree.find_all(exp.Func)):
        raise QueryError(f"{name}={shown!r}: the outermost call must be the aggregate, as in {name}='sum(x)'")
    arguments = [a for a in tree.args.values() if isinstance(a, exp.Expression)]
    arguments += [a for v in tree.args.values() if isinstance(v, list) for a in v if isinstance(a, exp.Expression)]
    if any(is_aggregate(inner) for inner in whole.find_all(exp.Func) if inner is not tree):
        raise QueryError(f"{name}={shown!r}: an aggregate inside an aggregate; aggregate a plain expression")
    return function, arguments


def _bare(tree: object) -> object:
    """A call without the clauses behind it."""
    while isinstance(tree, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        tree = tree.this
    return tree


def is_aggregate(call: object) -> bool:
    """Whether a call is an aggregate; some of Spark's names are not among those that sqlglot knows."""
    call = _bare(call)
    if isinstance(call, exp.Anonymous):
        return call.name.lower() in BY_FUNCTION
    # Behind an operator, any(…) is a comparison.
    alone = isinstance(call, exp.Any) and not isinstance(call.parent, exp.Binary)
    return alone or isinstance(call, exp.AggFunc)
