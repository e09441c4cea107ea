"""One row to many in FROM: LATERAL VIEW as in Spark, UNNEST and LATERAL as in Flink and standard SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slackwater.plan import logical as L
from slackwater.plan.generator import GENERATORS
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression
from slackwater.sql.relations import Side, StoredRelation, sees_alias
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.values import quoted

#: The words before UNNEST or LATERAL, and whether a row without elements stays.
_BEFORE = (
    ((",",), False),
    (("CROSS", "JOIN"), False),
    (("INNER", "JOIN"), False),
    (("JOIN",), False),
    (("LEFT", "OUTER", "JOIN"), True),
    (("LEFT", "JOIN"), True),
)


@dataclass(frozen=True)
class _Lateral:
    """A generator in FROM."""

    function: str
    arguments: Expression | None
    alias: str | None
    names: list[str]


def with_generators(cursor: Cursor, side: Side, locations: SourceLocations) -> Side:
    """Read the generators behind a relation; give the relation with the columns that they add."""
    while True:
        begin = cursor.at
        found = _read(cursor)
        if found is None:
            return side
        if isinstance(side.rows, StoredRelation):
            raise cursor.error(f"{found.function} takes rows of a stream", cursor.since(begin))
        arguments = "" if found.arguments is None else found.arguments.without_qualifier(side.names).text
        name = f"({', '.join(map(quoted, found.names))})" if found.names else None
        columns = ((None, "*"), (name, f"{found.function}({arguments})"))
        rows = locations.put(L.Select((side.rows,), columns), SourceLocation(cursor.span(begin)))
        also = (*side.also, *([] if found.alias is None else [found.alias]))
        side = replace(side, rows=rows, names=(*also, *side.names), also=also)


def sees_generator(cursor: Cursor, ahead: int = 0) -> bool:
    """Whether UNNEST(…), LATERAL or a call of a generator comes next."""
    word = cursor.word_at(ahead)
    called = cursor.raw_at(ahead + 1) == "(" and (word == "UNNEST" or word.lower() in GENERATORS)
    return called or word == "LATERAL"


def _read(cursor: Cursor) -> _Lateral | None:
    if cursor.accept("LATERAL", "VIEW"):
        outer = cursor.accept("OUTER")
        word, arguments = _call(cursor)
        alias = None if cursor.sees("AS") or not sees_alias(cursor) else cursor.name("a name of the view")
        names = cursor.listed(lambda: cursor.name("a column")) if cursor.accept("AS") else []
        return _Lateral(_function(word, outer, names), arguments, alias, names)
    for words, outer in _BEFORE:
        seen = cursor.sees_symbol(",") if words == (",",) else cursor.sees(*words)
        if seen and sees_generator(cursor, len(words)):
            cursor.at += len(words)
            cursor.accept("LATERAL")
            return _joined(cursor, outer)
    return None


def _joined(cursor: Cursor, outer: bool) -> _Lateral:
    word, arguments = _call(cursor)
    if cursor.sees("WITH") and cursor.word_at(1) in ("ORDINALITY", "OFFSET"):
        raise cursor.error("for places of elements write LATERAL VIEW posexplode(items) t AS place, item")
    alias = cursor.name("an alias") if cursor.accept("AS") or sees_alias(cursor) else None
    names = list[str]()
    if cursor.accept_symbol("("):
        names = cursor.listed(lambda: cursor.name("a column"))
        cursor.expect_symbol(")")
    if cursor.accept("ON"):
        cursor.expect("TRUE")
    return _Lateral(_function(word, outer, names), arguments, alias, names)


def _call(cursor: Cursor) -> tuple[str, Expression | None]:
    """Read the generator and its arguments."""
    if not sees_generator(cursor) or cursor.sees("LATERAL"):
        cursor.expected(f"UNNEST or a generator such as {', '.join(sorted(GENERATORS))}", sorted(GENERATORS))
    word = cursor.source.word(cursor.next()).lower()
    cursor.expect_symbol("(")
    begin, depth = cursor.at, 1
    while depth:
        if cursor.token is None:
            cursor.expected("')'")
        raw = cursor.source.raw(cursor.next())
        depth += (raw == "(") - (raw == ")")
    tokens = tuple(cursor.tokens[begin : cursor.at - 1])
    return word, Expression(cursor.source, tokens) if tokens else None


def _function(word: str, outer: bool, names: list[str]) -> str:
    """Spark's generator: UNNEST of an array of structs gives their fields."""
    function = word if word != "unnest" else "inline" if len(names) > 1 else "explode"
    return f"{function}_outer" if outer and not function.endswith("_outer") else function
