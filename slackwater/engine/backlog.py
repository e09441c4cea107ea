"""What waits on the arcs, in the words of a record, and the rows that were saved for it."""

from __future__ import annotations

from typing import Any, Protocol

from slackwater.engine.graph import Graph
from slackwater.engine.journal import Record
from slackwater.engine.queue import Entry
from slackwater.operators.element import Answer, Prod, Provisional, Punctuation, Staged
from slackwater.operators.page import Page


class PageStore(Protocol):
    """Finds saved pages again, and deletes those that nobody waits for."""

    def load(self, saved: dict[str, Any]) -> Page:
        """The page that `Page.save` spoke of."""
        ...

    def drop(self, saved: dict[str, Any]) -> None:
        """Its rows are needed no more."""
        ...

    def sweep(self, record: Record | None) -> None:
        """Delete what a crash has left and the last record does not speak of."""
        ...

    def drop_staged(self, payload: Staged) -> None:
        """A sink has taken these rows."""
        ...


class Backlog:
    """Keeps the rows of pages that wait, where a crash leaves them, for as long as they wait."""

    def __init__(self, graph: Graph, pages: PageStore | None) -> None:
        self._graph = graph
        self._pages = pages
        self._saved: list[dict[str, Any]] = []

    def keep(self, saved: dict[str, Any]) -> None:
        """Rows that were saved by others, or by an earlier process."""
        self._saved.append(saved)

    def record(self) -> dict[str, list[dict[str, Any]]]:
        """All that waits, as JSON values by arc; the rows of pages are saved first."""
        return {name: [self._preserved(e) for e in q] for name, q in self._graph.arcs() if len(q)}

    def _preserved(self, entry: Entry) -> dict[str, Any]:
        element = entry.element
        if isinstance(element, (Punctuation, Prod)):
            return {**element.saved(), "admission": entry.admission}
        if isinstance(element, (Answer, Provisional)):
            raise TypeError("an answer waits on an arc at a commit; answers are taken before that")
        if entry.saved is None:
            assert self._pages is not None
            entry.saved = element.save()
            # From now on they are read from there.
            entry.element = self._pages.load(entry.saved)
        return {"page": entry.saved, "admission": entry.admission}

    def revive(self, saved: dict[str, Any]) -> Entry:
        """What `record` gave."""
        if "heartbeat" in saved:
            return Entry(Punctuation.load(saved), saved["admission"])
        if "prod" in saved:
            return Entry(Prod.load(saved), saved["admission"])
        assert self._pages is not None
        self.keep(saved["page"])
        return Entry(self._pages.load(saved["page"]), saved["admission"], saved["page"])

    def settle(self) -> None:
        """A record is durable: rows that no page on an arc needs may go."""
        waiting = {id(e.saved): e.saved for _, q in self._graph.arcs() for e in q if e.saved is not None}
        for saved in self._saved:
            if id(saved) not in waiting and self._pages is not None:
                self._pages.drop(saved)
        self._saved = list(waiting.values())
