"""S3's union (Figures 5 and 6): tuples of several inputs in the order of their timestamps.

The engine's own union passes pages at once and holds back only time. This one holds back tuples, as in the paper.
It keeps a Time-Stamp Memory register for each input: the timestamp of the element that is there, or was there last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypedDict

from slackwater.operators.element import Element
from slackwater.operators.operator import Emit, Input, Operator, State
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK


class OrderedUnionValues(TypedDict):
    """What a journal keeps of it."""

    registers: list[int]


def timestamp(element: Element, pages: Pages) -> int:
    """The lowest time that this element and all behind it on its arc can have."""
    assert not isinstance(element, Prod)
    if isinstance(element, Punctuation):
        return element.heartbeat.tick + 1
    arrival = pages.measure(element)
    assert arrival.lowest is not None
    return arrival.lowest


def _has_tuple(waiting: Input) -> bool:
    return any(not isinstance(element, Punctuation) for element in waiting.elements())


class OrderedUnion(Operator):
    """Merges inputs that are sorted page by page. It holds time back for as long as one input is behind.

    Simultaneous tuples never wait for each other: whichever input has one with the least register value goes on.
    """

    ordered: ClassVar[bool] = True

    def __init__(self, label: str, inputs: int = 2) -> None:
        super().__init__(label)
        self._registers = [MIN_TICK] * inputs

    def has_work(self, inputs: Sequence[Input]) -> bool:
        """Figure 5: some input holds an element with the smallest register value."""
        return self._next(inputs) is not None

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Figure 6: deliver that element, then remove it from the input."""
        chosen = self._next(inputs)
        assert chosen is not None
        emit(inputs[chosen].pop())

    def _next(self, inputs: Sequence[Input]) -> int | None:
        for n, waiting in enumerate(inputs):
            if len(waiting):
                self._registers[n] = timestamp(waiting.peek(), self.pages)
        least = min(self._registers)
        return next((n for n, i in enumerate(inputs) if len(i) and self._registers[n] == least), None)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """A tuple waits here that may not go on: the operator is idle-waiting.

        Nobody is asked for the sake of a punctuation: the answer would be the next one to wait, and so on for ever.
        """
        return any(map(_has_tuple, inputs)) and not self.has_work(inputs)

    def wanted(self, tick: int) -> int | None:
        """An input that is behind must come to the least timestamp that waits: then that tuple may go on."""
        behind = min(self._registers)
        waiting = min((register for register in self._registers if register > behind), default=None)
        return None if waiting is None or waiting - 1 <= tick else waiting - 1

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The empty inputs that are furthest behind."""
        least = min(self._registers)
        return [n for n, i in enumerate(inputs) if not len(i) and self._registers[n] == least]

    def state(self, whole: bool) -> State:
        """The registers."""
        return State(OrderedUnionValues(registers=self._registers))

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        self._registers = list(states[-1].read(OrderedUnionValues)["registers"])
