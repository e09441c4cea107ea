"""The rows of a join with windows of rows, in this process: at each heartbeat every pair is tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import polars as pl

from slackwater.columns import TIME, UNTIL
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.testing.pairs import ID, later, meeting, of_side, own, with_added
from slackwater.testing.two_sides import SidesInProcess, SidesInProcessValues

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages


class OrderedValues(SidesInProcessValues):
    """The same, with how far time has come."""

    at: tuple[int, int]


class OrderedRowsHere(SidesInProcess):
    """Every row without its end, which is null as long as nobody knows it."""

    def __init__(self, label: str, node: JoinNode, pages: ArrowPages) -> None:
        super().__init__(label, node, pages)
        self._released = MIN_TICK
        self.undecided: int | None = None

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows above a heartbeat."""
        rows = self._pages.timed(page)
        added = self._in_time(side, rows, after, TIME)
        self._rows[side] = with_added(self._rows[side], added)
        return rows.height - added.height

    def release(self, before: int, upto: int, at: int) -> list[Page]:
        """The rows that come out; rows that are needed no more go."""
        pages = self._results(before, upto, at)
        self._released = upto
        sides = [self._until(side, upto) for side in (0, 1)]
        undecided = (sides[s].filter(~_decided(s, upto))[of_side(s, TIME)].min() for s in self._node.lone)
        self.undecided = min((t for t in undecided if isinstance(t, int)), default=None)
        for side in (0, 1):
            self._purge(side, sides[side], upto)
        return pages

    def rest(self, before: int, at: int) -> list[Page]:
        """As if time had passed them all."""
        return self._results(before, MAX_TICK, at)

    def _results(self, before: int, upto: int, at: int) -> list[Page]:
        """Try all pairs; those of before are out already."""
        sides = [self._until(side, upto) for side in (0, 1)]
        pairs = self._matched(sides[0], sides[1])
        latest = pl.max_horizontal(of_side(0, TIME), of_side(1, TIME))
        old, new = pairs.filter(latest <= before), pairs.filter(latest > before)
        how, pages = self._node.how, list[Page | None]()
        if how == "semi":
            fresh = _in(sides[0], new, 0, "semi")
            pages.append(self._page(_in(fresh, old, 0, "anti"), own(0), 1, at))
        elif how != "anti":
            pages.append(self._page(new, later(), None, at))
        for side in self._node.lone:
            done = _decided(side, upto)
            due = sides[side].filter(done & ~_decided(side, before))
            if how != "semi":
                pages.append(self._page(_in(due, pairs, side, "anti"), own(side), 1 - side, at))
        return [page for page in pages if page is not None]

    @property
    def waiting(self) -> int:
        """Those above the heartbeat."""
        sides = enumerate(self._rows)
        return sum(int((r[of_side(s, TIME)] > self._released).sum()) for s, r in sides if r is not None)

    def next_time(self, after: int) -> int | None:
        """The next one."""
        times = [t for s, r in enumerate(self._rows) if r is not None for t in r[of_side(s, TIME)] if t > after]
        return min(times, default=None)

    def state(self, whole: bool) -> State:
        """All of it."""
        rows = super().state(whole)
        return State({**rows.values, "at": (self._released, self.undecided)}, rows.tables)

    def restore(self, states: Sequence[State]) -> None:
        """The last one."""
        super().restore(states)
        self._released, self.undecided = states[-1].read(OrderedValues)["at"]

    def _until(self, side: int, upto: int) -> pl.DataFrame:
        """The rows that a heartbeat has passed, each with its end as far as it is known by then."""
        rows, alive, time = self._rows[side], self._node.sides[side], of_side(side, TIME)
        if rows is None:
            empty = pl.DataFrame(self._node.kept[side].empty_table())
            hidden = (pl.Series(of_side(side, c), [], pl.Int64) for c in (TIME, ID, UNTIL))
            return empty.with_columns(*hidden)
        passed = rows.filter(pl.col(time) <= upto).sort(time, of_side(side, ID))
        end = pl.col(time) + alive.range if alive.range is not None else pl.col(time).shift(-(alive.rows or 0))
        return passed.with_columns(end.alias(of_side(side, UNTIL)))

    def _matched(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        times, ends = ([of_side(side, c) for side in (0, 1)] for c in (TIME, UNTIL))
        last = pl.min_horizontal(pl.col(end).fill_null(MAX_TICK) for end in ends)
        return meeting(left.join(right, how="cross").filter(pl.max_horizontal(times) < last), self._node.condition)

    def _purge(self, side: int, passed: pl.DataFrame, upto: int) -> None:
        rows, until = self._rows[side], pl.col(of_side(side, UNTIL)).fill_null(MAX_TICK)
        if rows is None:
            return
        needed = until > upto
        if self.undecided is not None:
            needed |= until > self.undecided
        keep = pl.concat(
            [passed.filter(needed).drop(of_side(side, UNTIL)), rows.filter(pl.col(of_side(side, TIME)) > upto)]
        )
        self._rows[side] = keep


def _decided(side: int, upto: int) -> pl.Expr:
    """Whether a row is alive no longer at a heartbeat, as far as is known then."""
    return pl.col(of_side(side, UNTIL)).fill_null(MAX_TICK) <= upto


def _in(rows: pl.DataFrame, pairs: pl.DataFrame, side: int, how: Literal["semi", "anti"]) -> pl.DataFrame:
    return rows.join(pairs, on=of_side(side, ID), how=how, maintain_order="left")
