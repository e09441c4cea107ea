"""The rows that a join keeps of its two inputs, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

import polars as pl

from slackwater.columns import TIME
from slackwater.operators.operator import State
from slackwater.operators.page import Origin, Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import MIN_TICK
from slackwater.testing.backend import page_of_rows
from slackwater.testing.expression import expression
from slackwater.testing.pairs import ID, in_schema, missing, of_side
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages


class SidesInProcessValues(TypedDict):
    """The journaled values, besides the rows."""

    next: int
    given: int


class SidesInProcess:
    """All rows of both sides in two frames."""

    def __init__(self, label: str, node: JoinNode, pages: ArrowPages) -> None:
        self._label = label
        self._pages = pages
        self._node = node
        self._rows: list[pl.DataFrame | None] = [None, None]
        self._next = self._given = 0

    def state(self, whole: bool) -> State:
        """All of it."""
        tables = {str(s): rows.to_arrow() for s, rows in enumerate(self._rows) if rows is not None}
        return State(SidesInProcessValues(next=self._next, given=self._given), tables)

    def restore(self, states: Sequence[State]) -> None:
        """The last one."""
        values = states[-1].read(SidesInProcessValues)
        self._next, self._given = values["next"], values["given"]
        self._rows = [None, None]
        for side, table in states[-1].tables.items():
            self._rows[int(side)] = frame_of(table)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Frames are values: those of before are put back."""
        rows, number = list(self._rows), self._next
        try:
            yield
        finally:
            self._rows, self._next = rows, number

    def counted(self) -> int:
        """Pages know their rows at once."""
        return 0

    def settle(self) -> None:
        """There is nothing outside."""

    @property
    def size(self) -> dict[str, int]:
        """Rows of both sides."""
        rows = [0 if rows is None else rows.height for rows in self._rows]
        return {"left_rows": rows[0], "right_rows": rows[1]}

    def _in_time(self, side: int, rows: pl.DataFrame, after: int, *hidden: str) -> pl.DataFrame:
        """The rows above a heartbeat, numbered, with hidden columns under names of their side."""
        kept = rows.filter(pl.col(TIME) > after) if after > MIN_TICK else rows
        places = pl.int_range(self._next, self._next + kept.height, dtype=pl.Int64).alias(of_side(side, ID))
        self._next += kept.height
        columns = [pl.col(c).alias(of_side(side, c)) for c in hidden]
        return kept.select(*self._node.kept[side].names, *columns, places)

    def _page(
        self, rows: pl.DataFrame | None, hidden: Sequence[pl.Expr], lacks: int | None, at: int
    ) -> Page | None:
        """Rows as a page; the columns of the side that it lacks are null."""
        if rows is None or not rows.height:
            return None
        self._given += 1
        if lacks is not None:
            rows = missing(rows, self._node.kept[lacks])
        made = [expression(sql).alias(name) for name, sql in self._node.columns]
        frame = in_schema(rows.select(*made, *hidden), self._node.schema)
        return page_of_rows(frame, Origin(self._label, self._given), at)
