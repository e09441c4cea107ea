"""Aggregates as a user writes them, `avg(dep_delay)`."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp

from slackwater.aggregates.aggregate import AggregateFunction, Call, TypeOf
from slackwater.aggregates.kept import DistinctOf, Kept, OfSpark
from slackwater.aggregates.registry import BY_FUNCTION, known
from slackwater.aggregates.user import OfUser
from slackwater.aggregates.user_text import arguments as written_arguments
from slackwater.aggregates.user_text import clauses
from slackwater.errors import QueryError, did_you_mean

_DISTINCT = re.compile(r"DISTINCT\b\s*", re.IGNORECASE)
#: An order that stands behind an argument, and not in OVER (…).
_ORDER = re.compile(r"^[^('\"]*\bORDER\s+BY\b", re.IGNORECASE)


def parse_aggregate(
    name: str, text: str, type_of: TypeOf, written: str | None = None, aggregate_type: TypeOf | None = None
) -> AggregateFunction:
    """Read one aggregate; `written` is the expression that it was taken out of, for messages.

    >>> import pyarrow as pa
    >>> parse_aggregate("n", "count(*)", lambda sql: pa.int64()).partials()
    (Count(argument='*', fields=('',)),)
    """
    shown = text if written is None else written
    tree = _tree(name, text, shown)
    parts = clauses(text)
    function, arguments = _call(name, parts.call, shown, tree)
    kind = BY_FUNCTION.get(function)
    # Spark does not know all aliases.
    alias = kind is not None and function in kind.aliases and len(kind.functions) == 1
    spark = kind.functions[0] if kind is not None and alias else function
    texts = written_arguments(parts.call) if arguments else []
    if any(_ORDER.search(argument) for argument in texts):
        raise QueryError(
            f"{name}={shown!r}: ORDER BY inside of a call is not Spark SQL; write it behind, as in "
            "listagg(x) WITHIN GROUP (ORDER BY y), or sort a list, as in sort_array(collect_list(struct(y, x)))"
        )
    distinct = bool(texts) and _DISTINCT.match(texts[0]) is not None
    if distinct:
        texts[0] = _DISTINCT.sub("", texts[0])
    types = type_of, aggregate_type or type_of
    call = Call(name, text, spark, tuple(arguments), tuple(texts), *types, shown, distinct, parts.order)
    if arguments and call.first == "*" and kind is not None and not kind.takes_star:
        raise call.error(f"only count takes a star; write {function}({kind.written})")
    aggregate = _of_spark(call, isinstance(tree, exp.Anonymous)) if kind is None else _read(call, kind)
    conditions = [f"({parts.where})"] if parts.where is not None else []
    if parts.ignore_nulls:
        conditions.append(f"({call.first}) IS NOT NULL")
    for condition in conditions:
        type_of(f"CASE WHEN {condition} THEN 1 END")
        aggregate = aggregate.filtered(condition)
    return aggregate


def _read(call: Call, kind: type[AggregateFunction]) -> AggregateFunction:
    if issubclass(kind, Kept):
        return kind.read(call)
    if call.order is not None:
        raise call.error(f"{call.function} takes no WITHIN GROUP; leave it out")
    folds = call.distinct and not issubclass(kind, OfUser)
    return DistinctOf.over(call, kind) if folds else kind.read(call)


def _of_spark(call: Call, misspelt: bool) -> AggregateFunction:
    """A function that only the user's Spark knows."""
    for sql in OfSpark.parts(call)[0]:
        call.type_of(sql)
    try:
        return OfSpark.read(call)
    except QueryError:
        # A function that sqlglot knows is no slip of the pen.
        hint = did_you_mean(call.function, BY_FUNCTION) if misspelt else ""
        raise call.error(f"unknown aggregate {call.function!r}{hint}; known are {known()}") from None


def _tree(name: str, text: str, shown: str) -> exp.Expr:
    """The user's text, with the clauses behind the call."""
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


def unknown_function(text: str) -> str:
    """The name of the function that is called, if sqlglot knows none of this name; else nothing.

    >>> unknown_function("averge(x)"), unknown_function("upper(x)")
    ('averge', '')
    """
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return ""
    return tree.name if isinstance(tree, exp.Anonymous) else ""


def is_aggregate(call: object) -> bool:
    """Whether a call is an aggregate; some of Spark's names are not among those that sqlglot knows."""
    call = _bare(call)
    if isinstance(call, exp.Anonymous):
        return call.name.lower() in BY_FUNCTION
    # Behind an operator, any(…) is a comparison.
    alone = isinstance(call, exp.Any) and not isinstance(call.parent, exp.Binary)
    return alone or isinstance(call, exp.AggFunc)
