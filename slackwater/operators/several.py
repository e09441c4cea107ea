"""An operator of several inputs takes an element of each in turn. A prod goes on when it has come by all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from slackwater.operators.operator import Emit, Input, Operator
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation


class Several(Operator):
    """Behind a prod an input waits.

    What comes after it must not reach an aggregate before the prod does, which would take early rows of one window
    and final rows of another for rows of the same answer.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._turn = 0

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Whether an element may go on."""
        return self._next(inputs) is not None or _prodded(inputs)

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take a page or a punctuation of the next input; or pass a prod that has come by all."""
        chosen = self._next(inputs)
        if chosen is None:
            emit(_one_of([waiting.pop() for waiting in inputs]))
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

    def on_punctuation(self, times: Sequence[Punctuation], emit: Emit) -> None:
        """Time has come so far on each input; `output` says how far that is on the other side."""
        return None

    def _next(self, inputs: Sequence[Input]) -> int | None:
        """The next input in turn that has something else than a prod."""
        places = ((self._turn + n) % len(inputs) for n in range(len(inputs)))
        return next((n for n in places if len(inputs[n]) and not isinstance(inputs[n].peek(), Prod)), None)


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
    return all(len(waiting) and isinstance(waiting.peek(), Prod) for waiting in inputs)


def _one_of(prods: Sequence[object]) -> Prod:
    """One prod for all; void if one of them is."""
    found = [prod for prod in prods if isinstance(prod, Prod)]
    return replace(found[0], void=any(prod.void for prod in found))
