"""An operator of several inputs that asks for order (S3 section 4.1), with a virtual cost and a growth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import polars as pl

from slackwater.operators.element import Element
from slackwater.operators.operator import Emit, Input, Operator, State
from slackwater.operators.payload import Payload, Staged
from slackwater.progress.clock import ManualClock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK
from slackwater.testing.arrow_page import ArrowPage


def stamp(element: Any) -> int:
    """The lowest time that this element and all behind it on its arc can have."""
    if isinstance(element, Punctuation):
        return element.heartbeat.tick + 1
    lowest = element.measure().lowest
    assert isinstance(lowest, int)
    return lowest


def rows_of(payload: Payload) -> pl.DataFrame:
    """The rows of a page in this process."""
    assert not isinstance(payload, Staged)
    return pl.DataFrame(payload)


class InOrder(Operator):
    """Merges streams that are sorted page by page. It holds time back for as long as one input is behind.

    A row comes out `growth` times, or of 1 / `growth` rows the first. Each that is taken costs so many ticks of the
    clock.
    """

    ordered: ClassVar[bool] = True

    def __init__(
        self, label: str, inputs: int = 2, growth: float = 1, clock: ManualClock | None = None, cost: int = 0
    ) -> None:
        super().__init__(label)
        self._registers = [MIN_TICK] * inputs
        self._growth = growth
        self._clock = clock
        self._cost = cost

    def more(self, inputs: Sequence[Input]) -> bool:
        """Figure 5 of S3: some input holds an element with the smallest register value."""
        return self._next(inputs) is not None

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Figure 6 of S3: remove that element from the input, and deliver it or what becomes of it."""
        chosen = self._next(inputs)
        assert chosen is not None
        emit(self._made(inputs[chosen].pop()))

    def _made(self, element: Element) -> Element:
        if isinstance(element, ArrowPage) and self._clock is not None:
            self._clock.advance(self._cost * element.measure().rows)
        if not isinstance(element, ArrowPage) or self._growth == 1:
            return element
        rows, copies = rows_of(element.payload()), round(self._growth)
        grown = pl.concat([rows] * copies) if copies else rows.gather_every(round(1 / self._growth))
        page = ArrowPage(grown, element.number, element.measure().at, "t")
        page.measure()
        return page

    def _next(self, inputs: Sequence[Input]) -> int | None:
        for n, waiting in enumerate(inputs):
            if len(waiting):
                self._registers[n] = stamp(waiting.peek())
        least = min(self._registers)
        return next((n for n, i in enumerate(inputs) if len(i) and self._registers[n] == least), None)

    def holds(self, inputs: Sequence[Input]) -> bool:
        """Something waits here that may not go on."""
        return any(map(len, inputs)) and not self.more(inputs)

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The empty inputs that are furthest behind."""
        least = min(self._registers)
        return [n for n, i in enumerate(inputs) if not len(i) and self._registers[n] == least]

    def state(self, whole: bool) -> State:
        """The registers."""
        return State({"registers": self._registers})

    def restore(self, states: Sequence[State]) -> None:
        """Continue from them."""
        self._registers = list(states[-1].values["registers"])
