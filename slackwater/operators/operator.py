"""The contract between an operator and the executor (S3 section 3): `more`, `starving`, `run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from slackwater.operators.element import Answer, Element, Prod, Provisional, Punctuation
from slackwater.operators.page import Page
from slackwater.progress.report import Report

MAIN = "main"
LATE = "late"


class Input(Protocol):
    """The near end of an arc."""

    def __len__(self) -> int:
        """How many elements wait."""
        ...

    def peek(self) -> Element:
        """The element that waits longest."""
        ...

    def pop(self, at: int = 0) -> Element:
        """Take that element, or the one at some place behind it."""
        ...

    def pop_prod(self) -> Prod | None:
        """Take the first prod out of turn, if there is one."""
        ...

    def move(self, to: Any) -> None:
        """Put the element that waits longest on another input of the same operator, as it is."""
        ...

    def elements(self) -> Iterator[Element]:
        """All that waits, in order."""
        ...

    @property
    def prods(self) -> int:
        """How many prods wait."""
        ...


class Emit(Protocol):
    """The far end: puts an element on the arcs that leave by a port."""

    def __call__(self, element: Element, port: str = MAIN) -> None:
        """Send an element on."""
        ...


@dataclass
class State:
    """What a journal keeps of an operator: small values, tables, and whether earlier states are needed too."""

    values: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    whole: bool = True


class Operator(ABC):
    """A node at run time. The executor asks for `more`, calls `run`, and sends demands back where it starves."""

    #: Whether it takes answers. No journal keeps these while they wait: it and all behind it run before a commit.
    takes_answers: ClassVar[bool] = False
    shelves: ClassVar[int] = 0
    """Queues of its own, after its inputs: what it sets aside waits there, and is journaled as on an arc."""

    def __init__(self, label: str) -> None:
        self.label = label

    def more(self, inputs: Sequence[Input]) -> bool:
        """Whether `run` has something to do; an operator of several inputs may want more than one filled."""
        return any(len(i) for i in inputs)

    def spare(self, inputs: Sequence[Input]) -> bool:
        """Whether `run` has something to do that can wait for a lull: nothing is ready and no source speaks."""
        return False

    def expensive(self, inputs: Sequence[Input]) -> bool:
        """Whether the next `run` may take long: before it there is a commit, so pages are safe and answers out."""
        return False

    def starving(self, inputs: Sequence[Input]) -> list[int]:
        """The inputs that hold it up: a demand goes back along these to the sources."""
        return [n for n, i in enumerate(inputs) if not len(i)]

    @abstractmethod
    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Do one unit of work: take an element, emit what follows from it."""

    def answer(self, now: int, emit: Emit) -> None:
        """A demand has come back to here; a source that knows how far time has passed says so."""
        return None

    def report(self) -> list[Report]:
        """What the last `run` made of a page: the executor carries it back to the sources."""
        return []

    def hear(self, report: Report) -> None:
        """A report has come back to here; a source lets its policy learn from it."""
        return None

    def tick(self, now: int, emit: Emit) -> None:
        """Nothing is ready, and wall-clock time is this: an operator that watches the clock may say something."""
        return None

    def resume(self, now: int) -> None:
        """The process is back after a stop or a crash, at this instant of the wall clock."""
        return None

    def end(self, emit: Emit) -> None:
        """There will be no more input; sources say so with a last punctuation."""
        return None

    def wake_at(self) -> int | None:
        """When the clock alone could give this operator something to say."""
        return None

    def state(self, whole: bool) -> State | None:
        """What has changed since this was last asked, or all of it; None when there is nothing to keep."""
        return None

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states: a whole one, then the changes since."""
        return None

    def announce(self, page: Page) -> None:
        """A page will come; it may have to wait, and be made durable, before it is taken."""
        return None

    def settle(self) -> None:
        """All that `state` gave is durable and all that was emitted is out: what was kept for it may go."""
        return None

    def metrics(self) -> dict[str, Any]:
        """Figures for a person."""
        return {}


class Unary(Operator):
    """An operator of one input; by default everything but pages passes through unchanged (S3 section 4.2)."""

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take one element and hand it to the method for its kind."""
        element = inputs[0].pop()
        if isinstance(element, Punctuation):
            self.on_punctuation(element, emit)
        elif isinstance(element, Prod):
            self.on_prod(element, emit)
        elif isinstance(element, Answer):
            self.on_answer(element, emit)
        elif isinstance(element, Provisional):
            self.on_provisional(element, emit)
        else:
            self.on_page(element, emit)

    @abstractmethod
    def on_page(self, page: Page, emit: Emit) -> None:
        """Rows have come."""

    def on_punctuation(self, punctuation: Punctuation, emit: Emit) -> None:
        """Time has passed."""
        emit(punctuation)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """An answer is wanted now; an operator that holds nothing lets the prod pass (S5 section 3.3)."""
        emit(prod)

    def on_answer(self, answer: Answer, emit: Emit) -> None:
        """Rows for a sink have come."""
        emit(answer)

    def on_provisional(self, provisional: Provisional, emit: Emit) -> None:
        """Rows for the prod behind them have come; an operator that holds nothing treats them as any page."""

        def onward(element: Element, port: str = MAIN) -> None:
            emit(Provisional(element) if isinstance(element, Page) else element, port)

        self.on_page(provisional.page, onward)
