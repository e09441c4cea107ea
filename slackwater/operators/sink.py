"""The sink: the end of a plan. It stages answers; the executor writes them between two halves of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from slackwater.operators.element import Answer, Payload, Prod, Punctuation, payload_rows
from slackwater.operators.operator import Emit, State, Unary
from slackwater.operators.page import Page


class Output(Protocol):
    """Where rows go. The same commit id may come again after a crash, with the same rows: write it once."""

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Make the rows of one commit visible; what comes back is feedback for the query (S5 section 3.2)."""
        ...


class Sink(Unary):
    """Numbers the commits of one output and removes punctuations."""

    takes_answers = True

    def __init__(self, label: str, output: Output) -> None:
        super().__init__(label)
        self.output = output
        self._staged: list[Answer] = []
        self._next = 0
        self._rows = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Rows reach a sink as answers only."""
        raise TypeError(f"{self.label}: a page reached the sink; end the query with an aggregate")

    def on_answer(self, answer: Answer, emit: Emit) -> None:
        """Stage rows for the next commit."""
        self._staged.append(answer)

    def on_punctuation(self, punctuation: Punctuation, emit: Emit) -> None:
        """Time is of no interest outside."""

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """What it asked for has come before it."""

    def take(self) -> list[tuple[int, Answer]]:
        """The staged answers with their commit ids."""
        staged, self._staged = self._staged, []
        taken = []
        for answer in staged:
            taken.append((self._next, answer))
            self._next += 1
            self._rows += payload_rows(answer.payload)
        return taken

    def state(self, whole: bool) -> State:
        """The next commit id; asked for after `take`."""
        return State({"next": self._next, "rows": self._rows})

    def restore(self, states: Sequence[State]) -> None:
        """Continue the numbering."""
        self._next, self._rows = states[-1].values["next"], states[-1].values["rows"]

    def metrics(self) -> dict[str, Any]:
        """Rows and commits so far."""
        return {"rows": self._rows, "commits": self._next}
