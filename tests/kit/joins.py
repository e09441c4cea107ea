"""Joins by their definition: every pair of rows is looked at, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from slackwater.plan import logical as L

Row = dict[str, Any]
#: A row with its time and until when it is alive, not at that instant any more.
Lived = tuple[int, int, Row]


def alive(rows: pl.DataFrame, range: int) -> list[Lived]:
    """Rows that find partners for a range."""
    return [(row["t"], row["t"] + range, row) for row in rows.to_dicts() if row["t"] is not None]


def last_rows(rows: pl.DataFrame, most: int) -> list[Lived]:
    """Rows that find partners until so many have come behind them; of equal times the later one came later."""
    timed = sorted((row for row in rows.to_dicts() if row["t"] is not None), key=lambda row: row["t"])
    ends = [row["t"] for row in timed[most:]] + [10**9] * most
    return [(row["t"], end, row) for row, end in zip(timed, ends, strict=False)]


def join(left: list[Lived], right: list[Lived], meets: Callable[[Row, Row], bool | None], how: str) -> list[Lived]:
    """The rows that a join gives, with their times; a row that stays alone has its own columns only."""
    made, met = list[Lived](), (set[int](), set[int]())
    for n, (t, until, a) in enumerate(left):
        for m, (u, others, b) in enumerate(right):
            if max(t, u) < min(until, others) and meets(a, b):
                met[0].add(n)
                met[1].add(m)
                if how not in ("semi", "anti"):
                    made.append((max(t, u), min(until, others), {**a, **b}))
    if how in ("left", "full", "anti"):
        made += [row for n, row in enumerate(left) if n not in met[0]]
    if how in ("right", "full"):
        made += [row for m, row in enumerate(right) if m not in met[1]]
    if how == "semi":
        made += [row for n, row in enumerate(left) if n in met[0]]
    return made


def join_within(
    left: list[Lived],
    right: list[Lived],
    meets: Callable[[Row, Row], bool | None],
    how: str,
    within: tuple[int, int],
) -> list[Row]:
    """The rows of a join whose rows are at most this far before and after one another, both ends included."""
    before, after = within
    near = [(t, 0, a) for t, _, a in left], [(u, 0, b) for u, _, b in right]
    pairs = [
        (n, m)
        for n, (t, _, a) in enumerate(near[0])
        for m, (u, _, b) in enumerate(near[1])
        if -before <= u - t <= after and meets(a, b)
    ]
    met = [{pair[side] for pair in pairs} for side in (0, 1)]
    lone = [[row for n, (_, _, row) in enumerate(rows) if n not in met[side]] for side, rows in enumerate(near)]
    if how in ("semi", "anti"):
        return lone[0] if how == "anti" else [row for n, (_, _, row) in enumerate(near[0]) if n in met[0]]
    made = [{**near[0][n][2], **near[1][m][2]} for n, m in pairs]
    made += lone[0] if how in ("left", "full") else []
    return made + (lone[1] if how in ("right", "full") else [])


def rows_of(lived: list[Lived], *columns: str) -> list[Row]:
    """Without their times; what a row does not have is null."""
    return [{name: row.get(name) for name in columns} for _, _, row in lived]


def renamed(rows: L.Logical, suffix: str, *columns: str) -> L.Select:
    """The columns of one side, with names apart from the other's."""
    return L.Select((rows,), tuple((f"{c}{suffix}", c) for c in columns))


def join_of(left: L.Logical, right: L.Logical, ranges: tuple[Any, Any], on: Any, how: str = "inner") -> L.Join:
    """The same as a query."""
    windows = tuple(r if r is None or isinstance(r, L.Window) else L.Window(r) for r in ranges)
    return L.Join((left, right), (windows[0], windows[1]), on, how)
