"""Answers for windows in which a known group had no row: `fill=0`, `None` or `"last"`.

A group is known from its first final result on. It is forgotten when as many windows as `forget` says have ended
since its last one. The windows between its results are filled when its heartbeat has closed them, and not before:
then no row can come any more. After the end of a stream nothing is filled beyond the last result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa

from slackwater.columns import CLOSED, WINDOW
from slackwater.errors import QueryError, shown
from slackwater.progress.time import Span, TimeDomain
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import PaneKernel

#: The values of a window without rows: NULL, zero where a column is a number, or those of the last answer.
Filling = Literal["null", "zero", "last"]
#: The words of a user.
_WORDS: dict[object, Filling] = {None: "null", 0: "zero", "last": "last"}
_FIRST, _LAST = "__from", "__to"


@dataclass(frozen=True)
class Fill:
    """With what to fill, and for how many windows after its last row a group is known; None: for good."""

    filling: Filling
    windows: int | None = None

    @staticmethod
    def read(written: object, forget: Span | None, domain: TimeDomain, slide: int) -> Fill:
        """Read and check what a user wrote.

        >>> Fill.read(0, "1 hour", TimeDomain.TIMESTAMP, 600_000_000)
        Fill(filling='zero', windows=6)
        """
        plain = written is None or isinstance(written, (int, str))
        if isinstance(written, bool) or not plain or written not in _WORDS:
            raise QueryError(f"fill={shown(written)}: write fill=0, fill=None or fill='last'")
        windows = None if forget is None else domain.span(forget, "forget") // slide
        if windows is not None and windows < 1:
            raise QueryError(f"forget={forget!r}: groups are known for one slide at least; write a longer time")
        return Fill(_WORDS[written], windows)

    def describe(self, show: Callable[[int], str]) -> str:
        """In words; `show` says how long some windows take.

        >>> Fill("zero", 6).describe(lambda windows: f"{windows} hours")
        'fill 0 forget 6 hours'
        """
        word = {"null": "NULL", "zero": "0", "last": "LAST"}[self.filling]
        return f"fill {word}" + ("" if self.windows is None else f" forget {show(self.windows)}")


class KnownGroups:
    """The groups of a query with the last result of each, in the driver."""

    def __init__(self, kernel: PaneKernel, fill: Fill, schema: pa.Schema) -> None:
        """`schema` is that of results."""
        self._kernel, self._fill = kernel, fill
        self._types = pl.DataFrame(schema.empty_table()).schema
        self._names = [WINDOW, *kernel.keys, *((a.name for a in kernel.aggregates) if self._keeps_values else ())]
        self.frame: pl.DataFrame | None = None
        self._news: list[pl.DataFrame] = []

    @property
    def _keeps_values(self) -> bool:
        return self._fill.filling == "last"

    def missing(
        self, values: pl.DataFrame | None, before: Closed, after: Closed, ended: bool
    ) -> pl.DataFrame | None:
        """The values of windows without rows that `after` has closed and `before` had not; None if there are none.

        `values` are those of the windows with rows. Their groups are known from now on.
        """
        parts = [] if self.frame is None else [self.frame]
        if values is not None and values.height:
            parts.append(values.select(self._names))
        if not parts:
            return None
        results = pl.concat(parts, how="vertical_relaxed").sort(WINDOW)
        found = self._between(results, before, after, ended)
        if values is not None and values.height:
            self._learn(values.select(self._names))
        self._forget(after)
        return self._filled(found) if found.height else None

    def _between(self, results: pl.DataFrame, before: Closed, after: Closed, ended: bool) -> pl.DataFrame:
        source = self._kernel.source_of
        next_result = pl.col(WINDOW).shift(-1)
        next_result = next_result.over(self._kernel.keys) if self._kernel.keys else next_result
        until = pl.min_horizontal(next_result - 1, pl.col(_LAST))
        if self._fill.windows is not None:
            until = pl.min_horizontal(until, pl.col(WINDOW) + self._fill.windows)
        if ended:
            until = pl.min_horizontal(until, pl.col(WINDOW).max())
        beside = after.beside(before.beside(results, source, _FIRST), source, _LAST)
        first = pl.max_horizontal(pl.col(WINDOW), pl.col(_FIRST)) + 1
        closed = beside.filter(pl.col(_LAST).is_not_null())
        gaps = closed.with_columns(first.alias(_FIRST), until.alias(_LAST)).filter(pl.col(_FIRST) <= pl.col(_LAST))
        windows = pl.int_ranges(_FIRST, pl.col(_LAST) + 1, dtype=pl.Int64).alias(WINDOW)
        return gaps.with_columns(windows).drop(_FIRST, _LAST).explode(WINDOW).sort(WINDOW, maintain_order=True)

    def _filled(self, gaps: pl.DataFrame) -> pl.DataFrame:
        if self._keeps_values:
            return gaps
        zero = self._fill.filling == "zero"
        kinds = {a.name: self._types[a.name] for a in self._kernel.aggregates}
        return gaps.with_columns(
            pl.lit(0 if zero and kind.is_numeric() else None).cast(kind).alias(name) for name, kind in kinds.items()
        )

    def _learn(self, results: pl.DataFrame) -> None:
        self._news.append(results)
        known = results if self.frame is None else pl.concat([self.frame, results], how="vertical_relaxed")
        last = known.sort(WINDOW, maintain_order=True)
        keys = self._kernel.keys
        self.frame = last.unique(keys, keep="last", maintain_order=True) if keys else last.tail(1)

    def _forget(self, closed: Closed) -> None:
        if self._fill.windows is None or self.frame is None:
            return
        left = pl.col(CLOSED).is_null() | (pl.col(WINDOW) + self._fill.windows > pl.col(CLOSED))
        self.frame = closed.beside(self.frame, self._kernel.source_of).filter(left).drop(CLOSED)

    def take_news(self, whole: bool) -> pl.DataFrame | None:
        """The results that came since this was last asked, or the last one of each group."""
        news, self._news = self._news, []
        if whole:
            return self.frame
        return pl.concat(news, how="vertical_relaxed") if news else None

    def restore(self, tables: list[pl.DataFrame], closed: Closed) -> None:
        """Continue from what `take_news` gave. An aggregate that is new has no last value yet."""
        for table in tables:
            nulls = [pl.lit(None).alias(name) for name in self._names if name not in table.columns]
            self._learn(table.with_columns(nulls).select(self._names))
        self._news = []
        self._forget(closed)
