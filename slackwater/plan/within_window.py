"""Results of one window compared with one another: ORDER BY and LIMIT, and OVER (PARTITION BY window_start …).

They are steps over the pages of results, early and final alike. So a page must have all results of its windows.
"""

from __future__ import annotations

import re

from slackwater.aggregates.over import has_over, over_calls, taken_out, with_total_order
from slackwater.aggregates.types import is_value
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.expressions import check_of_one_row
from slackwater.plan.nodes import StepNode
from slackwater.plan.relation import Relation
from slackwater.plan.select_results import Pairs, results_select
from slackwater.plan.steps import Over, Select, Sort, Where
from slackwater.plan.unite import AnalysedPlan
from slackwater.windows.results import RESULT_COLUMNS, WINDOW_END, WINDOW_START

#: The name of a column that only a condition uses. Users cannot write such names.
_HIDDEN = "__over{}"
_NO_END = {
    "order_by": "a stream has no end, so it cannot be sorted; sort what the sink has got, or give it a window, as "
    "in [RANGE 1 HOUR, SLIDE 1 HOUR]: then the results of each window are sorted",
    "limit": "a stream has no end; stop the query when you have enough, or give it a window, as in [RANGE 1 HOUR, "
    "SLIDE 1 HOUR]: then each window has so many results",
}
_DIRECTION = re.compile(r"(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*\Z", re.IGNORECASE)
_BOUNDS = frozenset((WINDOW_START, WINDOW_END))


def whole_windows(rows: AnalysedPlan, what: str, of_rows: str) -> AnalysedPlan:
    """The same results, with all of a window in one page; `of_rows` is what to say of rows that are no results."""
    node = rows.node.whole_windows()
    if node is not None and WINDOW_START in rows.relation.names:
        return AnalysedPlan(node, rows.relation)
    if node is not None:
        raise QueryError(f"{what} works on the results of each window; keep {WINDOW_START} in the select before it")
    if len(rows.node.answers()) > 1:
        raise QueryError(
            f"{what}: the results of several windows, or grouping sets, come at different times; put the union "
            "before the window, so that there is one, or write a query for each set"
        )
    if rows.node.answers():
        raise QueryError(f"{what}: {rows.node.answers()[0].not_compared}")
    raise QueryError(of_rows)


def sorted_results(rows: AnalysedPlan, query: L.Sort) -> AnalysedPlan:
    """The results of each window in order."""
    what = "limit" if not query.order else "order_by"
    if query.limit is not None and (type(query.limit) is not int or query.limit < 1):
        raise QueryError(f"limit({query.limit!r}): write how many results of each window to keep, as in limit(3)")
    rows = whole_windows(rows, what, _NO_END[what])
    order = [_read(text) for text in query.order]
    for (sql, _, _), written in zip(order, query.order, strict=True):
        if over_calls(sql):
            raise QueryError(f"order_by {written!r}: give the OVER (…) a name in select, and order by the name")
        check_of_one_row("", sql, "order_by")
        rows.relation.compared_type_of(sql, "order_by", written)
    order += [(f"`{name}`", False, False) for name in tie_breakers(rows.relation)]
    step = Sort(tuple(order), query.limit, ", ".join(query.order) or "all columns")
    return AnalysedPlan(StepNode((rows.node,), step, rows.node.schema, rows.node.early_schema), rows.relation)


def directed(text: str) -> bool:
    """Whether the text says a direction.

    >>> directed("n desc nulls last"), directed("description")
    (True, False)
    """
    found = _DIRECTION.search(text)
    return found is not None and bool(found[0].strip())


def _read(text: str) -> tuple[str, bool, bool]:
    """The expression, whether it descends, and whether nulls come last: with DESC they do, as in Spark."""
    found = _DIRECTION.search(text)
    assert found is not None
    descending = (found[1] or "").lower() == "desc"
    last = descending if found[2] is None else found[2].lower() == "last"
    return text[: found.start()].strip(), descending, last


def tie_breakers(relation: Relation) -> list[str]:
    """The columns that put equal results in a certain order, so that they come out the same after a restart."""
    names = [name for name in relation.names if name not in RESULT_COLUMNS and not name.startswith("__")]
    return [name for name in names if is_value(relation.type_of(f"`{name}`", name))]


def with_over(rows: AnalysedPlan, pairs: Pairs, what: str) -> AnalysedPlan:
    """A projection of results in which some columns have OVER (…)."""
    written = next(_written(what, *pair) for pair in pairs if has_over(pair[1]))
    rows = whole_windows(
        rows,
        written,
        f"{written}: OVER (…) would see one page at a time; write rolling(range=…) or rolling(rows=…), a window "
        "for each row",
    )
    ties = tie_breakers(rows.relation)
    checked = []
    for name, sql in pairs:
        check_over(sql, _written(what, name, sql))
        checked.append((name, with_total_order(sql, ties)))
    return projection(rows, tuple(checked), what, Over)


def _written(what: str, name: str, sql: str) -> str:
    return f"{what} {sql!r}" if name.startswith("__") else f"{what} {name}={sql!r}"


def check_over(sql: str, written: str) -> None:
    """Refuse an OVER that would compare results of different windows."""
    for call in over_calls(sql):
        if not _BOUNDS & {part.strip("`").lower() for part in call.partition}:
            raise QueryError(
                f"{written}: OVER ({call.inside}) would compare results of different windows; write "
                f"OVER (PARTITION BY {', '.join([WINDOW_START, *call.partition])} …)"
            )


def qualified(rows: AnalysedPlan, condition: str) -> AnalysedPlan:
    """The results that meet a condition with OVER (…): SQL's QUALIFY."""
    rest, calls = taken_out(condition, _HIDDEN)
    names = rows.relation.names
    same = tuple((name, f"`{name}`") for name in names)
    over = with_over(rows, (*same, *calls), "where")
    where = StepNode((over.node,), Where(rest), over.node.schema, over.node.early_schema)
    return projection(AnalysedPlan(where, over.relation.where(rest)), same, "where")


def projection(rows: AnalysedPlan, pairs: Pairs, what: str, kind: type[Select] = Select) -> AnalysedPlan:
    """Other columns of results, or of the rows that results have become."""
    if rows.node.answers():
        return AnalysedPlan(*results_select(rows.node, rows.relation, pairs, what, kind))
    return rows.projected(pairs, what, kind)
