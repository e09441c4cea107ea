"""Pages: how operators work on pages. It knows what the pages of one arrival share, and forgets it in time.

The executor has one, and only its thread uses it. What is known of an arrival lies here under the page's origin, so
a page stays a value. Whoever keeps a page beyond its own run holds it; when nobody holds a page of a location, or
of an origin, any more, what belongs to that is let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import pyarrow as pa

from slackwater.operators.backend import Backend, Done, Folded, LateTimes, PartialsTooLarge
from slackwater.operators.page import Location, Origin, Page
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.steps import Stamp, Step
from slackwater.progress.arrival import Arrival
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel

if TYPE_CHECKING:
    from slackwater.operators.stores import Stores

T = TypeVar("T")


@dataclass
class _Shared:
    """What the pages of one arrival share."""

    arrival: Arrival | None = None
    folded: dict[tuple[object, tuple[Step, ...]], dict[PaneKernel, Folded]] = field(default_factory=dict)
    """What they came down to, for windows that share the work: by what folds them, and the steps."""


class Pages:
    """The back end's verbs, with what is known of arrivals."""

    def __init__(self, backend: Backend | None = None, stores: Callable[[Pages], Stores] | None = None) -> None:
        """`stores` makes what keeps the rows of operators. Without a back end nothing can run."""
        self._backend = backend
        self._stores = None if stores is None else stores(self)
        self._shared: dict[Origin, _Shared] = {}
        self._origins = Counter[Origin]()
        self._locations = Counter[Location]()
        self._taken: list[Page] = []
        """Held until the run is over that has taken them."""

    @property
    def runs(self) -> bool:
        """Whether there is a back end."""
        return self._backend is not None

    @property
    def backend(self) -> Backend:
        """What runs."""
        assert self._backend is not None, "these pages have no back end"
        return self._backend

    @property
    def stores(self) -> Stores:
        """What keeps the rows and partials of operators."""
        assert self._stores is not None, "these pages are for no operators"
        return self._stores

    # --- what is known

    def arrival(self, page: Page) -> Arrival | None:
        """Arrival statistics before any filter; None until something has run."""
        shared = self._shared.get(page.origin)
        if shared is None or shared.arrival is None:
            return page.arrival
        stamp = next((step.at for step in page.steps if isinstance(step, Stamp)), None)
        return shared.arrival if stamp is None else shared.arrival.stamped(stamp)

    def known(self, page: Page) -> Page:
        """The page with what is known of its arrival."""
        arrival = self.arrival(page)
        return page if arrival is page.arrival else replace(page, arrival=arrival)

    def rows(self, page: Page) -> int | None:
        """How many rows the page had on arrival, or has left where somebody has counted them."""
        arrival = self.arrival(page) if page.count is None else None
        return page.count if arrival is None else arrival.rows

    def learn(self, page: Page, arrival: Arrival | None) -> None:
        """A job on a page has brought the statistics of its arrival along."""
        if arrival is not None:
            self._shared.setdefault(page.origin, _Shared()).arrival = arrival

    def folded(
        self, page: Page, by: object, fold: Callable[[], dict[PaneKernel, Folded]]
    ) -> dict[PaneKernel, Folded]:
        """What a page came down to, for windows that share the work: the first that asks has it folded."""
        shared, key = self._shared.setdefault(page.origin, _Shared()), (by, page.steps)
        if key not in shared.folded:
            shared.folded[key] = fold()
        return shared.folded[key]

    # --- who needs it

    def hold(self, page: Page) -> None:
        """Somebody keeps the page."""
        self._origins[page.origin] += 1
        self._locations[page.location] += 1

    def release(self, page: Page) -> None:
        """And needs it no more."""
        self._origins[page.origin] -= 1
        self._locations[page.location] -= 1
        if self._origins[page.origin] <= 0:
            del self._origins[page.origin]
            self._shared.pop(page.origin, None)
        if self._locations[page.location] <= 0:
            del self._locations[page.location]
            if self._backend is not None:
                self._backend.release(page.location)

    def take(self, page: Page) -> None:
        """Who holds the page hands it to the run under way, which needs it to its end."""
        self._taken.append(page)

    def run_over(self) -> None:
        """The run is over."""
        taken, self._taken = self._taken, []
        for page in taken:
            self.release(page)

    # --- the verbs

    def did(self, page: Page, done: Done[T]) -> T:
        """What a verb has given; what it has learnt is noted."""
        self.learn(page, done.arrival)
        return done.value

    def fold(self, page: Page, kernel: PaneKernel) -> Folded:
        """Run: the page's partials. Raises PartialsTooLarge."""
        return self.fold_all(page, [kernel])[kernel]

    def fold_all(self, page: Page, kernels: Sequence[PaneKernel]) -> Mapping[PaneKernel, Folded]:
        """Run: the same for several kernels, but for those that are better folded each by itself."""
        try:
            return self.did(page, self.backend.fold(self.known(page), kernels))
        except PartialsTooLarge as error:
            self._learn_at_least(page, error)
            raise

    def rows_of(self, page: Page, kernel: RollingKernel) -> pl.DataFrame:
        """Run: the time, groups and arguments of each row, in order; also of rows without a time.

        Raises PartialsTooLarge.
        """
        try:
            return frame_of(self.did(page, self.backend.collect(self.known(page), kernel.row_sql())))
        except PartialsTooLarge as error:
            self._learn_at_least(page, error)
            raise

    def _learn_at_least(self, page: Page, error: PartialsTooLarge) -> None:
        """Who has asked may leave it at that, and the source waits for the arrival."""
        self.learn(page, error.arrival)
        self.measure(page)

    def sample(self, page: Page, rows: int) -> pa.Table:
        """Run: at most so many of its rows, with the hidden columns."""
        return self.did(page, self.backend.collect(self.known(page), limit=rows))

    def payload(self, page: Page, about: int | None = None) -> MaterializedRows:
        """Run: the rows for a sink; `about` is how many to expect, if known."""
        return self.did(page, self.backend.payload(self.known(page), about))

    def recipe(self, page: Page) -> Recipe | None:
        """Run: the same without making the rows; None if they could not be made again."""
        return self.did(page, self.backend.repeatable(self.known(page)))

    def count(self, page: Page, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Run: how many rows have a time at or below a heartbeat, or below that of their own source."""
        return self.did(page, self.backend.count(self.known(page), heartbeat, by_source))

    def late(self, page: Page, times: LateTimes) -> Page | None:
        """Run: the late rows; None if there are none."""
        return self.did(page, self.backend.late(self.known(page), times))

    def measure(self, page: Page) -> Arrival:
        """Run, if nothing has: the arrival statistics."""
        arrival = self.arrival(page)
        if arrival is None:
            self.did(page, self.backend.measure(page))
            arrival = self.arrival(page)
        assert arrival is not None
        return arrival

    def materialize(self, page: Page) -> Page:
        """Run the steps, if there are any: so the rows take only the room of what is left."""
        return self.did(page, self.backend.materialize(self.known(page))) if page.steps else page

    def write(self, page: Page) -> Page:
        """Run, and make the rows durable."""
        return self.did(page, self.backend.write(self.known(page)))

    def merge(self, page: Page, following: Page) -> Page | None:
        """Two pages of a stream as one, of which nothing is known; None if they do not fit."""
        merged = self.backend.merge([self.known(page), self.known(following)])
        if merged is not None:
            self._shared.pop(merged.origin, None)
        return merged

    def results(
        self, label: str, number: int, payload: Payload, node: AggregateNode, at: int, prod: Prod | None = None
    ) -> Page:
        """A page of window results, the one of this number from an operator."""
        return self.backend.results(Origin(label, number), payload, node, at, prod)
