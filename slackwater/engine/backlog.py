"""What waits on the arcs, in the words of a record, and the rows that were saved for it."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.graph import Graph, Place
from slackwater.engine.journal import Record, SavedEntry
from slackwater.engine.queue import Entry, Queue
from slackwater.events import decision
from slackwater.operators.element import element_loaded, element_saved
from slackwater.operators.label import Label
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Recipe, Staged


class Backlog:
    """Keeps the rows of pages that wait, where a crash leaves them, for as long as they wait.

    A page that waits on several arcs is saved once. It is deleted when it waits on none.
    """

    def __init__(self, graph: Graph, pages: Pages) -> None:
        self._graph = graph
        self._pages = pages
        self._folders = set[str]()
        """Folders of pages that wait or have waited, and of rows for sinks."""

    def keep(self, page: Page) -> None:
        """Rows may lie in files already, which have to go some day."""
        if page.folder is not None:
            self._folders.add(page.folder)

    def record(self) -> dict[Place, list[SavedEntry]]:
        """All waiting elements as JSON values, by arc; the rows of pages are saved first."""
        self._save()
        return {name: [_recorded(e) for e in q] for name, q in self._graph.queues() if q.waiting}

    def _save(self) -> None:
        """Save the pages that are only in memory, each once; from then on they are read from where they are."""
        readers: dict[Page, list[tuple[Queue, Entry]]] = {}
        for _, queue in self._graph.queues():
            for entry in queue:
                if entry.unsaved:
                    readers.setdefault(entry.page, []).append((queue, entry))
        for page, waiting in readers.items():
            decision("page.saved", page=page.number, bytes=page.size)
            saved = self._pages.write(page)
            self.keep(saved)
            for queue, entry in waiting:
                queue.exchange(entry, saved)

    def revive(self, saved: SavedEntry) -> Entry:
        """What `record` gave."""
        if "page" not in saved:
            return Entry(element_loaded(saved), saved["admission"])
        page, source = Page.from_json(saved["page"]), saved["source"]
        self._pages.backend.check(page)
        self.keep(page)
        return Entry(page, saved["admission"], None if source is None else Label.from_json(source))

    def written(self, folder: str) -> None:
        """A sink has the rows that lie in a folder: they may go, unless a page on an arc needs them."""
        self._folders.add(folder)

    def settle(self) -> None:
        """A commit is over: rows that no page on an arc needs may go."""
        for folder in self._take_unneeded():
            self._pages.backend.delete(folder)

    def let_go(self) -> None:
        """Queries were set aside: rows that no page on an arc needs any more stay for when they are back."""
        self._take_unneeded()

    def _take_unneeded(self) -> set[str]:
        if not self._folders:
            return set()
        waiting = {e.page.folder for _, q in self._graph.queues() for e in q if e.is_page}
        unneeded = self._folders - waiting
        self._folders -= unneeded
        return unneeded

    def sweep(self, last: Record, aside: Sequence[Record]) -> None:
        """Delete what a crash has left and no record speaks of."""
        if not self._pages.runs:
            return
        records = (*aside, last)
        queues = dict(kv for record in records for kv in record.queues.items())
        waiting = (Page.from_json(e["page"]) for entries in queues.values() for e in entries if "page" in e)
        live = {page.folder for page in waiting if page.folder is not None}
        for emission in (e for record in records for e in record.emissions):
            if isinstance(emission.payload, (Staged, Recipe)):
                live.update(emission.payload.folders)
        self._pages.backend.sweep(live, last.consumed)


def _recorded(entry: Entry) -> SavedEntry:
    if isinstance(entry.element, Page):
        source = None if entry.source is None else Label.of(entry.source).to_json()
        return {"page": entry.element.to_json(), "admission": entry.admission, "source": source}
    saved: SavedEntry = {"admission": entry.admission}
    saved.update(element_saved(entry.element))  # type: ignore[typeddict-item]  # SavedEntry extends it
    return saved
