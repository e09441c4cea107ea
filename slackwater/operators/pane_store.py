"""Where an operator keeps its open panes: the contract, and the resident store in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl
import pyarrow as pa

from slackwater.operators.element import Payload
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.windows.kernel import PANE, ROWS, PaneKernel
from slackwater.windows.panes import PaneRing
from slackwater.windows.results import result_rows


class PaneStore(Protocol):
    """Open panes of one window aggregate. A purged pane stays readable until `settle`."""

    @property
    def kind(self) -> str:
        """Name of the store in the journal and in metrics."""
        ...

    def absorb(self, page: Page, below: int | None) -> pl.DataFrame:
        """Fold a page in; gives the page's rows per pane, of the panes below one (late ones)."""
        ...

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        ...

    def results(self, first: int, last: int, emitted_at: int) -> Payload:
        """Final results of the windows first…last; nothing is purged."""
        ...

    def purge(self, low: int) -> None:
        """Drop the panes below `low`."""
        ...

    def state(self, whole: bool) -> State:
        """Changes since this was last asked, or all."""
        ...

    def restore(self, states: Sequence[State], low: int | None) -> None:
        """Continue from journaled states; panes below `low` are gone."""
        ...

    def settle(self) -> None:
        """What was purged may be deleted."""
        ...

    @property
    def bytes(self) -> int:
        """What it takes of the driver's memory."""
        ...

    @property
    def size(self) -> dict[str, int]:
        """Panes, partials and bytes held."""
        ...


class ResidentPanes:
    """Panes in the driver's memory: every answer is a merge of small tables, without a Spark job."""

    kind = "resident"

    def __init__(self, kernel: PaneKernel, schema: pa.Schema) -> None:
        self.kernel = kernel
        self.schema = schema
        self.ring = PaneRing(kernel)

    def absorb(self, page: Page, below: int | None) -> pl.DataFrame:
        """Fold a page into the ring."""
        partials = page.fold(self.kernel)
        self.ring.add(partials)
        late = partials.filter(pl.col(PANE) < below) if below is not None else partials.clear()
        return late.group_by(PANE).agg(pl.col(ROWS).sum())

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        return self.ring.span()

    def results(self, first: int, last: int, emitted_at: int) -> Payload:
        """Merge the panes of these windows."""
        return result_rows(self.kernel, self.ring.windows(first, last), self.schema, emitted_at)

    def purge(self, low: int) -> None:
        """Forget the panes below `low`."""
        self.ring.purge(low)

    def state(self, whole: bool) -> State:
        """The partials that came since, or all of them."""
        table = self.ring.all() if whole else self.ring.take_fresh()
        return State({}, {} if table is None else {"panes": table}, whole)

    def restore(self, states: Sequence[State], low: int | None) -> None:
        """Merge the journaled tables again."""
        self.ring.restore([s.tables["panes"] for s in states if "panes" in s.tables], low)

    def settle(self) -> None:
        """Nothing lies outside the driver."""

    @property
    def bytes(self) -> int:
        """Size of the ring."""
        return self.ring.bytes

    @property
    def size(self) -> dict[str, int]:
        """Panes, partials and bytes held."""
        return {"panes": self.ring.pane_count, "partials": self.ring.rows, "state_bytes": self.ring.bytes}
