"""The close of windows that keep rows: from the distinct rows of each group to one row a group.

What Spark must compute is computed by the back end; distinct values are counted and added here, by partials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from slackwater.aggregates.kept import DistinctOf, Kept
from slackwater.columns import GROUP, ROWS, WINDOW
from slackwater.windows.kernel import PaneKernel

#: Computes aggregates over kept rows (ROWS says how often each came) by GROUP.
Compute = Callable[[pl.DataFrame, PaneKernel, Sequence[Kept]], pl.DataFrame]


def close(kernel: PaneKernel, merged: pl.DataFrame, compute: Compute) -> pl.DataFrame:
    """Partials by window and group, with the values of the aggregates that are computed at the close."""
    if not kernel.closed:
        return merged
    by = [WINDOW, *kernel.keys]
    # In the order of their first rows, as everything below.
    groups = kernel.merge(merged.group_by(by, maintain_order=True))
    rest = [a for a in kernel.closed if not isinstance(a, DistinctOf)]
    made = [
        a.values(by, _distinct(kernel, merged, a, by), kernel.kept_of(a)).alias(name)
        for a, name in kernel.closed.items()
        if isinstance(a, DistinctOf)
    ]
    if rest:
        # A group has the number of its first row.
        rows = merged.with_row_index(GROUP).with_columns(pl.col(GROUP).cast(pl.Int64).first().over(by))
        rows = rows.select(GROUP, ROWS, *kernel.kept.values())
        made += compute(rows, kernel, rest).sort(GROUP).drop(GROUP).get_columns()
    return groups.hstack(made)


def _distinct(kernel: PaneKernel, merged: pl.DataFrame, a: DistinctOf, by: list[str]) -> pl.DataFrame:
    """The distinct rows of its columns."""
    columns = kernel.kept_of(a)
    rows = merged.select(*by, *columns)
    return rows if {*columns} == {*kernel.kept.values()} else rows.unique(maintain_order=True)
