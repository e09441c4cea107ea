"""Where an operator keeps its open panes: the contract, and the resident store in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import polars as pl
import pyarrow as pa

from slackwater.columns import PANE, ROWS, SOURCE, WINDOW
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload
from slackwater.operators.shared_fold import SharedFold
from slackwater.windows.closed import Closed
from slackwater.windows.closing import close
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.panes import PaneRing
from slackwater.windows.results import ordered_values, result_rows

#: Bytes of a value of a result: most are numbers and times.
_VALUE_BYTES = 8


#: Takes partials of a page, by pane and group.
TakesLate = Callable[[Iterable[pl.DataFrame]], None]


@dataclass(frozen=True)
class Results:
    """Final results, and of how many windows."""

    payload: Payload
    windows: int
    values: pl.DataFrame | None = None
    """Their values, by window (WINDOW) and group, where these are in the driver."""
    given: pl.DataFrame | None = None
    """By source: which windows (WINDOW) have results for which source (SOURCE)."""


class Absorbed(NamedTuple):
    """What a store has taken of a page."""

    counts: pl.DataFrame
    """The page's rows (ROWS) by pane, and by source (SOURCE) where there are sources."""
    partials: pl.DataFrame | None = None
    """Its partials by pane and group, where these are in the driver."""


class PaneStore(Protocol):
    """Open panes of one window aggregate. A purged pane stays readable until `settle`."""

    keeps_late: ClassVar[bool]
    """Whether partials that no open window needs stay until the next `purge` when they come late."""

    @property
    def kind(self) -> str:
        """Name of the store in the journal and in metrics."""

    def absorb(self, pages: Pages, page: Page, closed: Closed, late: TakesLate | None = None) -> Absorbed:
        """Fold a page in.

        `late` gets the page's partials of panes that a closed window needs, before they count.
        """

    def results(
        self, pages: Pages, before: Closed, after: Closed, emitted_at: int, commit: int | None
    ) -> Results | None:
        """Final results of the windows that are closed `after` and were not `before`; nothing is purged.

        Where `before` tells which windows have been given, also of those that were closed and not given.
        """

    def partials_between(self, low: int, high: int) -> Iterator[pl.DataFrame]:
        """The partials held of the panes from `low` to below `high`."""

    def closed_partials(self, closed: Closed) -> Iterator[pl.DataFrame]:
        """The partials that `purge` will drop."""

    def merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        """Merged partials of these windows, by window (WINDOW), group and kept row, in the driver."""

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""

    @property
    def empty(self) -> bool:
        """Whether no pane is held."""

    def purge(self, closed: Closed) -> None:
        """Drop the panes that no open window needs."""

    def state(self, whole: bool) -> State:
        """Changes since this was last asked, or all."""

    def restore(self, states: Sequence[State], closed: Closed) -> None:
        """Continue from journaled states; panes that no open window needs are gone."""

    def settle(self) -> None:
        """Delete the files that were purged."""

    @property
    def bytes(self) -> int:
        """Bytes that it takes of the driver's memory."""

    @property
    def size(self) -> dict[str, int]:
        """Panes, partials and bytes held."""


