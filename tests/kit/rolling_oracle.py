"""Windows of a row recomputed from scratch: for each row that was not late, all rows are looked at again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

Row = dict[str, Any]
Means = Callable[[list[Row]], Any]


def _values(rows: list[Row], column: str) -> list[Any]:
    return [r[column] for r in rows if r[column] is not None]


def _total(values: list[Any]) -> Any:
    return math.fsum(values) if values and isinstance(values[0], float) else sum(values) if values else None


def _variance(values: list[float], less: int) -> float | None:
    if len(values) <= less:
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - less)


def _least(rows: list[Row], column: str) -> Any:
    values = [v for v in _values(rows, column) if v == v]
    return min(values) if values else (math.nan if _values(rows, column) else None)


def _most(rows: list[Row], column: str) -> Any:
    values = _values(rows, column)
    return math.nan if any(v != v for v in values) else max(values, default=None)


def _over(rows: list[Row]) -> list[Row]:
    return [r for r in rows if r["i"] is not None and r["i"] > 0]


def _at(rows: list[Row], column: str, place: str, extreme: Callable[..., Row]) -> Any:
    """The value of the row with the extreme place; of equal places the extreme value, null below all others."""
    there = [r for r in rows if r[place] is not None]
    return extreme(there, key=lambda r: (r[place], r[column] is not None, r[column]))[column] if there else None


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


#: Text of each aggregate, and what it is over the rows of a window, which lie in order.
AGGREGATES: dict[str, tuple[str, Means]] = {
    "n": ("count(*)", len),
    "nx": ("count(x)", lambda r: len(_values(r, "x"))),
    "total": ("sum(x)", lambda r: _total(_values(r, "x"))),
    "whole": ("sum(i)", lambda r: _total(_values(r, "i"))),
    "mean": ("avg(x)", lambda r: _total(_values(r, "x")) / len(_values(r, "x")) if _values(r, "x") else None),
    "low": ("min(x)", lambda r: _least(r, "x")),
    "high": ("max(x)", lambda r: _most(r, "x")),
    "low_s": ("min(s)", lambda r: _least(r, "s")),
    "high_s": ("max(s)", lambda r: _most(r, "s")),
    "high_i": ("max(i)", lambda r: _most(r, "i")),
    "var": ("variance(x)", lambda r: _variance(_values(r, "x"), 1)),
    "var_all": ("var_pop(x)", lambda r: _variance(_values(r, "x"), 0)),
    "sd": ("stddev(x)", lambda r: _root(_variance(_values(r, "x"), 1))),
    "begins": ("first(x)", lambda r: _end(r, "x", first=True)),
    "ends": ("last(x)", lambda r: _end(r, "x", first=False)),
    "begins_s": ("first(s)", lambda r: _end(r, "s", first=True)),
    "total_over": ("sum(x) FILTER (WHERE i > 0)", lambda r: _total(_values(_over(r), "x"))),
    "n_over": ("count(*) FILTER (WHERE i > 0)", lambda r: len(_over(r))),
    "every": ("bool_and(i > 0)", lambda r: all(i > 0 for i in _values(r, "i")) if _values(r, "i") else None),
    "bits": ("bit_or(i)", lambda r: reduce(or_, _values(r, "i")) if _values(r, "i") else None),
    "least_at": ("min_by(x, i)", lambda r: _at(r, "x", "i", min)),
    "most_at": ("max_by(s, x)", lambda r: _at(r, "s", "x", max)),
    "ends_s": ("last(s)", lambda r: _end(r, "s", first=False)),
}


def _end(rows: list[Row], column: str, first: bool) -> Any:
    """Rows in order; where a range window asks, `__by_value` orders simultaneous ones by x, then s."""
    if rows[0].get("__by_value"):
        rows = sorted(rows, key=lambda r: (r["t"], *((r[c] is not None, r[c]) for c in ("x", "s"))))
    return rows[0 if first else -1][column]


@dataclass
class Recomputed:
    """What should have come out."""

    results: list[Row]
    late: list[Row]


def recompute(
    pages: Sequence[list[Row]],
    beats: Sequence[int | None],
    keys: Sequence[str],
    aggregates: dict[str, tuple[str, Means]],
    range: int | None = None,
    rows: int | None = None,
    waits: bool = True,
    slide: int = 1,
) -> Recomputed:
    """Results in order, and late rows; `beats[n]` is the heartbeat by which page n is judged.

    Without `waits`, a window of rows that ends just after the heartbeat is answered when its row is there.
    """
    arrived: list[tuple[int, Row]] = []  # when a row could be seen: the heartbeat of its page, if it was late
    late: list[Row] = []
    came: dict[int, int] = {}
    for number, (page, beat) in enumerate(zip(pages, beats, strict=True)):
        for row in page:
            if row["t"] is None:
                continue
            came[id(row)] = number
            if beat is not None and row["t"] <= beat:
                late.append(row)
                arrived.append((beat, row))
            else:
                arrived.append((row["t"] - 1, row))
    lost = {id(row) for row in late}
    on_time = [row for _, row in arrived if id(row) not in lost]
    on_time.sort(key=lambda r: r["t"])
    results = []
    for place, row in enumerate(on_time):
        if range is not None:
            # A late row counts for the windows that were open when it came: those that end above its heartbeat.
            window = [
                {**r, "__by_value": True}
                for seen, r in arrived
                if row["t"] - range < r["t"] <= row["t"] and seen < row["t"] and _alike(r, row, keys)
            ]
            window.sort(key=lambda r: r["t"])
            start = row["t"] - range
        else:
            assert rows is not None
            # So it does here, in its place among the rows before: of equal times the one that came last is later.
            before = {id(r) for r in on_time[: place + 1]}
            before |= {
                id(r)
                for seen, r in arrived
                if id(r) in lost and (seen < row["t"] - (not waits) or came[id(r)] <= came[id(row)])
            }
            window = [r for _, r in arrived if id(r) in before and _alike(r, row, keys)]
            if len(window) % slide:
                continue
            window = sorted(window, key=lambda r: r["t"])[-rows:]
            start = window[0]["t"]
        made = {name: means(window) for name, (_, means) in aggregates.items()}
        results.append({**{k: row[k] for k in keys}, **made, "window_start": start, "window_end": row["t"]})
    return Recomputed(results, late)


def _alike(one: Row, other: Row, keys: Sequence[str]) -> bool:
    return all(one[k] == other[k] for k in keys)
