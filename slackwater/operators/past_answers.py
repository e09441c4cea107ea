"""The answers that late rows may still correct: their partials and their commits (D16).

Partials of closed panes are in an archive, and so are the commits of answers. Both are written when windows close,
and read only when late rows come.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import PANE, SOURCE, WINDOW
from slackwater.operators.archive import Archive
from slackwater.operators.stores import CellTables
from slackwater.operators.window_values import PastValues
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMMIT, REPLACES

_FIRST, _LAST = "__first", "__last"
#: Kinds of archived rows: partials; runs of answered windows; answers of single groups.
_PARTIALS, _GIVEN, _SINGLE = "partials", "given", "single"
_RUNS = {_FIRST: pl.Int64, _LAST: pl.Int64, SOURCE: pl.String, COMMIT: pl.Int64}
#: Runs in the driver, and in every record of the journal. When there are more, they become a file.
MOST_RUNS = 256
_BEFORE_ALL, _AFTER_ALL = -(2**62), 2**62


class PastAnswers:
    """The answered windows of a query that may still be corrected, in files."""

    def __init__(self, kernel: PaneKernel, cells: CellTables) -> None:
        self._kernel = kernel
        self._archive = Archive(cells, {_PARTIALS: PANE, _GIVEN: _LAST, _SINGLE: WINDOW})
        self._runs = pl.DataFrame(schema=_RUNS)
        self.first: int | None = None
        """Earlier windows are not corrected: their answers came before the query had `corrections=`."""
        self._lowest = _BEFORE_ALL
        """The first window that may still be corrected."""

    @property
    def _lowest_pane(self) -> int:
        return self._lowest if self._lowest == _BEFORE_ALL else self._kernel.spec.first_pane(self._lowest)

    def keep(self, partials: pl.DataFrame) -> None:
        """Archive partials of panes that no open window needs."""
        kept = partials.filter(pl.col(PANE) >= self._lowest_pane)
        if kept.height:
            self._archive.add(_PARTIALS, kept.sort(PANE), self._lowest_pane)

    def note_windows(self, runs: pl.DataFrame | tuple[int | None, int], commit: int) -> None:
        """Note the commit that answered some windows: pairs (SOURCE, WINDOW), or all from a first to a last one."""
        if isinstance(runs, tuple):
            first = _BEFORE_ALL if runs[0] is None else runs[0]
            rows = pl.DataFrame([(first, runs[1], None, commit)], _RUNS, orient="row")
        else:
            window = pl.col(WINDOW).cast(pl.Int64)
            rows = runs.select(window.alias(_FIRST), window.alias(_LAST), SOURCE, pl.lit(commit).alias(COMMIT))
        self._runs = pl.concat([self._runs, rows.cast(_RUNS)])  # type: ignore[arg-type]
        if self._runs.height > MOST_RUNS:
            runs, self._runs = self._runs, self._runs.clear()
            self._archive.add(_GIVEN, runs, self._lowest)

    def note_groups(self, groups: pl.DataFrame, commit: int) -> None:
        """Note the commit that answered some windows (WINDOW) for some groups."""
        window, number = pl.col(WINDOW).cast(pl.Int64), pl.lit(commit, pl.Int64).alias(COMMIT)
        rows = groups.select(window, *self._kernel.keys, number)
        self._archive.add(_SINGLE, rows, self._lowest)

    def partials(self, low: int, high: int) -> Iterator[pl.DataFrame]:
        """The archived partials of the panes from `low` to below `high`."""
        return self._archive.read(_PARTIALS, low, high - 1)

    def commits(self, asked: pl.DataFrame) -> pl.DataFrame:
        """The last commit (REPLACES) that answered each of these windows and groups; null if none did.

        `asked` has windows (WINDOW), groups, and `had`: whether the group had rows when its window closed. Then the
        answer of the window has the group.
        """
        keys = [WINDOW, *self._kernel.keys]
        windows = asked[WINDOW].to_numpy()
        low, high = int(windows.min()), int(windows.max())
        single = [frame.select(*keys, COMMIT) for frame in self._archive.read(_SINGLE, low, high)]
        found = asked.with_columns(self._window_commits(asked).alias(REPLACES))
        if not single:
            return found
        last = pl.concat(single, how="vertical_relaxed").group_by(keys).agg(pl.col(COMMIT).max())
        beside = found.join(last, on=keys, how="left", nulls_equal=True, maintain_order="left")
        return beside.with_columns(pl.max_horizontal(REPLACES, COMMIT)).drop(COMMIT)

    def _window_commits(self, asked: pl.DataFrame) -> pl.Series:
        windows, had = asked[WINDOW].to_numpy(), asked["had"].to_numpy()
        low = int(windows.min())
        runs = pl.concat([self._runs, *self._archive.read(_GIVEN, low, _AFTER_ALL)])
        runs = runs.filter((pl.col(_LAST) >= low) & (pl.col(_FIRST) <= int(windows.max())))
        if self._kernel.source is not None:
            last = runs.group_by(SOURCE, pl.col(_FIRST).alias(WINDOW)).agg(pl.col(COMMIT).max())
            beside = asked.select(WINDOW, self._kernel.source_of.alias(SOURCE)).join(
                last, on=[WINDOW, SOURCE], how="left", maintain_order="left"
            )
            return pl.select(pl.when(asked["had"]).then(beside[COMMIT])).to_series()
        commit = np.full(len(windows), -1, np.int64)
        for first, last_one, _, number in runs.iter_rows():
            inside = had & (windows >= first) & (windows <= last_one)
            commit[inside] = np.maximum(commit[inside], number)
        return pl.select(pl.when(pl.Series(commit) >= 0).then(pl.Series(commit))).to_series()

    def advance(self, closed: Closed, windows: int) -> None:
        """Drop windows that are too old: of each source, only this many of its latest closed windows remain."""
        lowest = closed.lowest_closed()
        if lowest is None or lowest - windows + 1 <= self._lowest:
            return
        self._lowest = lowest - windows + 1
        self._archive.drop(_PARTIALS, self._lowest_pane)
        for kind in (_GIVEN, _SINGLE):
            self._archive.drop(kind, self._lowest)
        self._runs = self._runs.filter(pl.col(_LAST) >= self._lowest)

    def state(self) -> tuple[PastValues, dict[str, pa.Table]]:
        """The list of files, and the runs that are not in a file yet."""
        archive, tables = self._archive.state()
        values = PastValues(first=self.first, lowest=self._lowest, archive=archive)
        return values, {**tables, "runs": self._runs.to_arrow()}

    def restore(self, values: PastValues, tables: dict[str, pa.Table]) -> None:
        """Continue from a journaled state."""
        self.first, self._lowest = values["first"], values["lowest"]
        self._runs = frame_of(tables["runs"]).cast(_RUNS)  # type: ignore[arg-type]
        self._archive.restore(values["archive"], tables)

    def settle(self) -> None:
        """Delete the files that were dropped."""
        self._archive.settle()

    def metrics(self) -> dict[str, int]:
        """The number of files, and their size."""
        return {"archived_files": len(self._archive), "archived_bytes": self._archive.bytes}
