"""The job that folds a page for one kernel: its columns, the same for every page (D2), and what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import polars as pl
from pyspark.sql import Column
from pyspark.sql import functions as F

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.operators.backend import Folded
from slackwater.spark.backend.arrival_statistics import ALL, COLUMNS, time_statistics
from slackwater.spark.backend.compile import KEEP
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.panes import in_several, rows_by_pane
from slackwater.windows.sliding import united

#: What panes are multiplied by, to be spread over Spark's fast hash map: see `kernel_columns`.
SPREAD = 3 * 2**16 + 1


def spread_of(width: int) -> int:
    """The factor for the numbers of panes of this length: the product must fit into 64 bits.

    >>> spread_of(10_000_000), spread_of(10)
    (196609, 1)
    """
    return SPREAD if width > SPREAD else 1


@lru_cache(maxsize=256)
def kernel_columns(
    kernel: PaneKernel, by_source: bool, marked: bool, asked: tuple[bool, bool] | None, spread: int = 1
) -> tuple[list[Column], list[Column]]:
    """Keys and aggregates of the job that folds a page; panes are multiplied by `spread`.

    The pane is the last key. Spark's fast hash map takes a pair of numbers to a place of about 65 * first + second,
    and looks at two places only. With panes in front most pairs would find theirs taken and go on to the slow map.
    So would many with panes that follow each other: 1,000 keys and 100 panes have but 65,000 places.
    """
    groups = {g.name: f"CASE WHEN {KEEP} THEN {g.sql} END" if marked else g.sql for g in kernel.groups}
    keys = [F.expr(sql).alias(name) for name, sql in groups.items()]
    if by_source:
        keys.append(F.col(SOURCE))
    pane = kernel.pane_sql()
    keys.append(F.expr(pane if spread == 1 else f"({pane}) * {spread}L").alias(PANE))
    made = [F.expr(sql).alias(name) for name, sql in kernel.make_sql(KEEP if marked else None).items()]
    if asked is not None:
        made += [*time_statistics(*asked), *([F.count(F.lit(1)).alias(ALL)] if marked else [])]
    return keys, made


def folded(
    partials: pl.DataFrame, kernel: PaneKernel, by_source: bool, marked: bool, parts: Sequence[pl.Series]
) -> Folded:
    """Partials without what was there for the statistics only; `parts` are the panes of each job over some rows."""
    partials = partials.drop([c for c in COLUMNS if c in partials.columns])
    partials = partials.filter(pl.col(PANE).is_not_null()) if partials[PANE].null_count() else partials
    if marked:
        partials = partials.filter(pl.col(ROWS) > 0)
    partials = partials.select(PANE, pl.exclude(PANE))
    sources = [SOURCE] if SOURCE in partials.columns else []
    counts = partials.group_by([PANE, SOURCE]).agg(pl.col(ROWS).sum()) if sources else rows_by_pane(partials)
    partials = partials.drop(sources)
    if by_source and partials.height:
        columns = partials.columns
        partials = kernel.merge(partials.group_by([PANE, *kernel.keys])).select(columns)
    elif len(parts) > 1:
        partials = united(kernel, partials, in_several(parts))
    return Folded(partials, counts)
