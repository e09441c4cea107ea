"""Admission: a page is let in, waits as long as the strategy likes, and is acknowledged once it is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slackwater.engine.graph import Graph
from slackwater.engine.queue import Entry
from slackwater.errors import RunError
from slackwater.operators.page import Page


class Ticket:
    """Says when an admitted page is safe, or that it will not be."""

    def __init__(self, admission: int, source: str, page: int) -> None:
        self.admission = admission
        self.source = source
        self.page = page
        """Its number."""
        self.done = False
        self.on_done: Callable[[], None] = lambda: None
        self.on_refused: Callable[[BaseException], None] = lambda error: None


class Admission:
    """Numbers what comes in, knows which pages were taken for good, and tells senders when theirs is safe."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.number = 0
        """The number of the last admission."""
        self.pages = 0
        """Pages let in."""
        self.consumed: Mapping[str, int] = {}
        """Number of the last page taken, by source. Other threads read it: it is replaced, never changed."""
        self.tickets: list[Ticket] = []

    def next(self) -> int:
        """A new number, for something that comes from outside."""
        self.number += 1
        return self.number

    def admit(self, source: str, page: Page) -> Ticket:
        """Let a page in; one that was taken before is acknowledged as soon as that one is safe."""
        ticket = Ticket(self.next(), source, page.number)
        known = self.consumed.get(source)
        if known is not None and page.number <= known:
            self._come_again(ticket)
            return ticket
        if source not in self._graph:
            raise RunError(f"no query reads {source} any more")
        node = self._graph.nodes[source]
        admitted = node.operator.prepare(page, node.clock.now())
        node.inputs[0].push(Entry(admitted, ticket.admission, source))
        self.consumed = {**self.consumed, source: page.number}
        self.pages += 1
        self.tickets.append(ticket)
        return ticket

    def _come_again(self, ticket: Ticket) -> None:
        for first in self.tickets:
            if (first.source, first.page) == (ticket.source, ticket.page):
                ticket.admission = first.admission
                self.tickets.append(ticket)
                return
        ticket.done = True

    def acknowledge(self, exposed: Iterable[int]) -> None:
        """All is safe but what comes from these admissions."""
        waiting = set(exposed)
        safe = [t for t in self.tickets if t.admission not in waiting]
        self.tickets = [t for t in self.tickets if t.admission in waiting]
        for ticket in safe:
            ticket.done = True
            ticket.on_done()

    def withdraw(self, sources: Mapping[str, int | None], error: BaseException) -> None:
        """Nobody reads these sources any more: they stand at these pages, and what came later must come again."""
        stands = {**self.consumed, **sources}
        self.consumed = {source: number for source, number in stands.items() if number is not None}
        gone = [t for t in self.tickets if t.source in sources]
        self.tickets = [t for t in self.tickets if t.source not in sources]
        for ticket in gone:
            ticket.on_refused(error)
