"""Where totals are kept: the contract, and the resident store in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypedDict

import polars as pl
import pyarrow as pa

from slackwater.columns import WINDOW
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload
from slackwater.operators.shared_fold import SharedFold
from slackwater.windows.closed import Closed
from slackwater.windows.closing import close
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMPLETENESS, bounded_rows, ordered_values
from slackwater.windows.totals import Totals


class TotalStore(Protocol):
    """The totals of all groups. Dropped files stay readable until `settle`."""

    @property
    def kind(self) -> str:
        """Name of the store in the journal and in metrics."""

    def absorb(self, pages: Pages, page: Page) -> None:
        """Fold a page in."""

    def answer(self, pages: Pages, emitted_at: int) -> Payload | None:
        """The totals of the groups that have changed since the last call; None if there are none."""

    def values(self, pages: Pages) -> pl.DataFrame | None:
        """The totals of all groups, in the driver."""

    def forget(self, closed: Closed, length: int) -> None:
        """After an answer, drop the groups whose heartbeat is at least `length` ticks past their last row."""

    def state(self, whole: bool) -> State:
        """The changes since the last call, or all groups."""

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""

    def settle(self) -> None:
        """Delete the files that were dropped."""

    @property
    def bytes(self) -> int:
        """Bytes of the driver's memory."""

    @property
    def size(self) -> dict[str, int]:
        """Partials and bytes held."""


class TotalsValues(TypedDict):
    """The journaled values of totals in the driver, beside their partials."""

    answers: int


class ResidentTotals:
    """Totals in the driver's memory."""

    kind = "resident"

    def __init__(self, kernel: PaneKernel, schema: pa.Schema, fold: SharedFold) -> None:
        """`kernel` is one of `with_last`; `schema` is that of the results."""
        self.kernel, self.schema = kernel, schema
        self.totals = Totals(kernel)
        self._fold = fold

    def absorb(self, pages: Pages, page: Page) -> None:
        """Fold a page in."""
        self.totals.add(self._fold.fold(pages, page, self.kernel.panes).partials)

    def answer(self, pages: Pages, emitted_at: int) -> Payload | None:
        """Merge the partials of these groups."""
        values = self._values(pages, changed=True)
        if values is None:
            return None
        self.totals.answers += 1
        return total_rows(values, self.schema, emitted_at)

    def values(self, pages: Pages) -> pl.DataFrame | None:
        """Merge all partials."""
        return self._values(pages, changed=False)

    def _values(self, pages: Pages, changed: bool) -> pl.DataFrame | None:
        merged = self.totals.merged(changed)
        if merged is None:
            return None
        return ordered_values(self.kernel, close(self.kernel, merged, pages.backend.close)).drop(WINDOW)

    def forget(self, closed: Closed, length: int) -> None:
        """Drop their partials."""
        self.totals.forget(closed, length)

    def state(self, whole: bool) -> State:
        """The partials that came since, or all of them."""
        return State(TotalsValues(answers=self.totals.answers), self.totals.tables(whole), whole)

    def restore(self, states: Sequence[State]) -> None:
        """Merge the journaled partials again."""
        self.totals.load([state.tables for state in states], states[-1].read(TotalsValues)["answers"])

    def settle(self) -> None:
        """The journal, if there is one, has all that came."""
        self.totals.settle()

    @property
    def bytes(self) -> int:
        """Size of the partials."""
        return self.totals.size["state_bytes"]

    @property
    def size(self) -> dict[str, int]:
        """Partials and bytes held."""
        return self.totals.size


def total_rows(values: pl.DataFrame, schema: pa.Schema, emitted_at: int) -> pa.Table:
    """Answers with these values. They have no window, and nobody can say how complete they are."""
    none = pl.Series([None], dtype=pl.Int64).new_from_index(0, values.height)
    unknown = values.with_columns(pl.lit(None, pl.Float64).alias(COMPLETENESS))
    return bounded_rows(unknown, none, none, schema, emitted_at, "early")
