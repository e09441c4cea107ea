"""The as-of join: each row of a stream with the row of another one that is valid at its time, as a last price.

The other stream is a relation that changes: its rows are versions, and each is valid from its own time on
(S1 section 2). A row waits only until the heartbeat of the versions has passed its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot import exp

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.identifiers import bare, column_text
from slackwater.plan.join import kind_of, match, written
from slackwater.plan.join_condition import Distance, compares_times, conjuncts, distance
from slackwater.plan.join_node import JoinNode, Lifetime
from slackwater.plan.node import PlanNode, check_domains
from slackwater.plan.nodes import StampNode
from slackwater.plan.spark_sql import SparkSQL
from slackwater.plan.time_columns import TimeColumns, through
from slackwater.plan.time_domains import check_latent
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.time import TimeDomain

Direction = Literal["backward", "forward", "nearest"]
_DIRECTIONS: tuple[Direction, ...] = ("backward", "forward", "nearest")
_EQUAL = (
    "name columns that are equal on both sides, as in on='symbol' or on='symbol = code'; put other conditions into "
    "where(…) behind the join"
)


@dataclass(frozen=True)
class AsofNode(JoinNode):
    """Rows of the left input, each with at most one row of the right one. They keep their time."""

    keys: tuple[tuple[str, str, bool], ...] = ()
    """Spark SQL of each side that must be equal, and whether a null equals a null."""
    direction: Direction = "backward"
    within: int | None = None
    """How far apart both rows may be, in ticks, the end included."""

    @property
    def ahead(self) -> int:
        """How far time must have passed a row before the row that it meets is known."""
        return 0 if self.direction == "backward" else self.within or 0

    @property
    def back(self) -> int | None:
        """By how much a row of the right side may be earlier; None: by any stretch."""
        return 0 if self.direction == "forward" else self.within

    def as_asof(self) -> AsofNode:
        """Itself."""
        return self

    def describe(self) -> str:
        """The kind, the condition and the distance."""
        length = "" if self.within is None else f" within {self.domain.show_span(self.within)}"
        return f"{self.how} as-of join ({self.direction}) on {self.written}{length}"

    def same_work(self) -> object:
        """All but the wanted columns and the user's words."""
        return "as-of", self.how, self.keys, self.direction, self.within, self.columns

    def time_columns(self) -> TimeColumns:
        """Those of the left side."""
        return through(self.columns, self.inputs[0].time_columns())

    @property
    def passes_early_rows(self) -> bool:
        """The rows that wait for time, also for a prod."""
        return True

    @property
    def looks_ahead(self) -> bool:
        """Whether a later row may be the match."""
        return self.direction != "backward"

    @property
    def reach(self) -> int:
        """It keeps times."""
        return 0

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """Its rows are no pairs: each is a row of the left side."""
        raise missing()


def asof(parts: Sequence[AnalysedPlan], query: L.JoinAsof) -> AnalysedPlan:
    """The as-of join of two analysed sides."""
    how = kind_of(query.how)
    if how not in ("inner", "left"):
        raise QueryError(
            f"join_asof(how={query.how!r}): each row of the left side meets one row; write 'left' or 'inner'"
        )
    if query.direction not in _DIRECTIONS:
        raise QueryError(f"join_asof(direction={query.direction!r}): write 'backward', 'forward' or 'nearest'")
    parts = [_rows_of(part) for part in parts]
    nodes = [part.node for part in parts]
    check_domains(nodes, "join_asof()")
    check_latent(nodes, "join_asof()")
    left, right = (AnalysedPlan(StampNode((p.node,)), p.relation) if p.node.latent else p for p in parts)
    _check_time(query.at, left.node)
    matched = match(left.relation, right.relation, query.on, how)
    node = right.node if _same(matched.right) else right.projected(matched.right, "join").node
    domain, times = left.node.domain, (left.node.time_columns(), node.time_columns())
    tests = _conjuncts(matched.condition)
    equal = [test for test in tests if not compares_times(test, *times, domain)]
    said = distance(matched.condition, *times, domain)
    if said.unread or (len(equal) < len(tests) and said == Distance()):
        raise QueryError(f"join_asof(on={query.on!r}): compare the times directly, as in a.t >= b.t")
    direction, within = _limits(query, said, domain)
    keys = tuple(_key(test, left.node.schema.names, node.schema.names) for test in equal)
    join = AsofNode(
        (left.node, node),
        how,
        (Lifetime(1, longest=1), Lifetime(1, longest=1)),
        " AND ".join(f"({one}) {'<=>' if safe else '='} ({other})" for one, other, safe in keys) or None,
        matched.columns,
        matched.schema,
        (left.node.schema, node.schema),
        written(query.on),
        keys,
        direction,
        within,
    )
    return AnalysedPlan(join, matched.relation)


