"""The sink: the end of a plan. It takes pages; the executor writes their rows between two halves of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from slackwater.operators.operator import Emit, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, payload_rows
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation


class Output(Protocol):
    """Where rows go. The same commit id may come again after a crash, with the same rows: write it once."""

    def write(self, payload: Payload, commit_id: int) -> Prod | None:
        """Make the rows of one commit visible; what comes back is feedback for the query (S5 section 3.2)."""
        ...


class Sink(Unary):
    """Numbers the commits of one output and removes punctuations."""

    def __init__(self, label: str, output: Output) -> None:
        super().__init__(label)
        self.to = output
        self._staged: list[tuple[Payload, bool]] = []
        self._next = 0
        self._rows = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Stage its rows for the next commit; a page without rows says nothing."""
        payload = page.payload()
        if payload_rows(payload):
            self._staged.append((payload, page.prod is not None))

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """What it asked for has come before it."""

    def output(self, times: Sequence[Punctuation]) -> Punctuation | None:
        """Time is of no interest outside."""
        return None

    def take(self) -> list[tuple[int, Payload, bool]]:
        """The staged rows with their commit ids, and whether they are early."""
        staged, self._staged = self._staged, []
        taken = []
        for payload, early in staged:
            taken.append((self._next, payload, early))
            self._next += 1
            self._rows += payload_rows(payload)
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
