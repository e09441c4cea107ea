"""Pages: how operators work on pages. It knows what the pages of one arrival share, and forgets it in time.

The executor has one, and only its thread uses it. What is known of an arrival lies here under the page's origin, so
a page stays a value. Whoever keeps a page beyond its own run holds it; when nobody holds a page of a location, or
of an origin, any more, what belongs to that is let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import pyarrow as pa

from slackwater.events import decision
from slackwater.operators.backend import Backend, Done, Folded, LateTimes, PartialsTooLarge
from slackwater.operators.page import Location, Origin, Page
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.step import Step
from slackwater.plan.steps import Credible, Stamp
from slackwater.progress.ahead import AheadGuard
from slackwater.progress.arrival import Arrival
from slackwater.progress.log_ends import Log
from slackwater.progress.source_numbers import Floats
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel

if TYPE_CHECKING:
    from slackwater.operators.stores import Stores

T = TypeVar("T")


@dataclass
class _ArrivalState:
    """The state that the pages of one arrival share."""

    arrival: Arrival | None = None
    judged: bool = False
    """Whether the guard against times far ahead has seen the arrival."""
    credible: Credible | None = None
    """What takes away the times that are too far ahead, where there are some."""
    unguarded: Arrival | None = None
    """The arrival with these times."""
    folded: dict[tuple[object, Location, tuple[Step, ...]], dict[PaneKernel, Folded]] = field(default_factory=dict)
    """Their partials, for windows that share the work: by kernel and steps."""


class Pages:
    """The back end's verbs, with what is known of arrivals."""

    def __init__(self, backend: Backend | None = None, stores: Callable[[Pages], Stores] | None = None) -> None:
        """`stores` makes what keeps the rows of operators. Without a back end nothing can run."""
        self._backend = backend
        self._stores = None if stores is None else stores(self)
        self._shared: dict[Origin, _ArrivalState] = {}
        self.guards: dict[str, AheadGuard] = {}
        """What judges times far ahead, by the label of a source."""
        self.logs: dict[str, Log] = {}
        """The logs that sources are read from and that can be asked for their ends, by the label of a source."""
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
        if shared is None or (shared.arrival is None and shared.credible is None):
            return page.arrival
        if shared.arrival is None:
            return None
        stamp = next((step.at for step in page.steps if isinstance(step, Stamp)), None)
        return shared.arrival if stamp is None else shared.arrival.stamped(stamp)

    def known(self, page: Page) -> Page:
        """The page with what is known of its arrival; without times that are too far ahead."""
        arrival, shared = self.arrival(page), self._shared.get(page.origin)
        if shared is not None and shared.credible is not None and shared.credible not in page.steps:
            return replace(page, arrival=arrival, steps=(shared.credible, *page.steps))
        return page if arrival is page.arrival else replace(page, arrival=arrival)

    def attempts(self, page: Page) -> Iterator[Page]:
        """The page for a job, and once more where the first one shows times that are too far ahead.

        That is rare; so a job need not know the limit, which changes from page to page.
        """
        self._judge(page)
        yield self.known(page)
        if self._judge(page):
            yield self.known(page)

    def _judge(self, page: Page) -> bool:
        """Whether times of the page are too far ahead, if its arrival is known, and was not yet judged."""
        guard, arrival = self.guards.get(page.origin.stream), self.arrival(page)
        if guard is None or arrival is None:
            return False
        shared = self._shared.setdefault(page.origin, _ArrivalState())
        if shared.judged:
            return False
        shared.judged, limit = True, guard.limit(arrival, lambda: self._spread(page))
        if limit is None:
            guard.note(arrival)
            return False
        shared.credible, shared.unguarded, shared.arrival = Credible(limit), arrival, None
        return True

    def _spread(self, page: Page) -> Floats:
        """Run: some times of the page, which stand for equal shares of its rows."""
        done = self.backend.measure(replace(page, arrival=None, needs=page.needs | {"sketch"}))
        assert done.arrival is not None
        return done.arrival.spread()

    def rows(self, page: Page) -> int | None:
        """How many rows the page had on arrival, or has left where somebody has counted them."""
        arrival = self.arrival(page) if page.count is None else None
        rows = page.count if arrival is None else arrival.rows
        return rows if rows is None else round(rows * page.share)

    def learn(self, page: Page, arrival: Arrival | None) -> None:
        """A job on a page has brought the statistics of its arrival along."""
        if arrival is None:
            return
        shared = self._shared.setdefault(page.origin, _ArrivalState())
        if shared.unguarded is not None:
            ahead, shared.unguarded = arrival.missing - shared.unguarded.missing, None
            arrival = replace(arrival, ahead=ahead)
            decision(
                "source.far_ahead", page=page.number, rows=ahead, beyond=shared.credible and shared.credible.limit
            )
            self.guards[page.origin.stream].note(arrival)
        shared.arrival = arrival

    def folded(
        self, page: Page, by: object, fold: Callable[[], dict[PaneKernel, Folded]]
    ) -> dict[PaneKernel, Folded]:
        """What a page came down to, for windows that share the work: the first that asks has it folded."""
        shared, key = self._shared.setdefault(page.origin, _ArrivalState()), (by, page.location, page.steps)
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

    def _run(self, page: Page, verb: Callable[[Page], Done[T]]) -> T:
        """What a verb gives; what it has learnt is noted."""
        for known in self.attempts(page):
            done = verb(known)
            self.learn(page, done.arrival)
        return done.value

    def fold(self, page: Page, kernel: PaneKernel) -> Folded:
        """Run: the page's partials. Raises PartialsTooLarge."""
        return self.fold_all(page, [kernel])[kernel]

    def fold_all(self, page: Page, kernels: Sequence[PaneKernel]) -> Mapping[PaneKernel, Folded]:
        """Run: the same for several kernels, but for those that are better folded each by itself."""
        try:
            return self._run(page, lambda known: self.backend.fold(known, kernels))
        except PartialsTooLarge as error:
            self._learn_at_least(page, error)
            raise

    def table_of(self, page: Page, columns: Mapping[str, str] | None = None) -> pa.Table:
        """Run: all rows, those without a time too: these columns, by name and SQL, or all with the hidden ones.

        Raises PartialsTooLarge.
        """
        try:
            return self._run(page, lambda known: self.backend.collect(known, columns))
        except PartialsTooLarge as error:
            self._learn_at_least(page, error)
            raise

    def rows_of(self, page: Page, kernel: RollingKernel) -> pl.DataFrame:
        """Run: the time, groups and arguments of each row, in order; also of rows without a time.

        Raises PartialsTooLarge.
        """
        return frame_of(self.table_of(page, kernel.row_sql()))

    def _learn_at_least(self, page: Page, error: PartialsTooLarge) -> None:
        """Who has asked may leave it at that, and the source waits for the arrival."""
        self.learn(page, error.arrival)
        self.measure(page)

    def sample(self, page: Page, rows: int) -> pa.Table:
        """Run: at most this many of its rows, with the hidden columns."""
        return self._run(page, lambda known: self.backend.collect(known, limit=rows))

    def payload(self, page: Page, about: int | None = None) -> MaterializedRows:
        """Run: the rows for a sink; `about` is how many to expect, if known."""
        return self._run(page, lambda known: self.backend.payload(known, about))

    def recipe(self, page: Page) -> Recipe | None:
        """Run: the same without making the rows; None if they could not be made again."""
        return self._run(page, self.backend.repeatable)

    def count(self, page: Page, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Run: how many rows have a time at or below a heartbeat, or below that of their own source."""
        return self._run(page, lambda known: self.backend.count(known, heartbeat, by_source))

    def late(self, page: Page, times: LateTimes) -> Page | None:
        """Run: the late rows; None if there are none."""
        return self._run(page, lambda known: self.backend.late(known, times))

    def measure(self, page: Page) -> Arrival:
        """Run, if nothing has: the arrival statistics."""
        self._judge(page)
        if self.arrival(page) is None:
            self._run(page, self.backend.measure)
        arrival = self.arrival(page)
        assert arrival is not None
        return arrival

    def materialize(self, page: Page) -> Page:
        """Run the steps, if there are any: so the rows take only the room of what is left."""
        return self._run(page, self.backend.materialize) if page.steps else page

    def write(self, page: Page) -> Page:
        """Run, and make the rows durable."""
        return self._run(page, self.backend.write)

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
