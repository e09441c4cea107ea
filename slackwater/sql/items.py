"""The entries of a SELECT list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import Token

from slackwater.errors import SqlError
from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, read_column
from slackwater.sql.join_query import JoinQuery
from slackwater.sql.source import Span, SqlText, span_of
from slackwater.sql.values import quoted


@dataclass(frozen=True)
class Item:
    """One entry of a SELECT list; without an expression it is a star."""

    expression: Expression | None
    alias: str | None
    tokens: tuple[Token, ...]

    @property
    def span(self) -> Span:
        """Where it stands."""
        return span_of(list(self.tokens))

    @property
    def name(self) -> str | None:
        """The name of its column; None for a star."""
        return None if self.expression is None else self.alias or self.expression.name

    @property
    def column(self) -> L.Column:
        """As a logical column."""
        if self.expression is None:
            return None, "*"
        return self.alias, self.expression.text

    @property
    def qualifier(self) -> Token | None:
        """The name before the star of `x.*`."""
        return self.tokens[0] if self.expression is None and len(self.tokens) > 1 else None


def not_called(name: Token, source: SqlText) -> SqlError:
    """The error for a qualifier that no relation has."""
    return source.error(span_of([name]), f"no relation of FROM is called {name.text}")


def read_items(cursor: Cursor) -> list[Item]:
    """Read what follows SELECT."""
    items = list[Item]()
    while True:
        begin = cursor.at
        if cursor.sees_symbol("*") or (cursor.raw_at(1) == "." and cursor.raw_at(2) == "*"):
            if not cursor.accept_symbol("*"):
                cursor.name("a relation's name before the star")
                cursor.at += 2
            if cursor.sees("EXCEPT") and cursor.raw_at(1) == "(":
                raise cursor.error("* EXCEPT (…) is not supported yet; name the columns that you want")
            items.append(Item(None, None, tuple(cursor.since(begin))))
        else:
            expression, alias = read_column(cursor)
            items.append(Item(expression, alias, tuple(cursor.since(begin))))
        if not cursor.accept_symbol(","):
            return items


def items_of_join(items: Sequence[Item], query: JoinQuery, source: SqlText) -> list[Item]:
    """The entries in terms of the joined rows.

    A column that several sides have keeps the name of its own side, unless two entries would have this name.
    """
    if query.names is None:
        names = [name.lower() for side in query.relations.sides for name in side.names]
        for item in items:
            if item.qualifier is not None and item.qualifier.text.lower() not in names:
                raise not_called(item.qualifier, source)
        return [i if i.expression is None else replace(i, expression=query.resolved(i.expression)) for i in items]
    resolved = list[Item]()
    for item in items:
        if item.expression is not None:
            resolved.append(replace(item, expression=query.resolved(item.expression)))
        elif item.qualifier is None and not query.swapped:
            resolved.append(item)
        else:
            resolved += _star(item, query, source)
    own = [_own(item, query) for item in resolved]
    wanted = Counter(name.lower() for name in own if name is not None)
    return [
        replace(item, alias=name)
        if name is not None and item.alias is None and wanted[name.lower()] == 1 and _is_renamed(item, name)
        else item
        for item, name in zip(resolved, own, strict=True)
    ]


def _own(item: Item, query: JoinQuery) -> str | None:
    """The alias of an entry, or the name of its column on its own side; None for other expressions."""
    if item.alias is not None or item.expression is None or item.expression.column is None:
        return item.alias
    assert query.names is not None
    return query.names.own(item.expression.column)


def _is_renamed(item: Item, name: str) -> bool:
    assert item.expression is not None
    return (item.expression.column or name).lower() != name.lower()


def _star(item: Item, query: JoinQuery, source: SqlText) -> list[Item]:
    """The columns that `*` or `x.*` stands for."""
    assert query.names is not None
    columns = query.names.all(item.qualifier, query.seen)
    if columns is None:
        assert item.qualifier is not None
        raise not_called(item.qualifier, source)
    return [
        Item(Expression(source, item.tokens, ((item.span, quoted(column.name)),)), None, item.tokens)
        for column in columns
    ]
