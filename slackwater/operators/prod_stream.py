"""A stream of prods (S5 section 3.2, figure 3.2 a): its rows ask the session's queries for answers now.

It holds no time back: nobody waits for it. Prods travel behind what waits on the arcs of the queries they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from slackwater.columns import TIME
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.operator import Emit, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.query_windows import specs_of
from slackwater.windows.kernel import Group
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec
from slackwater.windows.spec import WindowSpec

#: Columns of a prod; the time of a row stands for the first where there is none.
UNTIL, AT, WHERE, QUERY = "until", "at", "where", "query"


@dataclass(frozen=True, slots=True)
class ProdRow:
    """What a row asks for: windows that end by `until` or that contain `at`, and groups that meet `where`."""

    until: int | None = None
    at: int | None = None
    where: str | None = None

    def of(self, plan: PlanNode) -> Prod:
        """The prod for a query, which can answer it."""
        if self.at is not None:
            (spec,) = distinct_specs(plan.prodded())
            return Prod.at(self.at, spec, self.where)
        return Prod(self.until, None, self.where)


def distinct_specs(aggregates: Sequence[AggregateNode]) -> set[WindowSpec]:
    """The windows of some aggregates, each once; none where one has a window for each row."""
    return set(specs_of(tuple(aggregates)))


#: Asks the query of this name, or all (None), and says how many it fits.
Send = Callable[[str | None, ProdRow], int]


class ProdCounts(TypedDict):
    """The journaled values: how many prods came, and how many fitted no query."""

    counts: tuple[int, int]


class ProdStream(Unary):
    """Reads a page's few rows in the driver and sends their prods, equal ones once."""

    def __init__(self, label: str, columns: Mapping[str, str], send: Send) -> None:
        super().__init__(label)
        groups = tuple(Group(f"__{name}", sql) for name, sql in columns.items())
        self._reads = RollingKernel(RollingSpec(rows=1), groups, ())
        self._send = send
        self._by_time = UNTIL not in columns
        self._prods = self._refused = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Ask for what the rows say; a row that fits no query is counted."""
        try:
            rows = self.pages.rows_of(page, self._reads).to_dicts()
        except PartialsTooLarge as error:
            decision("prod.refused", operator=self.label, page=page.number, error=error)
            self._refused += 1
            return
        asked = []
        for row in rows:
            at, until = row.get(f"__{AT}"), row.get(f"__{UNTIL}")
            if self._by_time and at is None:
                until = row[TIME]
            if (self._by_time and at is None and until is None) or None not in (at, until):
                self._refused += 1
                continue
            asked.append((row.get(f"__{QUERY}"), ProdRow(until, at, row.get(f"__{WHERE}"))))
        for query, what in dict.fromkeys(asked):
            self._prods += 1
            self._refused += self._send(query, what) == 0

    def state(self, whole: bool) -> State:
        """The counts; prods under way are on the arcs."""
        return State(ProdCounts(counts=(self._prods, self._refused)))

    def restore(self, states: Sequence[State]) -> None:
        """Continue counting."""
        self._prods, self._refused = states[-1].read(ProdCounts)["counts"]

    def metrics(self) -> Figures:
        """How many prods came, and how many fitted no query."""
        return {"prods": self._prods, "refused": self._refused}
