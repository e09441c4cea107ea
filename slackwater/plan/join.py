"""Joins: of two streams within windows, and of a stream with a stored relation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from slackwater.columns import TWIN
from slackwater.errors import QueryError, QueryWarning, did_you_mean
from slackwater.plan import logical as L
from slackwater.plan.expressions import check_of_one_row
from slackwater.plan.join_condition import Distance, distance
from slackwater.plan.join_node import JoinNode, Lifetime
from slackwater.plan.node import PlanNode, check_domains
from slackwater.plan.nodes import StampNode, StepNode
from slackwater.plan.relation import Relation, schema_of
from slackwater.plan.steps import JoinTable
from slackwater.plan.time_domains import check_latent
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain
from slackwater.windows.results import WINDOW_END

#: The kinds of joins, in the words of Spark and SQL.
KINDS = {
    **{word: "inner" for word in ("inner", "cross")},
    **{word: "left" for word in ("left", "left outer", "leftouter", "left_outer")},
    **{word: "right" for word in ("right", "right outer", "rightouter", "right_outer")},
    **{word: "full" for word in ("full", "full outer", "outer", "fullouter", "full_outer")},
    **{word: "semi" for word in ("semi", "left semi", "leftsemi", "left_semi")},
    **{word: "anti" for word in ("anti", "left anti", "leftanti", "left_anti")},
}
_SIDES = ("left", "right")
_SAY_WINDOW = (
    "say how far rows may be apart, as in join(…, within='10 minutes') or ON b.t BETWEEN a.t AND a.t + INTERVAL "
    "10 MINUTES, or how long its rows find partners, as in rolling(range='10 minutes') or [RANGE 10 MINUTES]"
)


@dataclass(frozen=True)
class _Matched:
    """How the columns of two sides come together."""

    right: tuple[tuple[str, str], ...]
    """The columns of the right side, with names that the left side does not have."""
    columns: tuple[tuple[str, str], ...]
    condition: str | None
    relation: Relation
    """The rows that come out."""

    @property
    def schema(self) -> pa.Schema:
        """Their shape."""
        return schema_of(self.relation, [name for name, _ in self.columns])


def joined(parts: Sequence[AnalysedPlan], query: L.Join, same: tuple[str, ...] = ()) -> AnalysedPlan:
    """The join of two analysed sides; `same` are columns of both that a pair has once."""
    how = kind_of(query.how)
    if any(window is not None and window.gap is not None for window in query.windows):
        raise QueryError(
            "join() does not pair the rows of sessions: sessions of two streams have bounds of their own; write "
            "agg(…) behind each side and join the results, or say how far rows may be apart, as in "
            "join(…, within='10 minutes')"
        )
    for part in parts:
        if part.node.answers():
            raise QueryError(
                "join() of the results of windows for each row: they come when time has passed; give the window a "
                "slide, as in window('30 seconds', slide='10 seconds')"
            )
    check_domains([part.node for part in parts], "join()")
    check_latent([part.node for part in parts], "join()")
    # A join needs times: rows that have none yet get them before it.
    left, right = (AnalysedPlan(StampNode((p.node,)), p.relation) if p.node.latent else p for p in parts)
    if same:
        _check_in_windows(parts)
    matched = match(left.relation, right.relation, query.on, how, same)
    node = right.node
    if [name for name, _ in matched.right] != right.relation.names:
        node = right.projected(matched.right, "join").node
    times = left.node.time_columns(), node.time_columns()
    said = distance(matched.condition, *times, left.node.domain)
    sides = (_until(0), _until(0)) if same else _sides((left.node, node), query, said)
    join = JoinNode(
        (left.node, node),
        how,
        sides,
        matched.condition,
        matched.columns,
        matched.schema,
        (left.node.schema, node.schema),
        " and ".join([written(query.on), *same]),
    )
    return AnalysedPlan(join, matched.relation)


def joined_stored(below: AnalysedPlan, table: Relation, query: L.JoinStored) -> AnalysedPlan:
    """The join of a stream with a stored relation."""
    how = kind_of(query.how)
    if below.node.answers():
        raise QueryError("join() of results with a stored relation: put another window behind it, or join the rows")
    if how in ("right", "full"):
        raise QueryError(
            f"join(how={query.how!r}) with a stored relation: its rows without a partner would be known only "
            "when the stream has ended; write how='inner' or how='left'"
        )
    pairs = _projected(table, query.columns)
    matched = match(below.relation, table.select(pairs, "join") if query.columns else table, query.on, how)
    texts = dict(pairs)
    stored = tuple((name, texts[sql.strip("`")]) for name, sql in matched.right)
    step = JoinTable(query.table, how, matched.condition, stored, matched.columns, written(query.on))
    return AnalysedPlan(StepNode((below.node,), step, matched.schema), matched.relation)


def kind_of(how: object) -> str:
    """The kind of a join in one word."""
    kind = KINDS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        hint = did_you_mean(how, list(KINDS)) if isinstance(how, str) else ""
        kinds = ", ".join(dict.fromkeys(KINDS.values()))
        raise QueryError(f"join(how={how!r}) is no kind of join{hint}; there are {kinds}")
    return kind


def _projected(table: Relation, columns: Sequence[L.Column]) -> list[tuple[str, str]]:
    """The columns of a stored relation by their names in the join."""
    if not columns:
        return [(name, f"`{name}`") for name in table.names]
    for name, sql in columns:
        check_of_one_row(name or sql, sql, "join")
    return [(table.name_of(sql, "join") if name is None else name, sql) for name, sql in columns]


def _sides(nodes: tuple[PlanNode, PlanNode], query: L.Join, said: Distance) -> tuple[Lifetime, Lifetime]:
    """How long rows of both sides find partners, given what the condition says of their times."""
    domain, limits = nodes[0].domain, (said.after, said.before)
    if query.within is None:
        one_end = (said.after is None) != (said.before is None)
        left, right = (_alive(*side, one_end) for side in zip(nodes, query.windows, _SIDES, limits, strict=True))
    else:
        if any(query.windows):
            raise QueryError("join(within=…) says how far rows may be apart; leave rolling(…) and window(…) out")
        # A row must live until its later partner comes.
        right, left = (_until(_distance(domain, length)) for length in query.within)
    for side, alive, limit in zip(_SIDES, (left, right), said.certain, strict=True):
        if alive.rows is None and limit is not None and limit >= alive.longest:
            _warn(
                f"ON lets rows be {domain.show_span(limit)} apart, but a row of the {side} side finds partners for "
                f"{alive.describe(domain)}: pairs that are further apart are lost; leave the windows and within= "
                "out, then ON says it alone"
            )
    for text in said.unread:
        _warn(
            f"how far apart {text} lets rows be is not understood: pairs that are further apart than "
            f"{left.describe(domain)} and {right.describe(domain)} are lost, whatever it says; compare the times "
            "directly, as in b.t <= a.t + INTERVAL 10 MINUTES"
        )
    return left, right


def _check_in_windows(parts: Sequence[AnalysedPlan]) -> None:
    for part, side in zip(parts, _SIDES, strict=True):
        if part.node.time_columns().get(WINDOW_END) != (1, 1):
            raise QueryError(
                f"join() pairs rows of the same window, and the {side} side has none; write the same one on both "
                "sides, as in a.window('10 minutes').join(b.window('10 minutes'), on='k') or a [RANGE 10 MINUTES, "
                "SLIDE 10 MINUTES] JOIN b [RANGE 10 MINUTES, SLIDE 10 MINUTES] USING (k)"
            )


def _warn(text: str) -> None:
    warnings.warn(f"join(): {text}", QueryWarning, stacklevel=2)


def _until(distance: int) -> Lifetime:
    """A row lives for a half-open range, so one more tick includes the end."""
    length = max(distance, 0) + 1
    return Lifetime(length, longest=length, closed=True)


def _distance(domain: TimeDomain, length: Span) -> int:
    ticks = domain.span(length, "within")
    if ticks < 0:
        raise QueryError(
            f"join(within=…): {length!r} is negative; write how far the other row may be before and after this "
            "one, as in within=('1 minute', '10 minutes')"
        )
    if ticks >= LONGEST_SPAN:
        raise QueryError(f"join(within=…): {length!r} is too long; the longest is {domain.show_span(LONGEST_SPAN)}")
    return ticks


def _alive(node: PlanNode, window: L.Window | None, side: str, limit: int | None, one_end: bool) -> Lifetime:
    """How long rows of a side find partners; `limit` is how much later the condition lets these be."""
    if window is None:
        if limit is not None:
            return _until(limit)
        if node.over_results and not one_end:
            return Lifetime(1, longest=1)  # results of windows that end together
        return Lifetime(
            longest=node.lifetime(lambda: QueryError(f"join(): the {side} side has no window; {_SAY_WINDOW}"))
        )
    for word, name in (("offset", "offset"), ("wattr", "on"), ("disorder", "disorder")):
        if getattr(window, word) is not None:
            raise QueryError(
                f"join(): a window with {name}= is for aggregates; rows of a join find partners for a range: "
                "write rolling(range='10 minutes') or rolling(rows=100)"
            )
    if (window.range is None) == (window.rows is None):
        raise QueryError(f"join(): {_SAY_WINDOW}")
    if window.rows is not None:
        return Lifetime(rows=_count(window.rows))
    return _of_range(node.domain, window)


def _of_range(domain: TimeDomain, window: L.Window) -> Lifetime:
    assert window.range is not None
    if window.range == L.UNBOUNDED:
        raise QueryError(f"join(): RANGE UNBOUNDED would keep rows for good; {_SAY_WINDOW}")
    length = 1 if window.range == L.NOW else domain.span(window.range, "range")
    if length <= 0:
        raise QueryError(f"join(): range={window.range!r} must be positive; {_SAY_WINDOW}")
    return Lifetime(length, longest=length)


def _count(rows: object) -> int:
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise QueryError(f"join(): rows={rows!r} is no number of rows; write rolling(rows=100)")
    return rows


def match(
    left: Relation, right: Relation, on: str | tuple[str, ...] | None, how: str, same: tuple[str, ...] = ()
) -> _Matched:
    """The columns of a pair, and the condition that two rows of a pair meet."""
    named = _using(on, left, right)
    using = {**named, **(_using(same, left, right) if same else {})}
    left_names = {name.lower() for name in left.names}
    for name in right.names:
        if name.lower() in left_names and name not in using.values():
            raise QueryError(
                f"join(): both sides have a column {name!r}; give one of them another name with select(…), or "
                f"join by it, as in on={name!r}"
            )
    apart = tuple((f"{TWIN}{n}" if n in using.values() else n, f"`{n}`") for n in right.names)
    both = left.cross_join(right.select(apart, "join") if using else right)
    twins = {name: f"{TWIN}{other}" for name, other in using.items()}
    columns = [(n, _of_both(n, twins.get(n), how)) for n in left.names]
    if how not in ("semi", "anti"):
        columns += [(n, f"`{n}`") for n in right.names if n not in using.values()]
    equal = [f"`{name}` = `{twin}`" for name, twin in twins.items()]
    if isinstance(on, str) and not named:
        check_of_one_row("on", on, "join")
        equal.append(f"({on})")
    condition = " AND ".join(equal) or None
    if condition is not None:
        both.where(condition, "join on")
    return _Matched(apart, tuple(columns), condition, both.select(columns, "join"))


def _of_both(name: str, twin: str | None, how: str) -> str:
    """A column that USING names: the value of the side that has a row."""
    if twin is None or how in ("inner", "left", "semi", "anti"):
        return f"`{name}`"
    return f"`{twin}`" if how == "right" else f"coalesce(`{name}`, `{twin}`)"


def _using(on: str | tuple[str, ...] | None, left: Relation, right: Relation) -> dict[str, str]:
    """The left columns that `on` names, each with the right one; none if `on` is a condition."""
    if on is None:
        return {}
    if isinstance(on, str):
        named = on.strip().strip("`")
        common = {n.lower() for n in left.names} & {n.lower() for n in right.names}
        if named.lower() not in common:
            return {}
        on = (named,)
    if not on:
        raise QueryError("join(on=[]): name a column of both sides, or write a condition, as in on='a = b'")
    pairs = {}
    for name in on:
        for relation, side in ((left, "left"), (right, "right")):
            if name.lower() not in {n.lower() for n in relation.names}:
                hint = did_you_mean(name, relation.names)
                raise QueryError(
                    f"join(on={name!r}): the {side} side has no such column{hint}; there are "
                    f"{', '.join(relation.names)}; a condition is written as text, as in on='a = b'"
                )
        first, second = (next(n for n in r.names if n.lower() == name.lower()) for r in (left, right))
        pairs[first] = second
    return pairs


def written(on: str | tuple[str, ...] | None) -> str:
    """The condition in the user's words."""
    if on is None:
        return "every pair"
    return on if isinstance(on, str) else ", ".join(on)
