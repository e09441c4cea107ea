"""The page: a bounded piece of a stream. Operators know this protocol only, not what runs behind it.

`where` and `select` only extend the page; work is done when partials are folded, late rows taken or the page saved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import polars as pl

from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.steps import Map, Step
from slackwater.progress.arrival import Arrival
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel

if TYPE_CHECKING:
    from slackwater.operators.stores import Stores


class PartialsTooLarge(Exception):
    """A page has more (pane, group) partials than the driver should hold."""


@dataclass(frozen=True)
class Folded:
    """What a page comes down to."""

    partials: pl.DataFrame
    """By pane and group."""
    counts: pl.DataFrame
    """Rows (ROWS) by pane (PANE), and by source (SOURCE) in a stream that has sources."""


#: A node whose results are pages.
ResultsOf = AggregateNode


@runtime_checkable
class Page(Protocol):
    """Rows of one stream that arrived together, with a hidden column of their time in ticks."""

    @property
    def number(self) -> int:
        """Place in the stream; a page that comes again after a crash has the same number."""
        ...

    @property
    def prod(self) -> Prod | None:
        """The prod that an early page belongs to; None for rows that are here to stay."""
        ...

    @property
    def rows(self) -> int | None:
        """How many rows the page had on arrival, once known."""
        ...

    @property
    def bytes(self) -> int | None:
        """About how much room its rows take, once known."""
        ...

    def sample(self, rows: int) -> Page:
        """Run: at most so many of its rows, in memory, as a page of their own."""
        ...

    def expect(self, needs: frozenset[str], at: int | None = None) -> None:
        """Say, before anything has run, which statistics of its arrival will be asked for (`Disorder.needs`).

        `at` is when it is admitted: that is when it arrives, and not when somebody began to hand it over.
        """
        ...

    def stamped(self, at: int) -> Page:
        """The same rows, each that has a time with this one (S3 section 5)."""
        ...

    def fold(self, kernel: PaneKernel) -> Folded:
        """Run: the page's partials by pane and group; rows without a time are left out.

        Raises PartialsTooLarge rather than bring too many to the driver.
        """
        ...

    def fold_all(self, kernels: Sequence[PaneKernel]) -> Mapping[PaneKernel, Folded]:
        """Run: the same for several kernels at once, but for those that are better folded each by itself.

        Raises PartialsTooLarge if all together are too many.
        """
        ...

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """Run: the time, groups and arguments of each row, in order; also of rows without a time.

        Raises PartialsTooLarge rather than bring too many to the driver.
        """
        ...

    def map(self, step: Map) -> Page:
        """Run: the rows as a Python function makes them, one for each, with their time."""
        ...

    def measure(self) -> Arrival:
        """Run, if nothing has: the arrival statistics."""
        ...

    def arrival(self) -> Arrival | None:
        """Arrival statistics before any filter; None until something has run."""
        ...

    def late(
        self, before: int, within: Sequence[tuple[int, int]] = (), by_source: pl.DataFrame | None = None
    ) -> Page | None:
        """Run: the rows with a time below `before`, or with none; None if there are no such rows.

        Also those `within` some [from, to). `by_source` names sources (SOURCE) whose rows from SINCE to below
        BEFORE are late too; the stretches of a source lie apart.
        """
        ...

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Run: how many rows have a time at or below a heartbeat, before any filter.

        `by_source` names sources (SOURCE) with heartbeats (BEFORE) of their own.
        """
        ...

    def payload(self, about: int | None = None) -> MaterializedRows:
        """Run: the visible columns of all rows, for a sink. `about` is how many rows to expect, if known."""
        ...

    def recipe(self) -> Recipe | None:
        """The same without making the rows. Run: how many there are. None if they could not be made again."""
        ...

    def held(self) -> Page:
        """Run what has been put on the rows, if anything has: so they take only the room of what is left."""
        ...

    @property
    def kept(self) -> bool:
        """Whether memory has the rows as they are, also when they have been saved."""
        ...

    def save(self) -> dict[str, Any]:
        """Run, and make the rows durable; what is given back, as JSON values, finds them again."""
        ...

    @property
    def saved(self) -> dict[str, Any] | None:
        """What `save` would give, where the rows are durable already."""
        ...


class Pages(Protocol):
    """What makes pages of one kind, finds saved ones again, and keeps what is too large for the driver."""

    @property
    def stores(self) -> Stores:
        """What keeps the rows and partials of operators."""
        ...

    @property
    def cores(self) -> int:
        """How many pages are worked on at the same time where several are taken as one."""
        ...

    def of_results(self, payload: Payload, node: ResultsOf, number: int, at: int, prod: Prod | None) -> Page:
        """A page of window results; the time of a row is that of its result."""
        ...

    def extended(self, page: Page, step: Step) -> Page:
        """The same page with a step to be done to its rows."""
        ...

    def matching(self, groups: pl.DataFrame, where: str) -> pl.Series:
        """The numbers of the rows that meet a condition of Spark SQL; QueryError if it fails on one of them."""
        ...

    def load(self, saved: dict[str, Any]) -> Page:
        """The page that `Page.save` spoke of."""
        ...

    def joins(self, group: Sequence[Page], following: Any) -> bool:
        """Whether some pages of a stream, and one that follows them, can be taken as one."""
        ...

    def together(self, pages: Sequence[Page]) -> Page:
        """Such pages as one, with the number of the last."""
        ...

    def drop(self, saved: dict[str, Any]) -> None:
        """Its rows are needed no more."""
        ...

    def sweep(
        self, queues: Collection[Sequence[dict[str, Any]]], staged: Sequence[str], taken: Mapping[str, int]
    ) -> None:
        """Delete what a crash has left and nobody speaks of.

        `queues` is what waits, `staged` lies ready for sinks, `taken` is the last page taken of each source.
        """
        ...
