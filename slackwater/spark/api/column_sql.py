"""Spark SQL as a user writes it: text, or a `Column` of PySpark, whose tree is written as text (Spark 4).

Spark's own text of a Column, such as `>(x, 1)`, is for people: Spark does not read it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from slackwater.errors import QueryError, shown
from slackwater.plan.within_window import directed
from slackwater.sql.values import quoted

V = TypeVar("V")
#: An expression with its name behind AS.
_ALIAS = re.compile(r"(.+)\s+AS\s+(\w+|`[^`]+`)\s*", re.IGNORECASE | re.DOTALL)

#: SQL operators between two values, by the name that Spark gives the function.
_BETWEEN = {
    **{sign: sign for sign in ("=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^")},
    **{"==": "=", "and": "AND", "or": "OR", "like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE"},
}
_BEFORE = {"!": "NOT", "not": "NOT", "negative": "-", "~": "~"}
_AFTER = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
#: Characters of a refused Column that an error shows.
_SHOWN = 60
#: The object of Spark that makes expressions of column nodes.
_CONVERTER = "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$"


#: `on=` of a join: columns of both sides, or a condition.
On = str | Column | Sequence[str] | Sequence[Column] | None


def attribute_of(on: str | Column | None) -> str | None:
    """`on=` of a window, as Spark SQL."""
    return None if on is None else text_of("window", on)


def pairs_of(
    step: str, columns: Sequence[str | Column], named: Mapping[str, str | Column]
) -> tuple[tuple[str | None, str], ...]:
    """Columns with their names, None where the text has one. PySpark takes a list of them, too."""
    if len(columns) == 1 and isinstance(columns[0], (list, tuple)):
        columns = columns[0]
    pairs = [
        sql_of(column, step) if isinstance(column, Column) else (None, text_of(step, column)) for column in columns
    ]
    return (*pairs, *((name, text_of(step, value, name)) for name, value in named.items()))


def order_of(step: str, columns: Sequence[str | Column], descending: bool) -> tuple[str, ...]:
    """What to order by, as Spark SQL; a column without a direction gets this one."""
    if not columns:
        raise QueryError(f"{step}() needs a column, as in {step}('revenue')")
    texts = [
        sql_of(column, step, ordering=True)[1] if isinstance(column, Column) else text_of(step, column)
        for column in columns
    ]
    return tuple(f"{text} DESC" if descending and not directed(text) else text for text in texts)


def named_aggregates(
    columns: Sequence[str | Column], named: Mapping[str, str | Column]
) -> tuple[tuple[str, str], ...]:
    """Aggregates, each with a name; that of a text may stand behind AS."""
    pairs = []
    for name, text in pairs_of("agg", columns, named):
        alias = _ALIAS.fullmatch(text) if name is None else None
        if name is None and alias is None:
            raise QueryError(f"agg({text!r}): give it a name, as in agg(n={text!r}) or .alias('n')")
        pairs.append((name or "", text) if alias is None else (alias[2].strip("`"), alias[1]))
    return tuple(pairs)


def unwrapped(step: str, value: V | Column) -> V | str:
    """The Spark SQL of a Column; all else as it is."""
    return sql_of(value, step)[1] if isinstance(value, Column) else value


def text_of(step: str, value: object, name: str | None = None) -> str:
    """Spark SQL, as text or of a Column."""
    if isinstance(value, Column):
        return sql_of(value, step)[1]
    if not isinstance(value, str):
        written = f"{step}({shown(value)})" if name is None else f"{step}({name}={shown(value)})"
        example = "agg(n='count(*)')" if step == "agg" else f"{step}('delay > 15')"
        raise QueryError(f"{written}: write Spark SQL as text, or a Column, as in {example}")
    return value


def keys_of(on: object) -> str | tuple[str, ...] | None:
    """Names of columns, or a condition; several Columns must all be true."""
    if isinstance(on, Column):
        return text_of("join", on)
    if on is None or isinstance(on, str):
        return on
    keys = tuple(on) if isinstance(on, Sequence) else ()
    if keys and all(isinstance(key, Column) for key in keys):
        return " AND ".join(text_of("join", key) for key in keys)
    if not isinstance(on, Sequence) or not all(isinstance(key, str) for key in keys):
        raise QueryError(f"join(on={on!r}): write column names, or a condition, as in on='a = b'")
    return keys


def sql_of(column: Column, step: str, ordering: bool = False) -> tuple[str | None, str]:
    """The alias of a Column, or None, and its text. `step` names the step that it was written in.

    `ordering` allows a direction, as in `F.col("v").desc()`.
    """
    if not isinstance(column, ClassicColumn):
        raise _refused(step, column, "a Column of Spark Connect has no text here")
    text = _Text(step, column)
    top = column._jc.node()
    if _kind(top) == "SortOrder" and not ordering:
        raise _refused(step, column, "the rows of a stream are not sorted; write order_by(…) after agg(…)")
    if _kind(top) == "Alias":
        names = _items(top.name())
        if len(names) != 1:
            raise _refused(step, column, "it has several names")
        return names[0], text.of(top.child(), whole=True)
    return None, text.of(top, whole=True)


def _refused(step: str, column: Column, why: str) -> QueryError:
    shown = str(column)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return QueryError(f"{step}({shown}): {why}; or write Spark SQL as text")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(n) for n in range(sequence.size())]


class _Text:
    """The text of the nodes of one Column."""

    def __init__(self, step: str, column: Column) -> None:
        self._step, self._column = step, column

    def of(self, node: Any, whole: bool = False) -> str:
        """The text of a node; in parentheses where it is a part of another and needs them."""
        kind = _kind(node)
        if kind == "SqlExpression":
            return str(node.expression()) if whole else f"({node.expression()})"
        write = getattr(self, f"_{kind}", None)
        if write is None:
            raise self._no(_WHY.get(kind, f"a {kind} has no text here"))
        return str(write(node))

    def _no(self, why: str) -> QueryError:
        return _refused(self._step, self._column, why)

    def _UnresolvedAttribute(self, node: Any) -> str:
        return ".".join(quoted(part) for part in _items(node.nameParts()))

    def _UnresolvedStar(self, node: Any) -> str:
        return "*"

    def _Literal(self, node: Any) -> str:
        spark = SparkSession.active()
        assert spark._jvm is not None
        converter = getattr(getattr(spark._jvm, _CONVERTER), "MODULE$")
        literal = converter.apply(node)
        if literal.dataType().typeName() == "timestamp" and literal.value() is not None:
            return f"timestamp_micros({literal.value()}L)"  # whatever the time zones of the sessions are
        return str(literal.sql())

    def _UnresolvedFunction(self, node: Any) -> str:
        name, arguments = str(node.functionName()), [self.of(a) for a in _items(node.arguments())]
        if node.isInternal():
            raise self._no(f"{name} is a function of Spark's own")
        key = name.lower()
        if key in _BETWEEN and len(arguments) == 2:
            return f"({arguments[0]} {_BETWEEN[key]} {arguments[1]})"
        if key in _BEFORE and len(arguments) == 1:
            return f"({_BEFORE[key]} {arguments[0]})"
        if key in _AFTER and len(arguments) == 1:
            return f"({arguments[0]} {_AFTER[key]})"
        if key == "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        distinct = "DISTINCT " if node.isDistinct() else ""
        return f"{quoted(name)}({distinct}{', '.join(arguments)})"

    def _Cast(self, node: Any) -> str:
        mode = node.evalMode()
        word = "TRY_CAST" if mode.isDefined() and "Try" in str(mode.get()) else "CAST"
        return f"{word}({self.of(node.child())} AS {node.dataType().sql()})"

    def _CaseWhenOtherwise(self, node: Any) -> str:
        branches = [f"WHEN {self.of(pair._1())} THEN {self.of(pair._2())}" for pair in _items(node.branches())]
        rest = node.otherwise()
        otherwise = f" ELSE {self.of(rest.get())}" if rest.isDefined() else ""
        return f"CASE {' '.join(branches)}{otherwise} END"

    def _UnresolvedExtractValue(self, node: Any) -> str:
        return f"{self.of(node.child())}[{self.of(node.extraction())}]"

    def _SortOrder(self, node: Any) -> str:
        direction, nulls = node.sortDirection().sql(), node.nullOrdering().sql()
        return f"{self.of(node.child())} {direction} {nulls}"

    def _Window(self, node: Any) -> str:
        spec = node.windowSpec()
        parts = [self.of(column) for column in _items(spec.partitionColumns())]
        order = [self.of(column) for column in _items(spec.sortColumns())]
        if spec.frame().isDefined():
            raise self._no("its frame has no text here")
        partition = f"PARTITION BY {', '.join(parts)}" if parts else ""
        ordered = f"ORDER BY {', '.join(order)}" if order else ""
        return f"{self.of(node.windowFunction())} OVER ({' '.join(p for p in (partition, ordered) if p)})"

    def _LambdaFunction(self, node: Any) -> str:
        names = [self.of(argument) for argument in _items(node.arguments())]
        before = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{before} -> {self.of(node.function())}"

    def _UnresolvedNamedLambdaVariable(self, node: Any) -> str:
        return quoted(str(node.name()))

    def _Alias(self, node: Any) -> str:
        return self.of(node.child())

    def _ExpressionColumnNode(self, node: Any) -> str:
        """A column of a DataFrame, as in `df.x`."""
        expression = node.expression()
        if _kind(expression) != "AttributeReference":
            raise self._no(_WHY.get(_kind(expression), f"a {_kind(expression)} has no text here"))
        return quoted(str(expression.name()))


_REGISTER = "a function has no text; register it, as in spark.udf.register('f', f), and call it by its name"
#: Why a node has no text, by its kind.
_WHY = {"PythonUDF": _REGISTER, "InvokeInlineUserDefinedFunction": _REGISTER}
