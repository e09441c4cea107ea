"""An operator of several inputs takes an element of each in turn. A prod goes on when it has come by all.

Early pages wait on their arcs until then, and are taken together with the prod: so they are journaled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slackwater.operators.backend import LateTimes
from slackwater.operators.element import is_early, of_prod, page_of
from slackwater.operators.operator import LATE, Emit, Input, Operator, Wanted
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.plan.step import Columns
from slackwater.plan.steps import Select
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK


class Several(Operator):
    """Behind a prod an input waits.

    What comes after it must not reach an aggregate before the prod does, which would take early rows of one window
    and final rows of another for rows of the same answer.
    """

    def __init__(self, label: str, late: Sequence[Columns] | None = None) -> None:
        """`late` is the columns of a late row, by side; None if nobody takes these rows."""
        super().__init__(label)
        self._late_columns = late
        self._turn = 0

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Whether an element may go on."""
        return self._next(inputs) is not None or _prodded(inputs)

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take a page or a punctuation of the next input; or pass a prod that has come by all."""
        chosen = self._next(inputs)
        if chosen is None:
            times = [waiting.time for waiting in inputs]
            early = [(side, page) for side, waiting in enumerate(inputs) for page in _early_pages(waiting)]
            self.on_prod(_one_of([waiting.pop() for waiting in inputs]), early, times, emit)
            return
        self._turn = chosen + 1
        element = inputs[chosen].pop()
        if isinstance(element, Punctuation):
            _go_on_without_idle(inputs)
            self.on_punctuation([waiting.time for waiting in inputs], emit)
        else:
            assert not isinstance(element, Prod)
            self.on_page(chosen, element, [waiting.time for waiting in inputs], emit)

    @abstractmethod
    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """Rows have come by an input; time has come so far on each."""

    def on_prod(
        self, prod: Prod, early: Sequence[tuple[int, Page]], times: Sequence[Punctuation], emit: Emit
    ) -> None:
        """A prod has come by all inputs, and with it early pages, each by one of them."""
        for side, page in early:
            self.on_page(side, page, times, emit)
        emit(prod)

    def on_punctuation(self, times: Sequence[Punctuation], emit: Emit) -> None:
        """Time has come so far on each input; `output` says how far that is on the other side."""

    def send_late(self, side: int, page: Page, past: int, late: int, emit: Emit) -> None:
        """Give the rows of a page up to a time, and those without one, to whoever takes late rows."""
        if self._late_columns is None:
            return
        arrival = self.pages.arrival(page)
        if not late and (arrival is None or not arrival.missing):
            return
        rows = self.pages.late(page, LateTimes(min(past + 1, MAX_TICK)))
        if rows is not None:  # a filter may have dropped those without a time
            emit(rows.with_step(Select(self._late_columns[side])), LATE)

    def _next(self, inputs: Sequence[Input]) -> int | None:
        """The next input in turn that has something else than a prod, or what belongs to one."""
        places = ((self._turn + n) % len(inputs) for n in range(len(inputs)))
        return next((n for n in places if len(inputs[n]) and not of_prod(inputs[n].peek())), None)


def _go_on_without_idle(inputs: Sequence[Input]) -> None:
    """Idle inputs go on with the others (S1 section 3.4).

    Their registers move. So what comes back counts from there: no heartbeat goes back, a row above it is in time.
    """
    if any(waiting.time.idle for waiting in inputs):
        common = Punctuation.common([waiting.time for waiting in inputs])
        for waiting in inputs:
            if waiting.time.idle:
                waiting.lift(common)


def _prodded(inputs: Sequence[Input]) -> bool:
    firsts = (next((e for e in waiting.elements() if not is_early(e)), None) for waiting in inputs)
    return all(isinstance(first, Prod) for first in firsts)


def _early_pages(waiting: Input) -> Iterator[Page]:
    while is_early(waiting.peek()):
        yield page_of(waiting.pop())


def _one_of(prods: Sequence[object]) -> Prod:
    """One prod for all; void if one of them is."""
    found = [prod for prod in prods if isinstance(prod, Prod)]
    return replace(found[0], void=any(prod.void for prod in found))


def emit_early(page: Page | None, prod: Prod, emit: Emit) -> None:
    """Send rows on, if there are any, that count for a prod only."""
    if page is not None:
        emit(replace(page, prod=prod))


def moved(tick: int, by: int) -> int:
    """A heartbeat moved by some ticks; the first and the last one stay where they are."""
    if tick in (MIN_TICK, MAX_TICK):
        return tick
    return min(max(tick + by, MIN_TICK), MAX_TICK - 1)


def behind(wanted: Wanted, by: int) -> Wanted:
    """What to ask of inputs whose time must be some ticks ahead of what is wanted of the output."""

    def asked(tick: int) -> int | None:
        found = wanted(moved(tick, -by))
        return None if found is None else moved(found, by)

    return asked
