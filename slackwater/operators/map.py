"""Map: a Python function on the rows of each page, the Expensive operator of S5 section 4.3.2.

Pages wait on its arc until it is picked; prods overtake them. With a sideline (S5 section 6.2), the pages that lie
wholly in prodded windows are set aside and worked off at low priority. It holds time back for these windows only:
what no sidelined page can touch is passed on by range punctuations.
Over results nothing is overtaken or set aside: early ones belong to the prod behind them, and no answer may wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from slackwater.errors import RunError
from slackwater.operators.element import Prod, Punctuation
from slackwater.operators.operator import Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.plan.nodes import MapNode, inner_query
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK
from slackwater.windows.sideline import Sideline
from slackwater.windows.spec import WindowSpec


class Map(Unary):
    """Works on one page a run; its shelf is the sideline."""

    shelves: ClassVar[int] = 1

    def __init__(
        self, label: str, node: MapNode, spec: WindowSpec | None = None, sideline: Sideline | None = None
    ) -> None:
        super().__init__(label)
        self._node = node
        self._over_results = inner_query(node) is not None
        self._spec = spec
        self._sideline = sideline if spec is not None else None
        self._prodded: list[tuple[int, int]] = []
        """Windows that end in one of these, (after, until], have been prodded: in order, apart."""
        self._passed = Punctuation(Heartbeat.NONE)
        """The last punctuation that came."""
        self._said = MIN_TICK
        self._said_ranges: list[tuple[int, int]] = []
        self._turn = 0
        """Rows worked on since a sidelined page had its turn."""
        self._pages = self._sidelined = self._aside = 0

    def more(self, inputs: Sequence[Input]) -> bool:
        """Whether something waits on the arc."""
        return len(inputs[0]) > 0

    def spare(self, inputs: Sequence[Input]) -> bool:
        """Sidelined pages can wait for a lull."""
        return len(inputs[1]) > 0

    def expensive(self, inputs: Sequence[Input]) -> bool:
        """Work on a page is; what only passes is not."""
        arc = inputs[0]
        return not self._over_results and not arc.prods and (not len(arc) or isinstance(arc.peek(), Page))

    def starving(self, inputs: Sequence[Input]) -> list[int]:
        """The sideline starves nobody."""
        return [] if len(inputs[0]) else [0]

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Pass a prod, or a punctuation, or set a page aside, or work on one."""
        arc, shelf = inputs
        if self._over_results:
            super().run(inputs, emit)
        elif (prod := arc.pop_prod()) is not None:
            self._note(prod)
            emit(prod)
        elif not len(arc):
            self._work_aside(shelf, emit)
        elif isinstance(arc.peek(), Punctuation):
            punctuation = arc.pop()
            assert isinstance(punctuation, Punctuation)
            self._pass(punctuation, shelf, emit)
        elif self._due(shelf):
            self._work_aside(shelf, emit)
        elif self._may_wait(arc.peek()):
            self._sidelined += 1
            arc.move(shelf)
            self._aside = len(shelf)
        else:
            self._turn += self._work(arc, emit)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send on what the function makes of a page."""
        self._pages += 1
        try:
            mapped = page.map(self._node)
        except Exception as error:
            raise RunError(f"map({self._node.name}) failed on page {page.number}: {error}") from error
        emit(mapped)

    def _work(self, waiting: Input, emit: Emit, at: int = 0) -> int:
        """Work on a page, and say how many rows it had."""
        page = waiting.pop(at)
        assert isinstance(page, Page)
        self.on_page(page, emit)
        return page.rows or 0

    def _due(self, shelf: Input) -> bool:
        """Whether the next sidelined page would be no more than its share of the rows."""
        if self._sideline is None or not len(shelf):
            return False
        _, rows = self._next_aside(shelf)
        return self._turn >= (self._sideline.ratio - 1) * rows

    def _work_aside(self, shelf: Input, emit: Emit) -> None:
        self._turn = 0
        self._work(shelf, emit, self._next_aside(shelf)[0])
        self._aside = len(shelf)
        self._tell(shelf, emit)

    def _next_aside(self, shelf: Input) -> tuple[int, int]:
        """Place and rows of the page whose last window lacks the fewest rows.

        What is nearly whole does not wait for a burst.
        """
        assert self._spec is not None
        lacking: dict[int, int] = {}
        pages: list[tuple[int, int]] = []
        for page in shelf.elements():
            span = _span(page)
            assert isinstance(page, Page) and span is not None
            rows = page.measure().rows
            window = self._spec.last_window(self._spec.pane_of(span[1]))
            lacking[window] = lacking.get(window, 0) + rows
            pages.append((window, rows))
        place = min(range(len(pages)), key=lambda n: lacking[pages[n][0]])
        return place, pages[place][1]

    # --- which pages are set aside

    def _note(self, prod: Prod) -> None:
        """Remember the windows of a prod; one for all open windows, or for some groups, names no burst."""
        if self._sideline is None or prod.until is None or prod.where is not None:
            return
        intervals: list[tuple[int, int]] = []
        for after, until in sorted([*self._prodded, (MIN_TICK if prod.after is None else prod.after, prod.until)]):
            if intervals and after <= intervals[-1][1]:
                intervals[-1] = (intervals[-1][0], max(intervals[-1][1], until))
            else:
                intervals.append((after, until))
        self._prodded = intervals

    def _may_wait(self, page: Any) -> bool:
        """Whether all windows that a page's rows belong to have been prodded."""
        if not self._prodded:
            return False
        span = _span(page)
        if span is None:
            return False
        assert self._spec is not None
        first = self._spec.bounds(self._spec.first_window(self._spec.pane_of(span[0])))[1]
        last = self._spec.bounds(self._spec.last_window(self._spec.pane_of(span[1])))[1]
        return any(after < first and last <= until for after, until in self._prodded)

    # --- time

    def _pass(self, punctuation: Punctuation, shelf: Input, emit: Emit) -> None:
        """Send time on; while pages are set aside, only what they cannot touch."""
        if punctuation.after is None:
            self._passed = Punctuation(punctuation.heartbeat)  # behind a map nothing is known of sources
            self._tell(shelf, emit)
        elif not len(shelf):
            emit(punctuation)  # of a map before this one; else its windows close when all is worked off

    def _tell(self, shelf: Input, emit: Emit) -> None:
        spans = _joined([span for page in shelf.elements() if (span := _span(page)) is not None])
        tick = self._passed.heartbeat.tick
        if not spans:
            if tick > MIN_TICK:
                emit(self._passed)
            self._said, self._said_ranges = max(self._said, tick), []
            return
        bound = min(tick, spans[0][0] - 1)
        if bound > self._said:
            self._said = bound
            emit(Punctuation(Heartbeat(bound)))
        ends = [low - 1 for low, _ in spans[1:]] + [tick]
        ranges = [
            (high, min(end, tick)) for (_, high), end in zip(spans, ends, strict=True) if high < min(end, tick)
        ]
        for after, until in ranges:
            if (after, until) not in self._said_ranges:
                emit(Punctuation(Heartbeat(until), None, after))
        self._said_ranges = ranges

    # --- the journal

    def state(self, whole: bool) -> State:
        """What was prodded and what time was told; sidelined pages are journaled as those on arcs."""
        return State(
            {
                "prodded": [list(i) for i in self._prodded],
                "passed": self._passed.heartbeat.tick,
                "said": self._said,
                "turn": self._turn,
                "counts": [self._pages, self._sidelined, self._aside],
            }
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        values = states[-1].values
        self._prodded = [(after, until) for after, until in values["prodded"]]
        self._passed = Punctuation(Heartbeat(values["passed"]))
        self._said, self._turn = values["said"], values["turn"]
        self._pages, self._sidelined, self._aside = values["counts"]

    def metrics(self) -> dict[str, Any]:
        """Pages worked on, pages that were ever set aside, and those that are now."""
        return {"mapped_pages": self._pages, "sidelined_pages": self._sidelined, "sideline": self._aside}


def _span(page: Any) -> tuple[int, int] | None:
    """Lowest and highest time of a page; a cheap job if nothing has run on it yet."""
    assert isinstance(page, Page)
    arrival = page.measure()
    return None if arrival.lowest is None or arrival.highest is None else (arrival.lowest, arrival.highest)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined
