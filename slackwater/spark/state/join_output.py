"""The rows that a join makes, as lazy pages: pairs, and rows that have stayed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.columns import TIME, UNTIL
from slackwater.operators.page import JoinOutput, Origin, Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.arrival import Arrival
from slackwater.spark.backend.compile import column, named
from slackwater.spark.backend.opened import Counter, LazyRows
from slackwater.spark.state.cell_files import CellFiles
from slackwater.spark.storage.types import spark_schema

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend


def of_side(side: int, name: str) -> str:
    """A hidden column of one side."""
    return f"{name}_{side}"


def later() -> dict[str, str]:
    """The time of a pair, and until when it is alive."""
    times, ends = ([of_side(side, name) for side in (0, 1)] for name in (TIME, UNTIL))
    return {TIME: f"greatest({', '.join(times)})", UNTIL: f"least({', '.join(ends)})"}


def own(side: int) -> dict[str, str]:
    """Those of one row."""
    return {TIME: of_side(side, TIME), UNTIL: of_side(side, UNTIL)}


class JoinPages:
    """Makes pages of a join's rows; the files that they read stay until they have run."""

    def __init__(self, label: str, node: JoinNode, backend: SparkBackend, files: Sequence[CellFiles]) -> None:
        self.given = 0
        """Pages so far."""
        self._node = node
        self._label = label
        self._backend = backend
        self._files = files
        self._counted = 0
        self._partners: list[float | None] = [None, None]
        """For each side, how many partners a row of its last page found; known once the pairs have been counted."""

    def visible(self, side: int) -> list[Column]:
        """The columns of a side."""
        return [column(f"`{name}`") for name in self._node.kept[side].names]

    def together(self) -> Column:
        """Both rows are alive at the same time, and meet what the user asks."""
        times = [f"{of_side(side, TIME)} < {of_side(1 - side, UNTIL)}" for side in (0, 1)]
        return column(" AND ".join([*([self._node.condition] if self._node.condition else []), *times]))

    def page(
        self,
        rows: DataFrame,
        hidden: Mapping[str, str],
        lacks: int | None,
        at: int,
        brought: tuple[int, int] | None = None,
    ) -> Page:
        """Rows as a page; the columns of the side that it lacks are null.

        `brought` says which side has got how many new rows, if these are pairs of them.
        """
        rows = rows if lacks is None else self.lacking(rows, lacks)
        columns = [*self._node.columns, *hidden.items()]
        frame = rows.select(*(named(sql, name) for name, sql in columns))
        counter = Counter(partial(self._count, brought)) if self._backend.counts_pairs else None
        frame = frame if counter is None else counter.watching(frame)
        self.given += 1
        files = tuple(file.name for cells in self._files for file in cells.files)
        location = JoinOutput(LazyRows(frame, counter), tuple(hidden), files)
        for cells in self._files:
            cells.read_by(location)
        # Its rows are not counted before they are needed, and move no time.
        unknown, size = Arrival(0, 0, None, None, at), self._size(brought)
        return Page(Origin(self._label, self.given), location, at=at, arrival=unknown, size=size)

    def lacking(self, rows: DataFrame, side: int) -> DataFrame:
        """Rows with nulls for the columns of a side."""
        fields = spark_schema(self._node.kept[side]).fields
        return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in fields})

    def counted(self) -> int:
        """Rows of its pages that jobs have counted since this was last asked."""
        counted, self._counted = self._counted, 0
        return counted

    def _count(self, brought: tuple[int, int] | None, rows: int) -> None:
        self._counted += rows
        if brought is not None and brought[1]:
            self._partners[brought[0]] = rows / brought[1]

    def _size(self, brought: tuple[int, int] | None) -> int | None:
        """About how many bytes pairs of new rows take, if these find as many partners as those before them did."""
        partners = None if brought is None else self._partners[brought[0]]
        if brought is None or partners is None:
            return None
        return round(brought[1] * partners * sum(cells.bytes / cells.rows for cells in self._files if cells.rows))
