"""Windows that overlap, from panes that lie side by side: merges of 1, 2, 4 … panes make every window.

A pane is merged about 2 log2(RANGE/SLIDE) times however many windows it counts for, and all groups at once.
Nothing is subtracted, so any merge of two will do and floats are as good as in a merge from scratch.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slackwater.aggregates.partial import PairedPartial
from slackwater.aggregates.sum import CheckedSum, Sum
from slackwater.columns import PANE, ROWS, WINDOW
from slackwater.progress.source_numbers import Ints
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.runs import gather

_CODE = "__code"
_OTHER = "__other"

#: With fewer panes a window than this, merging each window by itself costs no more.
_FEW_PANES = 4
#: Panes and groups are laid side by side unless more than this share of the places would stay empty.
_PLACES_A_ROW = 4


def slide(kernel: PaneKernel, panes: pl.DataFrame, first: int, last: int) -> pl.DataFrame | None:
    """Windows from the first to the last over these panes, in the order of windows and groups.

    None where it cannot be done like this or is not worth it: sketches, slides that are no whole part of a window,
    groups that are in few panes only.
    """
    spec = kernel.spec
    many = panes.height and spec.panes_per_slide == 1 and spec.panes_per_window >= _FEW_PANES
    if not many or not _can(kernel, panes.schema):
        return None
    low, high = spec.panes(first)[0], spec.panes(last)[1]
    groups, codes = _groups(kernel, panes, _PLACES_A_ROW * panes.height // (high - low))
    if groups is None:
        return None
    places = (panes[PANE].to_numpy() - low) * groups.height + codes
    numbers = np.full((high - low) * groups.height, -1, np.int64)
    numbers[places] = np.arange(panes.height)
    twice = numbers[places] != np.arange(panes.height)
    if twice.any():
        return slide(kernel, united(kernel, panes, pl.Series(panes[PANE].to_numpy()[twice])), first, last)
    names = [ROWS, *(n for names in kernel.columns.values() for n in names)]
    # In one piece: rows of a page lie in no order.
    merged = _doubled(kernel, gather(panes.select(names).rechunk(), numbers), groups.height)
    there = merged[ROWS].is_not_null().to_numpy()
    windows, group = np.divmod(np.flatnonzero(there), groups.height)
    if len(windows) < merged.height:
        merged = merged.filter(pl.Series(there))
    return pl.DataFrame([pl.Series(WINDOW, windows + first)]).hstack(
        [*groups[group].get_columns(), *merged.cast({n: panes.schema[n] for n in names}).get_columns()]
    )


def united(kernel: PaneKernel, panes: pl.DataFrame, which: pl.Series) -> pl.DataFrame:
    """The same partials with one only for each group in these panes."""
    if which.is_empty():
        return panes
    more = panes[PANE].is_in(which.unique().implode())
    merged = kernel.merge(panes.filter(more).group_by([PANE, *kernel.keys]))
    return pl.concat([panes.filter(~more), merged.select(panes.columns)])


def _can(kernel: PaneKernel, schema: pl.Schema) -> bool:
    nested = any(kind.is_nested() for kind in schema.values())
    # A merge of two decimals may leave its type on the way to a sum that fits.
    paired = (isinstance(p, PairedPartial) and not isinstance(p, CheckedSum) for p in kernel.columns)
    return not nested and all(paired)


def _groups(kernel: PaneKernel, panes: pl.DataFrame, most: int) -> tuple[pl.DataFrame | None, Ints]:
    """The groups in order, and the place of each partial's group in it; None if they are too many."""
    keys = kernel.keys
    dense = _dense(panes[keys[0]]) if len(keys) == 1 else None
    if dense is not None:
        return (dense[0].to_frame(), dense[1]) if len(dense[0]) <= most else (None, dense[1])
    groups = panes.select(keys).unique() if keys else pl.DataFrame(height=1)
    if groups.height > most:
        return None, np.zeros(0, np.int64)
    if not keys:
        return groups, np.zeros(panes.height, np.int64)
    groups = groups.sort(keys)
    found = panes.select(keys).join(
        groups.with_row_index(_CODE), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )[_CODE]
    return groups, found.cast(pl.Int64).to_numpy()


def _dense(keys: pl.Series) -> tuple[pl.Series, Ints] | None:
    """The distinct whole numbers in order, and the place of each key in it; None if they do not lie close together.

    To mark and count them takes a fifth of the time of a sort and a join.
    """
    if not keys.dtype.is_signed_integer() or keys.null_count() or keys.is_empty():
        return None
    values = keys.to_numpy()
    low, high = int(values.min()), int(values.max())
    if high - low > _PLACES_A_ROW * len(values):
        return None
    offsets = values.astype(np.int64) - low
    there = np.zeros(high - low + 1, bool)
    there[offsets] = True
    return pl.Series(keys.name, np.flatnonzero(there) + low, keys.dtype), (np.cumsum(there) - 1)[offsets]


def _doubled(kernel: PaneKernel, grid: pl.DataFrame, groups: int) -> pl.DataFrame:
    """The merge of a window's panes, from each pane on that has enough panes after it."""
    merges = _merges(kernel, grid.schema)
    span, count = kernel.spec.panes_per_window, grid.height // groups
    made, reach, far = None, 0, 1
    while True:
        # Here a place of the grid is the merge of `far` panes, and one of `made` that of `reach`.
        if span & far:
            left = count - reach - far + 1
            behind = grid.slice(reach * groups, left * groups)
            made = behind if made is None else _pair(merges, made.head(left * groups), behind)
            reach += far
        if made is not None and reach == span:
            return made
        grid = _pair(merges, grid.head(grid.height - far * groups), grid.slice(far * groups))
        far *= 2


def _merges(kernel: PaneKernel, schema: pl.Schema) -> list[pl.Expr]:
    made = []
    # A place without rows stays null.
    for partial, names in [(Sum("*"), (ROWS,)), *kernel.columns.items()]:
        assert isinstance(partial, PairedPartial)
        old, new = [pl.col(n) for n in names], [pl.col(n + _OTHER) for n in names]
        merged = partial.pair(old, new, [schema[n] for n in names], by_value=True)
        made += [e.alias(n) for n, e in zip(names, merged, strict=True)]
    return made


def _pair(merges: list[pl.Expr], older: pl.DataFrame, newer: pl.DataFrame) -> pl.DataFrame:
    return older.hstack(newer.rename(lambda c: c + _OTHER).get_columns()).select(merges)