class ResidentPanes:
    """Panes in the driver's memory: every answer is a merge of small tables, without a Spark job."""

    kind = "resident"
    keeps_late: ClassVar[bool] = False

    def __init__(self, kernel: PaneKernel, schema: pa.Schema, fold: SharedFold | None = None) -> None:
        self.kernel = kernel
        self.schema = schema
        self.ring = PaneRing(kernel.panes)
        self._fold = fold or SharedFold()

    def absorb(self, pages: Pages, page: Page, closed: Closed, late: TakesLate | None = None) -> Absorbed:
        """Fold a page into the ring."""
        folded = self._fold.fold(pages, page, self.kernel.panes)
        end = None if late is None else closed.end(self.kernel.spec)
        if late is not None and end is not None and (folded.partials[PANE].to_numpy() < end).any():
            late([folded.partials.filter(pl.col(PANE) < end)])
        self.ring.add(folded.partials, closed)
        by_source = self.kernel.source is not None
        counts = _by_source(self.kernel.panes, folded.partials) if by_source else folded.counts
        return Absorbed(counts, folded.partials)

    def partials_between(self, low: int, high: int) -> Iterator[pl.DataFrame]:
        """What the ring has of them."""
        return self.ring.partials_between(low, high)

    def closed_partials(self, closed: Closed) -> Iterator[pl.DataFrame]:
        """What the ring has of them, at once."""
        behind = self.ring.closed_partials(closed)
        yield from [] if behind is None else [behind]

    def results(
        self, pages: Pages, before: Closed, after: Closed, emitted_at: int, commit: int | None
    ) -> Results | None:
        """Merge the panes of these windows."""
        merged = self.merged(before, after)
        if merged is None:
            return None
        values = ordered_values(self.kernel, close(self.kernel, merged, pages.backend.close))
        rows = result_rows(self.kernel, values, self.schema, emitted_at, commit)
        given = None if self.kernel.source is None else windows_by_source(self.kernel, values)
        return Results(rows, merged[WINDOW].n_unique(), values, given)

    def exceeds(self, before: Closed, after: Closed, limit: int) -> bool:
        """Whether the results of these windows may take more bytes than this."""
        span, highest, spec = self.ring.span(), after.highest_closed(), self.kernel.spec
        if span is None or highest is None:
            return False
        first = spec.first_window(span[0])
        if before.emitted_through is not None and before.named is None:
            first = max(first, before.emitted_through + 1)
        windows = min(highest, spec.last_window(span[1])) - first + 1
        of_a_pane = spec.last_window(span[0]) - spec.first_window(span[0]) + 1
        most = limit // (len(self.schema) * _VALUE_BYTES)
        # Each partial counts in each of its windows, and no window has more results than there are groups.
        return self.ring.size.partials * min(windows, of_a_pane) > most and windows * self.ring.groups() > most

    def merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        """Merge the panes of these windows."""
        merged = self.ring.windows(before, after)
        return None if merged is None or merged.height == 0 else merged

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        return self.ring.span()

    @property
    def empty(self) -> bool:
        """Whether the ring is empty."""
        return self.ring.empty

    def purge(self, closed: Closed) -> None:
        """Forget what no open window needs."""
        self.ring.purge(closed)

    def state(self, whole: bool) -> State:
        """The partials that came since, or all of them."""
        table = self.ring.all() if whole else self.ring.take_fresh()
        return State({}, {} if table is None else {"panes": table}, whole)

    def restore(self, states: Sequence[State], closed: Closed) -> None:
        """Merge the journaled tables again."""
        self.ring.restore([s.tables["panes"] for s in states if "panes" in s.tables], closed)

    def settle(self) -> None:
        """The journal, if there is one, has all that came."""
        self.ring.take_fresh()

    @property
    def bytes(self) -> int:
        """Size of the ring."""
        return self.ring.size.bytes

    @property
    def size(self) -> dict[str, int]:
        """Panes, partials and bytes held."""
        panes, partials, size = self.ring.size
        return {"panes": panes, "partials": partials, "state_bytes": size}


def _by_source(kernel: PaneKernel, partials: pl.DataFrame) -> pl.DataFrame:
    """Rows by pane and by the source that closes their groups: after a map, that is what the map has given."""
    counts = partials.select(PANE, kernel.source_of.alias(SOURCE), ROWS)
    return counts if len(kernel.keys) == 1 else counts.group_by([PANE, SOURCE]).agg(pl.col(ROWS).sum())


def windows_by_source(kernel: PaneKernel, results: pl.DataFrame) -> pl.DataFrame:
    """The windows (WINDOW) of some results, each once for each source (SOURCE)."""
    found = results.select(kernel.source_of.alias(SOURCE), WINDOW)
    return found if len(kernel.keys) == 1 else found.unique()
