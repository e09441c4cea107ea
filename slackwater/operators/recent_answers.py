"""The latest answers of a query, early and final side by side: of a few groups and windows, to look at."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.figures import Figure, Figures
from slackwater.progress.time import TimeDomain
from slackwater.windows.results import (
    COMPLETENESS,
    CORRECTION_COLUMNS,
    EMITTED_AT,
    KIND,
    RESULT_COLUMNS,
    WINDOW_END,
    WITHDRAWN,
    high,
    low,
    seen,
)

_log = logging.getLogger(__name__)
#: The name under which a sink shows them among its figures.
RECENT = "recent"
#: What it shows of a query without windows.
NO_ANSWERS: Figures = {"groups": [], "values": [], "windows": []}
#: How many groups are followed: the first that have an answer.
GROUPS = 8
#: How many windows of each group are kept: the latest.
WINDOWS = 48
#: How many answers, and how many tables of answers, may wait until we go through them.
WAITING_ROWS, WAITING_TABLES = 2_000, 64


class RecentAnswers:
    """Follows the first groups. What it shows of a window is the last early answer, and the final one."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._groups: list[str] = []
        self._values: list[str] = []
        self._kept: dict[int, dict[str, dict[str, Figure]]] = {}
        """Answers by the end of the window, then by the group."""
        self._timestamps = False
        """Whether windows end at timestamps."""
        self._shown: Figures | None = None
        self._waiting: list[pa.Table] = []
        """Answers that nobody has asked for yet."""

    def take(self, rows: pa.Table) -> None:
        """Some answers have come; rows without a window, as a projection may leave them, are passed over.

        They wait for the next snapshot, a few at the most, and are gone through together.
        """
        if not {WINDOW_END, KIND} <= set(rows.schema.names) or not rows.num_rows:
            return
        self._values = self._values or _numbers(rows.schema, self._keys)
        self._waiting.append(rows)
        self._shown = None
        if sum(table.num_rows for table in self._waiting) > WAITING_ROWS or len(self._waiting) > WAITING_TABLES:
            self._go_through()

    def _go_through(self) -> None:
        """Keep what is to be shown of the answers that wait; a failure of this ends nothing."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            # Early answers have more columns than final ones.
            self._keep_all(pa.concat_tables(waiting, promote_options="permissive"))
        except Exception:
            _log.warning("some of the latest answers cannot be shown on the live page", exc_info=True)

    def _keep_all(self, rows: pa.Table) -> None:
        names = rows.schema.names
        wanted = [n for v in self._values for n in (v, low(v), high(v), seen(v)) if n in names]
        about = [n for n in (WINDOW_END, KIND, EMITTED_AT, COMPLETENESS) if n in names]
        keys = [k for k in self._keys if k in names]
        frame = pl.DataFrame(rows.select([*keys, *about, *wanted]))
        text = pl.concat_str([_words(frame[k]).fill_null("null") for k in keys], separator=", ")
        frame = frame.with_columns((text if keys else pl.lit("all")).alias("__group"))
        self._follow(frame["__group"])
        here = frame.filter(pl.col("__group").is_in(self._groups))
        if here.height > WINDOWS:
            here = here.filter(pl.col(WINDOW_END).rank("dense", descending=True) <= WINDOWS)
        self._timestamps = frame.schema[WINDOW_END] == pl.Datetime
        # As whole numbers: Python's datetime ends with the year 9999, windows do not.
        ticks = {n: pl.col(n).dt.epoch("us") for n in about if frame.schema[n] == pl.Datetime}
        shown = [ticks.get(n, pl.col(n)) for n in frame.columns if n not in keys]
        for row in here.select(shown).iter_rows(named=True):
            self._keep(row)
        for end in sorted(self._kept)[:-WINDOWS]:
            del self._kept[end]

    def _follow(self, groups: pl.Series) -> None:
        if len(self._groups) < GROUPS:
            new = [
                g for g in groups.unique(maintain_order=True).head(GROUPS * 2).to_list() if g not in self._groups
            ]
            self._groups += new[: GROUPS - len(self._groups)]

    def _keep(self, row: dict[str, Any]) -> None:
        kept = self._kept.setdefault(row[WINDOW_END], {}).setdefault(row["__group"], {})
        said: dict[str, Figure] = {"at": _text(row.get(EMITTED_AT), True)}
        if row[KIND] == WITHDRAWN:
            kept.pop("final", None)
            return
        if row[KIND] != "early":
            kept["final"] = {**said, "values": {v: _number(row.get(v)) for v in self._values}}
            return
        names = {"estimate": lambda v: v, "low": low, "high": high, "seen": seen}
        values = {v: {what: _number(row.get(name(v))) for what, name in names.items()} for v in self._values}
        kept["early"] = {**said, "completeness": _number(row.get(COMPLETENESS)), "values": values}

    def figures(self) -> Figures:
        """The answers, the oldest window first. The same object until others have come."""
        self._go_through()
        if self._shown is None:
            windows = [
                {"window_end": _text(end, self._timestamps), "group": group, **kept}
                for end, groups in sorted(self._kept.items())
                for group, kept in groups.items()
            ]
            self._shown = {"groups": list(self._groups), "values": list(self._values), "windows": windows}
        return self._shown


def _numbers(schema: pa.Schema, keys: Sequence[str]) -> list[str]:
    """The columns that are aggregates and numbers."""
    names = set(schema.names)
    beside = {made(n) for n in names for made in (low, high, seen)} | {*keys, *RESULT_COLUMNS, *CORRECTION_COLUMNS}
    return [
        f.name
        for f in schema
        if f.name not in beside
        and (pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or pa.types.is_decimal(f.type))
    ]


def _words(column: pl.Series) -> pl.Series:
    """Its values as text; polars has none for lists and for bytes that are not text."""
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        return pl.Series(column.name, [None if v is None else str(v) for v in column.to_list()], pl.String)
    return column.cast(pl.String)


def _number(value: Any) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _text(value: Any, timestamp: bool) -> str | None:
    return None if value is None else TimeDomain.TIMESTAMP.show(value) if timestamp else str(value)
