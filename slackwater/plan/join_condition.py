"""What the condition of a join says of the times of both rows: how far apart they may be.

`r.t BETWEEN l.t - INTERVAL 1 MINUTE AND l.t + INTERVAL 1 HOUR` lets the right row be up to a minute before the left
one and up to an hour after it. So a row can go when time has passed it by that much. The condition stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import sqlglot
from sqlglot import exp

from slackwater.errors import QueryError
from slackwater.plan.identifiers import column_text
from slackwater.plan.spark_sql import SparkSQL
from slackwater.plan.time_columns import TimeColumns
from slackwater.progress.time import TimeDomain, microseconds

_ORDER: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.LT: (False, True),
    exp.LTE: (False, False),
    exp.GT: (True, True),
    exp.GTE: (True, False),
}
"""Of each comparison: whether its sides are swapped, and whether it excludes the end."""


@dataclass(frozen=True)
class Distance:
    """How far the right row may be before and after the left one, in ticks, ends included; None: any distance.

    A pair of another join tells only roughly what its time is by the time of its earlier row. Then there are a
    largest distance, and a smaller one that is allowed for certain.
    """

    before: int | None = None
    after: int | None = None
    certain: tuple[int | None, int | None] = (None, None)
    """The smaller distance after, and before."""
    unread: tuple[str, ...] = ()
    """Conditions that compare the times of both sides with a length, in a way that is not understood."""


#: Whether the right row is after the left one, how far it may be at most, and how far it may be for certain.
_Limit = tuple[bool, int, int]


@dataclass(frozen=True)
class _Sum:
    """`left` times the left row's time, `right` times the right row's, and something from `low` to `high`."""

    left: int
    right: int
    low: Fraction
    high: Fraction

    def __neg__(self) -> _Sum:
        return _Sum(-self.left, -self.right, -self.high, -self.low)

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(self.left + other.left, self.right + other.right, self.low + other.low, self.high + other.high)


def distance(condition: str | None, left: TimeColumns, right: TimeColumns, domain: TimeDomain) -> Distance:
    """What a condition says of the distance of two rows; no condition says nothing.

    >>> at = {"t": (0, 0)}, {"u": (0, 0)}
    >>> distance("k = j AND u BETWEEN t - 5 AND t + 10 AND x > 3", *at, TimeDomain.SEQUENCE)
    Distance(before=5, after=10, certain=(10, 5), unread=())
    >>> distance("t < u AND u < t + INTERVAL 2 MILLISECONDS", *at, TimeDomain.TIMESTAMP)
    Distance(before=-1, after=1999, certain=(1999, -1), unread=())
    >>> distance("k = j OR u - t < 5", *at, TimeDomain.SEQUENCE)
    Distance(before=None, after=None, certain=(None, None), unread=('k = j OR u - t < 5',))
    """
    if condition is None or not left or not right:
        return Distance()
    try:
        tree = sqlglot.parse_one(condition, dialect=SparkSQL)
    except sqlglot.errors.SqlglotError:
        return Distance()  # the back end reports it
    reader, unread = _Reader(left, right, domain), list[str]()
    found = list[_Limit]()
    for conjunct in conjuncts(tree):
        if not reader.compares_times(conjunct):
            continue
        limits = reader.limits(conjunct)
        if limits is None and conjunct.find(exp.Literal, exp.Interval) is not None:
            unread.append(conjunct.sql(SparkSQL))
        found += limits or ()

    def least(after: bool, certain: bool) -> int | None:
        return min((limit[1 + certain] for limit in found if limit[0] == after), default=None)

    return Distance(least(False, False), least(True, False), (least(True, True), least(False, True)), tuple(unread))


def compares_times(test: exp.Expr, left: TimeColumns, right: TimeColumns, domain: TimeDomain) -> bool:
    """Whether a condition names a time of each side."""
    return _Reader(left, right, domain).compares_times(test)


def conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions between the ANDs."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    else:
        yield tree


class _Reader:
    """Reads comparisons of the times of two rows."""

    def __init__(self, left: TimeColumns, right: TimeColumns, domain: TimeDomain) -> None:
        self._domain = domain
        self._times: Mapping[str, _Sum] = {
            **{name: _Sum(1, 0, Fraction(low), Fraction(high)) for name, (low, high) in left.items()},
            **{name: _Sum(0, 1, Fraction(low), Fraction(high)) for name, (low, high) in right.items()},
        }

    def compares_times(self, conjunct: exp.Expr) -> bool:
        """Whether it names a time of each side."""
        found = [self._time(column) for column in conjunct.find_all(exp.Column)]
        return {1, 0} <= {time.left for time in found if time is not None}

    def _time(self, column: exp.Column) -> _Sum | None:
        return None if column.table else self._times.get(column_text(column.name))

    def limits(self, conjunct: exp.Expr) -> list[_Limit] | None:
        """How far from the left row it lets the right one be; None if that is not understood."""
        found = [self._limit(*comparison) for comparison in _comparisons(conjunct)]
        return [limit for limit in found if limit is not None] if found and None not in found else None

    def _limit(self, small: exp.Expr, large: exp.Expr, excluded: bool) -> _Limit | None:
        lower, upper = self._sum(small), self._sum(large)
        if lower is None or upper is None:
            return None
        both = lower + -upper
        if (both.left, both.right) not in ((1, -1), (-1, 1)):
            return None
        # The difference of both rows and something from `low` to `high` is at most zero.
        farthest, certain = (ceil(-end) - 1 if excluded else floor(-end) for end in (both.low, both.high))
        return both.right == 1, farthest, certain

    def _sum(self, tree: exp.Expr) -> _Sum | None:
        tree = tree.unnest()
        if isinstance(tree, exp.Column):
            return self._time(tree)
        if isinstance(tree, exp.Neg):
            inner = self._sum(tree.this)
            return None if inner is None else -inner
        if isinstance(tree, (exp.Add, exp.Sub)):
            one, other = self._sum(tree.left), self._sum(tree.right)
            if one is None or other is None:
                return None
            return one + other if isinstance(tree, exp.Add) else one + -other
        ticks = length_of(tree, self._domain)
        return None if ticks is None else _Sum(0, 0, ticks, ticks)


def length_of(tree: exp.Expr, domain: TimeDomain) -> Fraction | None:
    """The ticks of a literal length, such as an interval; None for another expression."""
    stamps = domain is TimeDomain.TIMESTAMP
    if isinstance(tree, exp.Literal) and not tree.is_string and not stamps:
        return Fraction(tree.name) * Fraction(10) ** (domain.scale or 0)
    if isinstance(tree, exp.Interval) and stamps and isinstance(tree.this, exp.Expr):
        try:
            return Fraction(microseconds(f"{tree.this.name} {tree.text('unit')}"))
        except QueryError:
            return None
    return None


def _comparisons(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr, bool]]:
    """The smaller side, the larger one, and whether equality is excluded, of each comparison that it stands for."""
    if isinstance(tree, exp.Between):
        return [(tree.args["low"], tree.this, False), (tree.this, tree.args["high"], False)]
    if isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return [(tree.left, tree.right, False), (tree.right, tree.left, False)]
    if not isinstance(tree, exp.Binary) or type(tree) not in _ORDER:
        return []
    swapped, excluded = _ORDER[type(tree)]
    small, large = (tree.right, tree.left) if swapped else (tree.left, tree.right)
    if isinstance(small.unnest(), exp.Abs):
        inner = small.unnest().this
        return [(inner, large, excluded), (exp.Neg(this=exp.Paren(this=inner)), large, excluded)]
    return [(small, large, excluded)]
