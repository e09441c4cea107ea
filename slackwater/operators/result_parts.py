"""What a page adds to the results of a window aggregate, for policies that bound the error of results."""

from __future__ import annotations

import numpy as np
import polars as pl

from slackwater.columns import PANE, ROWS
from slackwater.progress.window_losses import ResultParts
from slackwater.windows.kernel import PaneKernel


def result_parts(kernel: PaneKernel, partials: pl.DataFrame) -> ResultParts:
    """Counts and sums of a page by window and group. Without such aggregates, the number of its rows.

    The partials are those of `kernel.panes`.
    """
    folded = kernel.panes
    additive = [a.additive(*(n for p in a.partials() for n in folded.columns[p])) for a in folded.aggregates]
    values = list(dict.fromkeys(columns for columns in additive if columns)) or [(ROWS,)]
    names = list(dict.fromkeys(name for columns in values for name in columns))
    first, last = kernel.spec.windows_of(partials[PANE].to_numpy())
    covering = np.maximum(last - first + 1, 0)
    entries = np.arange(partials.height).repeat(covering)
    windows = np.arange(len(entries)) + (first + covering - covering.cumsum()).repeat(covering)
    groups = np.zeros(partials.height, np.int64)
    if kernel.keys:
        groups = partials.select(kernel.keys).hash_rows(seed=0).to_numpy().view(np.int64)
    numbers = partials.select(pl.col(name).cast(pl.Float64).fill_null(0.0) for name in names).to_numpy()
    return ResultParts(
        windows * kernel.spec.slide + (kernel.spec.offset + kernel.spec.first_end - 1),
        groups[entries],
        numbers[entries],
        tuple(tuple(names.index(name) for name in columns) for columns in values),
        None if kernel.source is None else partials.select(kernel.source_of).to_series().gather(entries).to_list(),
    )
