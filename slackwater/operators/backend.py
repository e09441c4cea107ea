"""The back end: what runs on the rows of pages. There are two, Spark's and one in process.

A verb takes a page with what is known of its arrival (`Pages.known`). A back end counts its jobs and their seconds
itself, because stores and ingest run some that belong to no verb.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import polars as pl
import pyarrow as pa

from slackwater.aggregates.kept import Kept
from slackwater.columns import SOURCE
from slackwater.operators.page import Location, Origin, Page
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode
from slackwater.progress.arrival import Arrival
from slackwater.windows.kernel import Group, PaneKernel

T_co = TypeVar("T_co", covariant=True)


class PartialsTooLarge(Exception):
    """A page has more (pane, group) partials, or rows, than the driver should hold."""

    arrival: Arrival | None = None
    """The statistics of the page's arrival, if the work has brought them along all the same."""


@dataclass(frozen=True)
class Folded:
    """The partials of a page."""

    partials: pl.DataFrame
    """Partials by pane and group."""
    counts: pl.DataFrame
    """Rows (ROWS) by pane (PANE), and by source (SOURCE) in a stream that has sources."""


@dataclass(frozen=True)
class Done(Generic[T_co]):
    """The result of a verb."""

    value: T_co
    arrival: Arrival | None = None
    """The statistics of the page's arrival, if the work has brought them along."""


@dataclass(frozen=True)
class LateTimes:
    """Which times are late: those below `before`, and those `within` some [from, to)."""

    before: int
    within: tuple[tuple[int, int], ...] = ()
    by_group: pl.DataFrame | None = None
    """Groups whose rows from SINCE to below BEFORE are late too; the stretches of a group lie apart."""
    groups: tuple[Group, ...] = (Group(SOURCE, SOURCE),)
    """The columns of these groups: by default they are the sources."""


class Backend(Protocol):
    """The verbs. Each may run jobs."""

    @property
    def cores(self) -> int:
        """How many pages are worked on at the same time where several are taken as one."""

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        """The page's partials by pane and group; rows without a time are left out.

        One kernel is always folded. Of several those are left out that are better folded each by itself. Raises
        PartialsTooLarge rather than bring too many to the driver.
        """

    def collect(
        self, page: Page, columns: Mapping[str, str] | None = None, limit: int | None = None
    ) -> Done[pa.Table]:
        """Rows in the driver, at most `limit`: these columns, by name and SQL, or all of them with the hidden ones.

        Raises PartialsTooLarge rather than bring too many.
        """

    def payload(self, page: Page, about: int | None = None) -> Done[MaterializedRows]:
        """The visible columns of all rows, for a sink: in the driver if they are few, else staged as files.

        `about` is how many rows to expect, if known.
        """

    def repeatable(self, page: Page) -> Done[Recipe | None]:
        """The same without making the rows, but for counting them. None if they could not be made again."""

    def count(self, page: Page, heartbeat: int, by_source: pl.DataFrame | None = None) -> Done[int]:
        """How many rows have a time at or below a heartbeat, before any filter.

        `by_source` names sources (SOURCE) with heartbeats (BEFORE) of their own.
        """

    def late(self, page: Page, times: LateTimes) -> Done[Page | None]:
        """The rows with late times, or with none; None if there are no such rows."""

    def measure(self, page: Page) -> Done[None]:
        """The arrival statistics alone."""

    def materialize(self, page: Page) -> Done[Page]:
        """Do the steps now; the rows are held in memory if there is room, else they are written."""

    def write(self, page: Page) -> Done[Page]:
        """The page with its rows on the session's storage. One that memory holds stays there, too."""

    def merge(self, pages: Sequence[Page]) -> Page | None:
        """Pages of a stream that follow each other as one, with the origin of the last; None if they do not fit."""

    def results(self, origin: Origin, payload: Payload, node: AggregateNode, at: int, prod: Prod | None) -> Page:
        """A page of window results; the time of a row is that of its result."""

    def matching(self, groups: pl.DataFrame, where: str) -> pl.Series:
        """The numbers of the rows that meet a condition of Spark SQL; QueryError if it fails on one of them."""

    def close(self, rows: pl.DataFrame, kernel: PaneKernel, aggregates: Sequence[Kept]) -> pl.DataFrame:
        """Some aggregates of a kernel over kept rows, by GROUP; each row came as often as its ROWS say."""

    def check(self, page: Page) -> None:
        """Raise an error if the rows of a page that a journal knows are not there."""

    def release(self, location: Location) -> None:
        """No page has its rows there any more: forget what memory and plans have of them."""

    def delete(self, folder: str) -> None:
        """Nobody needs a folder of the session's storage any more, in this process or after a crash."""

    def sweep(self, live: Collection[str], taken: Mapping[str, int]) -> None:
        """Delete the folders that a crash has left, but for the live ones.

        `taken` is the last page taken of each source: later ones are still to come.
        """
