"""Which columns of a row tell its time, and how exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.plan.identifiers import bare, column_text

#: Columns by name, in the form of `column_text`: each lies between these two ticks behind the time of its row.
TimeColumns = Mapping[str, tuple[int, int]]


def through(columns: Iterable[tuple[str, str]], below: TimeColumns) -> TimeColumns:
    """Those of a projection.

    >>> through((("at", "`t`"), ("x", "t + 1")), {"t": (0, 0)})
    {'at': (0, 0)}
    """
    return {column_text(name): below[bare(sql)] for name, sql in columns if bare(sql) in below}


def earlier(columns: TimeColumns, by: int) -> TimeColumns:
    """These columns for rows whose time is later by at most `by` ticks."""
    return {name: (low - by, high) for name, (low, high) in columns.items()}


def common(sides: Iterable[TimeColumns]) -> TimeColumns:
    """Those of rows that may be of any side."""
    first, *others = sides
    names = [name for name in first if all(name in other for other in others)]
    spans = {name: list(zip(*(side[name] for side in (first, *others)), strict=True)) for name in names}
    return {name: (min(lows), max(highs)) for name, (lows, highs) in spans.items()}
