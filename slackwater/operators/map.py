"""The Expensive operator of S5 section 4.3.2: a Python function, or with a sideline any other step, page by page.

Pages wait on its arc until it is picked; prods overtake them. With a sideline (S5 section 6.2), the pages that lie
wholly in prodded windows are set aside and worked off at low priority. It holds time back for these windows only:
what no sidelined page can touch is passed on by range punctuations.
Over results nothing is overtaken or set aside: early ones belong to the prod behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypedDict

from slackwater.errors import RunError
from slackwater.figures import Figures
from slackwater.operators.element import page_of
from slackwater.operators.operator import Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.sidelined_pages import SidelinedPages
from slackwater.plan.map_node import MapNode
from slackwater.plan.nodes import StepNode
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.windows.prodded_windows import ProddedValues, ProddedWindows
from slackwater.windows.sideline import Sideline
from slackwater.windows.spec import WindowSpec


class MapValues(TypedDict):
    """The journaled values."""

    prodded: ProddedValues | None
    turn: int
    counts: tuple[int, int, int]


class MapPages(Unary):
    """Works on one page a run; its shelf is the sideline."""

    shelves: ClassVar[int] = 1
    divisible: ClassVar[bool] = True

    def __init__(
        self,
        label: str,
        node: MapNode | StepNode,
        specs: Sequence[WindowSpec] = (),
        sideline: Sideline | None = None,
    ) -> None:
        super().__init__(label)
        self._node = node
        self._in_order = node.passes_early_rows
        """Whether early rows come to it: these must stay before their prod."""
        self._sideline = sideline
        self._prodded = ProddedWindows(specs) if specs and not self._in_order else None
        self._sidelined_pages = SidelinedPages()
        self._turn = 0
        """Rows worked on since a sidelined page had its turn."""
        self._pages = self._sidelined = self._aside = 0

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Whether something waits on the arc."""
        return len(inputs[0]) > 0

    def has_idle_work(self, inputs: Sequence[Input]) -> bool:
        """Sidelined pages can wait for a lull."""
        return len(inputs[1]) > 0

    def expensive(self, inputs: Sequence[Input]) -> bool:
        """Work on a page is; what only passes or is set aside is not."""
        arc, shelf = inputs
        if self._in_order or arc.prods:
            return False
        return not len(arc) or not (isinstance(arc.peek(), Punctuation) or self._may_wait(arc, shelf))

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Pass a prod, or a punctuation, or set a page aside, or work on one."""
        arc, shelf = inputs
        self._shelved(shelf)
        if self._in_order:
            super().run(inputs, emit)
        elif arc.prods and (prod := arc.pop_prod()) is not None:
            self._note(prod, len(arc) - arc.prods)
            emit(prod)
        elif not len(arc):
            self._work_aside(shelf, emit)
        elif isinstance(arc.peek(), Punctuation):
            arc.pop()
            self._took(None)
        elif self._may_wait(arc, shelf):
            self._set_aside(arc, shelf)
        elif self._due(shelf):
            self._work_aside(shelf, emit)
        else:
            self._work(page_of(arc.pop()), emit)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send on what the function makes of a page."""
        self._pages += 1
        try:
            mapped = self.pages.materialize(page.with_step(self._node.step))
        except Exception as error:
            raise RunError(f"{self._node.step.title} failed on page {page.number}: {error}") from error
        emit(mapped)

    def _work(self, page: Page, emit: Emit) -> None:
        self.on_page(page, emit)
        self._turn += self.pages.rows(page) or 0
        self._took(self.pages.measure(page).highest)  # known by now

    # --- the sideline

    def _note(self, prod: Prod, waiting: int) -> None:
        """Remember the windows of a prod; one for all open windows, or for some groups, names no burst."""
        if (
            self._sideline is not None
            and self._prodded is not None
            and prod.until is not None
            and prod.where is None
        ):
            self._prodded.note(prod.after, prod.until, waiting)

    def _took(self, highest: int | None) -> None:
        if self._prodded is not None:
            self._prodded.took(highest)

    def _may_wait(self, arc: Input, shelf: Input) -> bool:
        """Whether all windows that the next page's rows belong to have been prodded, and it is that page's turn.

        It takes a cheap job to know if nothing has run on the page yet.
        """
        if self._sideline is None or not self._prodded or self._due(shelf):
            return False
        arrival = self.pages.measure(page_of(arc.peek()))
        if arrival.lowest is None or arrival.highest is None:
            return False
        return self._prodded.covers(arrival.lowest, arrival.highest)

    def _set_aside(self, arc: Input, shelf: Input) -> None:
        page = page_of(arc.peek())
        self._put(self._shelved(shelf), page)
        self._took(self.pages.measure(page).highest)
        arc.move(shelf)
        self._sidelined += 1
        self._aside = len(shelf)

    def _shelved(self, shelf: Input) -> SidelinedPages:
        """What is known of the pages that are set aside; after a restart they are looked at again."""
        if len(self._sidelined_pages) != len(shelf):
            self._sidelined_pages = SidelinedPages()
            for page in shelf.elements():
                self._put(self._sidelined_pages, page_of(page))
        return self._sidelined_pages

    def _put(self, shelf: SidelinedPages, page: Page) -> None:
        arrival = self.pages.measure(page)
        low, high = arrival.lowest, arrival.highest
        assert self._prodded is not None and low is not None and high is not None
        shelf.put(low, high, arrival.rows, self._prodded.ends(low, high)[1])

    def _due(self, shelf: Input) -> bool:
        """Whether the next sidelined page would be no more than its share of the rows."""
        if self._sideline is None or not len(shelf):
            return False
        return self._turn >= (self._sideline.ratio - 1) * self._shelved(shelf).next_rows()

    def _work_aside(self, shelf: Input, emit: Emit) -> None:
        self.on_page(page_of(shelf.pop(self._shelved(shelf).take())), emit)
        self._turn, self._aside = 0, len(shelf)

    # --- time

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """While pages are set aside, only the time passes that they cannot touch; nothing of sources then."""
        (time,) = times
        if not len(self._sidelined_pages):
            return time
        (_, bound), *ranges = self._sidelined_pages.gaps(time.heartbeat.tick)
        return Punctuation(
            Heartbeat(bound), None, tuple((after, until) for after, until in ranges if after is not None)
        )

    # --- the journal

    def state(self, whole: bool) -> State:
        """What was prodded; sidelined pages are journaled as those on arcs."""
        return State(
            MapValues(
                prodded=None if self._prodded is None else self._prodded.state(),
                turn=self._turn,
                counts=(self._pages, self._sidelined, self._aside),
            )
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        values = states[-1].read(MapValues)
        if self._prodded is not None and values["prodded"] is not None:
            self._prodded.restore(values["prodded"])
        self._turn = values["turn"]
        self._pages, self._sidelined, self._aside = values["counts"]

    def metrics(self) -> Figures:
        """Pages worked on, pages that were ever set aside, and those that are now."""
        return {"mapped_pages": self._pages, "sidelined_pages": self._sidelined, "sideline": self._aside}
