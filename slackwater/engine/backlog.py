"""What waits on the arcs, in the words of a record, and the rows that were saved for it."""

from __future__ import annotations

from typing import Any

from slackwater.engine.graph import Graph, Place
from slackwater.engine.queue import Entry
from slackwater.events import decision
from slackwater.operators.element import element_loaded, element_saved
from slackwater.operators.label import Label
from slackwater.operators.page import Page, Pages
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation


class Backlog:
    """Keeps the rows of pages that wait, where a crash leaves them, for as long as they wait.

    A page that waits on several arcs is saved once. It is deleted when it waits on none.
    """

    def __init__(self, graph: Graph, pages: Pages | None) -> None:
        self._graph = graph
        self._pages = pages
        self._saved: dict[object, dict[str, Any]] = {}
        self._revived: dict[object, Page] = {}
        """Pages of an earlier process, until the first commit: all arcs of a page get the same one."""

    def keep(self, saved: dict[str, Any]) -> None:
        """Rows that were saved by others, or by an earlier process."""
        self._saved[_key(saved)] = saved

    def record(self) -> dict[Place, list[dict[str, Any]]]:
        """All that waits, as JSON values by arc; the rows of pages are saved first."""
        self._save()
        return {name: [_recorded(e) for e in q] for name, q in self._graph.queues() if q.waiting}

    def _save(self) -> None:
        """Save the pages that are only in memory, each once; from then on they are read from where they are."""
        pages = (e for _, q in self._graph.queues() for e in q if e.is_page and e.saved is None)
        readers: dict[int, list[Entry]] = {}
        for entry in pages:
            readers.setdefault(id(entry.element), []).append(entry)
        for entries in readers.values():
            page: Any = entries[0].element
            assert self._pages is not None
            decision("page.saved", page=page.number, bytes=page.bytes)
            saved = page.save()
            self.keep(saved)
            # Those who share the work on a page know it by the object.
            loaded = page if page.kept else self._pages.load(saved)
            for entry in entries:
                entry.saved, entry.element = saved, loaded

    def revive(self, saved: dict[str, Any]) -> Entry:
        """What `record` gave."""
        if "page" not in saved:
            return Entry(element_loaded(saved), saved["admission"])
        assert self._pages is not None
        page, key = saved["page"], _key(saved["page"])
        if key not in self._revived:
            self.keep(page)
            self._revived[key] = self._pages.load(page)
        source = saved["source"]
        by = None if source is None else Label.from_json(source)
        return Entry(self._revived[key], saved["admission"], page, by)

    def given(self, page: Page) -> dict[str, Any] | None:
        """An operator has made a page: where its rows are durable, if they are from the beginning."""
        saved = page.saved
        if saved is not None:
            self.keep(saved)
        return saved

    def written(self, folder: str) -> None:
        """A sink has the rows that lie in a folder: they may go, unless a page on an arc needs them."""
        self._saved.setdefault(folder, {"folder": folder})

    def settle(self) -> None:
        """A commit is over: rows that no page on an arc needs may go."""
        self._revived.clear()
        for saved in self._take_unneeded():
            if self._pages is not None:
                self._pages.drop(saved)

    def let_go(self) -> None:
        """Queries were set aside: rows that no page on an arc needs any more stay for when they are back."""
        self._take_unneeded()

    def _take_unneeded(self) -> list[dict[str, Any]]:
        waiting = {_key(e.saved) for _, q in self._graph.queues() for e in q if e.saved is not None}
        return [self._saved.pop(key) for key in list(self._saved) if key not in waiting]


def _recorded(entry: Entry) -> dict[str, Any]:
    if isinstance(entry.element, (Punctuation, Prod)):
        return {**element_saved(entry.element), "admission": entry.admission}
    source = None if entry.source is None else Label.of(entry.source).to_json()
    return {"page": entry.saved, "admission": entry.admission, "source": source}


def _key(saved: dict[str, Any]) -> object:
    """Where the rows are; several arcs may wait for the same."""
    return saved.get("folder", id(saved))
