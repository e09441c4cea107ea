"""A SELECT with a window: sorts its columns into groups, aggregates, and expressions over the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

from slackwater.aggregates.parse import unknown_function
from slackwater.aggregates.registry import BY_FUNCTION, known
from slackwater.aggregates.user_text import replace_columns
from slackwater.errors import did_you_mean
from slackwater.plan import logical as L
from slackwater.plan.grouping_sets import Sets
from slackwater.sql.expression import Expression
from slackwater.sql.items import Item
from slackwater.sql.named_windows import NamedWindows, written_out
from slackwater.sql.order_by import Comparison
from slackwater.sql.relations import From
from slackwater.sql.source import Span, SqlText
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.subquery import SubQuery
from slackwater.sql.window import SPARK_WINDOWS, WindowClause, spark_window
from slackwater.windows.results import RESULT_COLUMNS, WINDOW_END, WINDOW_START

#: Spark's struct of a window, in terms of the columns of every result.
_BOUNDS = {"START": WINDOW_START, "END": WINDOW_END}
_STRUCT = f"named_struct('start', {WINDOW_START}, 'end', {WINDOW_END})"


@dataclass(frozen=True)
class _Group:
    """A group. `name` is its name in the results; None if it has the name of its column."""

    name: str | None
    expression: Expression

    @property
    def result(self) -> str:
        return self.name or self.expression.name


@dataclass(frozen=True)
class Clauses:
    """What was written between SELECT and the end of the query."""

    items: Sequence[Item]
    relations: From
    where: Sequence[Expression]
    """Conditions on single rows."""
    subqueries: Sequence[SubQuery]
    groups: Sequence[Expression]
    having: Expression | None
    window: WindowClause | None
    comparison: Comparison | None = None
    windows: NamedWindows = field(default_factory=dict)
    """Those that WINDOW gives names."""
    distinct: bool = False
    """Whether DISTINCT stands behind SELECT."""
    sets: Sets | None = None
    """The grouping sets, as places of the groups."""


class WindowQuery:
    """Makes nodes of the clauses of a SELECT with a window."""

    def __init__(self, clauses: Clauses, window: WindowClause, locations: SourceLocations) -> None:
        self._items = clauses.items
        self._window = window
        self._having = clauses.having
        self._comparison = clauses.comparison
        self._windows = clauses.windows
        self._locations = locations
        self._source: SqlText = locations.source
        self._aggregates: list[tuple[str, Expression]] = []
        self._hidden: list[tuple[str, Expression]] = []
        self._group_span = _covering(clauses.groups)
        self._groups = [self._group(g) for g in clauses.groups]
        self._sets = clauses.sets
        self._check_partition(clauses.groups)

    def logical(self, rows: L.Logical) -> L.Logical:
        """The nodes."""
        shown = [column for item in self._items if (column := self._shown(item)) is not None]
        having = None if self._having is None else self._over_results(self._having)
        if not (self._aggregates or self._hidden or self._groups):
            self._refuse_without_aggregates()
        compared = [] if self._comparison is None else self._comparison.expressions
        texts = {id(expression): self._over_results(expression) for expression in compared}
        node = self._aggregate(rows)
        if having is not None and self._having is not None:
            node = self._locations.put(L.Where((node,), having), SourceLocation(self._having.span))
        natural = [g.result for g in self._groups] + [name for name, _ in self._aggregates]
        names = {name.lower() for name, _ in shown}
        more = [(n, None) for n in (*natural, *(n for n, _ in self._hidden)) if n.lower() not in names]
        more = [column for column in more if any(_names(text, column[0]) for text in texts.values())]
        if shown != [(name, None) for name in natural] or self._hidden:
            node = self._select(node, [*shown, *more])
        if self._comparison is not None:
            node = self._comparison.over(node, lambda expression: texts[id(expression)], self._locations)
        return self._select(node, [(name, None) for name, _ in shown]) if more else node

    def _select(self, node: L.Logical, shown: Sequence[tuple[str, str | None]]) -> L.Logical:
        columns = tuple(_column(name, text) for name, text in shown)
        return self._locations.put(L.Select((node,), columns), SourceLocation(self._list_span))

    def _refuse_without_aggregates(self) -> NoReturn:
        """Say that SELECT has no aggregate; perhaps one is misspelt."""
        for item in self._items:
            name = "" if item.expression is None else unknown_function(item.expression.text)
            if name:
                wrong = f"there is no aggregate {name!r}{did_you_mean(name, BY_FUNCTION)}; known are {known()}"
                raise self._source.error(item.span, wrong)
        wrong = "a window is for aggregates, and there is none in SELECT; add one, as in count(*)"
        raise self._source.error(self._window.span, wrong)

    def _aggregate(self, rows: L.Logical) -> L.Logical:
        every = [*self._aggregates, *self._hidden]
        node = L.Aggregate(
            (rows,),
            self._window.window,
            tuple((g.name, g.expression.text) for g in self._groups),
            tuple((name, self._named_groups(e).text) for name, e in every),
            self._sets,
        )
        spans = {f"{name}=": e.span for name, e in every}
        return self._locations.put(
            node, SourceLocation(self._list_span, self._window.span, self._group_span, spans)
        )

    @property
    def _list_span(self) -> Span:
        return Span(self._items[0].span.start, self._items[-1].span.end)

    # --- groups

    def _check_partition(self, written: Sequence[Expression]) -> None:
        """Refuse groups that are not those of PARTITION BY: sessions are sessions of a group."""
        partition = self._window.partition
        if partition is None:
            return
        names = ", ".join(group.expression.text for group in self._groups)
        for one, others in (
            (partition, [g.expression for g in self._groups]),
            ([g.expression for g in self._groups], partition),
        ):
            if any(not any(self._same(column, other) for other in others) for column in one):
                raise self._source.error(
                    self._window.span,
                    "each group has sessions of its own here, so PARTITION BY and GROUP BY name the same columns; "
                    + (f"write PARTITION BY {names}" if names else "leave PARTITION BY out, or add GROUP BY"),
                )

    def _group(self, written: Expression) -> _Group:
        if written.aggregates:
            raise self._source.error(
                written.span, "a group is made of one row; aggregates go into SELECT or HAVING"
            )
        expression = self._by_number(written) or self._by_alias(written) or written
        named = [
            i.alias
            for i in self._items
            if i.expression is not None and i.alias is not None and self._same(i.expression, expression)
        ]
        if len(named) == 1 and named[0] != expression.column:
            return _Group(named[0], expression)
        return _Group(None if expression.column is not None else expression.name, expression)

    def _by_number(self, written: Expression) -> Expression | None:
        """`GROUP BY 1` means the first entry of SELECT."""
        if len(written.tokens) != 1 or not self._source.raw(written.tokens[0]).isdecimal():
            return None
        number = int(self._source.raw(written.tokens[0]))
        item = self._items[number - 1] if 0 < number <= len(self._items) else None
        if item is None or item.expression is None or item.expression.aggregates:
            raise self._source.error(
                written.span, f"GROUP BY {number}: there is no such column in SELECT to group by"
            )
        return item.expression

    def _by_alias(self, written: Expression) -> Expression | None:
        """The expression that SELECT gives this name to, unless the expression itself has a column of this name."""
        for item in self._items:
            if item.expression is None or item.alias is None or written.column is None:
                continue
            if item.alias.lower() != written.column.lower() or item.expression.aggregates:
                continue
            if not item.expression.find(written.tokens):
                return item.expression
        return None

    # --- what SELECT shows

    def _shown(self, item: Item) -> tuple[str, str | None] | None:
        """Name and expression of a column over the results.

        No expression: the results have a column of this name. None: all results have the column anyway.
        """
        expression = item.expression
        if expression is None:
            raise self._source.error(
                item.span, "* cannot stand beside a window; name the groups and the aggregates"
            )
        name = item.alias or expression.name
        column = (expression.column or "").lower()
        if column in RESULT_COLUMNS:
            return None if item.alias in (None, column) else (name, column)
        if self._is_window(expression):
            return item.alias or (expression.column or "window").lower(), _STRUCT
        for group in self._groups:
            if self._same(group.expression, expression):
                return (name, None) if name == group.result else (name, _quoted(group.result))
        if expression.aggregates and not expression.has_over:
            self._aggregates.append((name, self._with_bounds(expression)))
            return name, None
        return name, self._over_results(expression)

    def _is_window(self, expression: Expression) -> bool:
        """Whether it is Spark's struct of a window: the word `window`, or the same `window(…)` as in GROUP BY."""
        if (expression.column or "").upper() in SPARK_WINDOWS:
            return True
        window = spark_window(expression)
        return window is not None and window.window == self._window.window

    # --- expressions over results

    def _over_results(self, expression: Expression) -> str:
        """The expression with groups and aggregates replaced by the names of their columns, which may be hidden."""
        resolved = written_out(self._with_bounds(expression), self._windows, self._over_results)
        for at, end in expression.aggregates:
            resolved = resolved.edited(at, end, _quoted(self._name_of(expression.part(at, end))))
        return self._named_groups(resolved).text

    def _name_of(self, call: Expression) -> str:
        aggregates = [*self._aggregates, *self._hidden]
        for name, expression in aggregates:
            if self._same(expression, call):
                return name
        used_names = {name.lower() for name, _ in aggregates} | {g.result.lower() for g in self._groups}
        name = next(n for i in count(1) if (n := f"having_{i}") not in used_names)
        self._hidden.append((name, call))
        return name

    def _named_groups(self, expression: Expression) -> Expression:
        """The expression with groups replaced by their names in results, except inside of aggregates."""
        inside = {n for at, end in expression.aggregates for n in range(at, end)}
        for group in sorted(self._groups, key=lambda g: -len(g.expression.tokens)):
            if group.name is None:
                continue
            for at, end in expression.find(group.expression.tokens):
                if at not in inside:
                    expression = expression.edited(at, end, _quoted(group.result))
        return expression

    def _with_bounds(self, expression: Expression) -> Expression:
        """`window.start` and `window.end` as the columns of every result."""
        words = [self._source.word(t) for t in expression.tokens]
        for n in range(len(words) - 2):
            bound = _BOUNDS.get(words[n + 2])
            dotted = self._source.raw(expression.tokens[n + 1]) == "."
            if words[n] in SPARK_WINDOWS and dotted and bound is not None:
                expression = expression.edited(n, n + 3, bound)
        return expression

    def _same(self, one: Expression, other: Expression) -> bool:
        return one.text == other.text or self._source.same_words(one.tokens, other.tokens)


def _names(text: str, column: str) -> bool:
    """Whether an expression names a column."""
    return replace_columns(text, {column.lower(): ""}) != text


def _covering(expressions: Iterable[Expression]) -> Span | None:
    spans = [e.span for e in expressions]
    return Span(spans[0].start, spans[-1].end) if spans else None


def _column(name: str, text: str | None) -> L.Column:
    quoted = _quoted(name)
    if text is None or text == quoted:
        return (None, name) if name.isidentifier() else (name, quoted)
    return name, text


def _quoted(name: str) -> str:
    return f"`{name}`"
