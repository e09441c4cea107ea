"""The rows that a join keeps of its two inputs, in time cells on the journal's file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from slackwater.operators.operator import State
from slackwater.plan.join_node import JoinNode
from slackwater.spark.state.cell_files import CellFiles
from slackwater.spark.state.join_output import JoinPages
from slackwater.spark.state.partitioned_files import FilesValues
from slackwater.spark.storage.storage_dir import file_name

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

_NAMES = ("left", "right")


class SidesValues(TypedDict):
    """The journaled values of the files of both sides."""

    sides: list[FilesValues]


class SidesInCells:
    """The files of both sides, and what makes pages of them."""

    def __init__(self, label: str, node: JoinNode, pages: SparkPages, longest: Sequence[int]) -> None:
        """`longest` says of each side how long its rows are kept at most."""
        place = pages.spark.root.child("spill").child(file_name(label))
        self._node = node
        self._pages = pages
        spark, sizes = pages.spark, zip(_NAMES, longest, strict=True)
        self._sides = [CellFiles(place.child(name), spark, ticks) for name, ticks in sizes]
        self._made = JoinPages(label, node, spark, self._sides)

    def restore(self, states: Sequence[State]) -> None:
        """Continue with the files that there are."""
        for cells, kept in zip(self._sides, states[-1].read(SidesValues)["sides"], strict=True):
            cells.restore(kept)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """New files do not count."""
        left, right = self._sides
        with left.trial(), right.trial():
            yield

    def counted(self) -> int:
        """As pages have been run."""
        return self._made.counted()

    def settle(self) -> None:
        """Delete what is needed no more."""
        for cells in self._sides:
            cells.settle()

    @property
    def size(self) -> dict[str, int]:
        """Rows and bytes of both sides; some may be needed no more."""
        left, right = self._sides
        return {"left_rows": left.rows, "right_rows": right.rows, "state_bytes": left.bytes + right.bytes}