def _rows_of(part: AnalysedPlan) -> AnalysedPlan:
    """Results of a window for each row have the times of their rows, and are versions like others."""
    rolling = part.node.as_aggregate()
    if rolling is None and part.node.answers():
        raise QueryError("join_asof() of filtered results of windows for each row: filter behind the join")
    if rolling is None:
        return part
    names = [*rolling.kernel.keys, *(aggregate.name for aggregate in rolling.kernel.aggregates)]
    columns = tuple((name, f"`{name}`") for name in names)
    node = rolling.result_rows(columns)
    return AnalysedPlan(node, part.relation.select(columns, "join_asof"))


def _same(columns: Sequence[tuple[str, str]]) -> bool:
    return all(column_text(name) == bare(sql) for name, sql in columns)


def _check_time(at: str | None, left: PlanNode) -> None:
    times = left.time_columns()
    if at is not None and times.get(bare(at)) != (0, 0):
        names = " or ".join(name for name, span in times.items() if span == (0, 0))
        raise QueryError(
            f"FOR SYSTEM_TIME AS OF {at}: rows meet what counts at their own time"
            + (f"; write FOR SYSTEM_TIME AS OF {names}" if names else "; select the time column before the join")
        )


def _conjuncts(condition: str | None) -> list[exp.Expr]:
    try:
        return [] if condition is None else list(conjuncts(sqlglot.parse_one(condition, dialect=SparkSQL)))
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"join_asof(on=…): {str(error).splitlines()[0]}") from None


def _key(test: exp.Expr, left: Sequence[str], right: Sequence[str]) -> tuple[str, str, bool]:
    """The expressions of the left and the right side that an equality compares."""
    text = test.sql(SparkSQL)
    safe = isinstance(test, exp.NullSafeEQ)
    if not isinstance(test, (exp.EQ, exp.NullSafeEQ)):
        raise QueryError(f"join_asof(on=…): {text} is no equality; {_EQUAL}")
    sides = [{column.name.lower() for column in side.find_all(exp.Column)} for side in (test.left, test.right)]
    texts = test.left.sql(SparkSQL), test.right.sql(SparkSQL)
    names = [{name.lower() for name in schema} for schema in (left, right)]
    if all(sides) and sides[0] <= names[0] and sides[1] <= names[1]:
        return *texts, safe
    if all(sides) and sides[0] <= names[1] and sides[1] <= names[0]:
        return texts[1], texts[0], safe
    raise QueryError(f"join_asof(on=…): {text} does not compare one side with the other; {_EQUAL}")


def _limits(query: L.JoinAsof, said: Distance, domain: TimeDomain) -> tuple[Direction, int | None]:
    """Which row matches, and how far it may be: by the arguments, or by what the condition says of the times."""
    direction: Direction = query.direction  # type: ignore[assignment]
    within = None if query.within is None else domain.span(query.within, "within")
    if within is not None and within < 0:
        raise QueryError(f"join_asof(within={query.within!r}) must not be negative")
    if (said.before, said.after) != (None, None):
        if -1 in (said.before, said.after):
            raise QueryError("join_asof(): a row of the same time counts; write >= or <= between the times")
        if 0 not in (said.before, said.after):
            raise QueryError("join_asof(): say which row counts, as in a.t >= b.t, the last one at or before a.t")
        direction, found = ("backward", said.before) if said.after == 0 else ("forward", said.after)
        within = found if within is None else within
    if direction != "backward" and within is None:
        raise QueryError(f"join_asof(direction={direction!r}): say how long a row waits, as in within='10 minutes'")
    return direction, within
