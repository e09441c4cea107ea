"""The spool: pages of a stream that are safe on disk before the executor has time for them.

Pages of a live stream must be able to wait: else Spark holds its next batch back until the last one has been worked
on, and neither a prod nor a sideline reaches what waits there. Of a page by reference only a note is written; the
rows are where they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from slackwater.operators.page import Page, SourceRows
from slackwater.spark.backend.backend import SPOOL, SparkBackend
from slackwater.spark.storage.storage_dir import StorageDir

_NOTE = "_page.json"


class Spool:
    """The folder of one stream: a folder for each page, whole when the page's note is in it."""

    def __init__(self, stream: str, backend: SparkBackend) -> None:
        self._stream = stream
        self._name = f"{SPOOL}/{stream}"
        self._backend = backend
        self._lasts = False
        """Whether the folder itself would outlive a power cut."""

    @property
    def _place(self) -> StorageDir:
        return self._backend.root.child(self._name)

    def folder(self, number: int) -> str:
        """Where a page lies, below the root."""
        return f"{self._name}/{number}"

    def put(self, page: Page) -> Page:
        """Save a page, or note where its rows are; after a crash `waiting` gives it again."""
        place, disk, backend = self._backend.root.child(self.folder(page.number)), self._backend.disk, self._backend
        if page.durable:
            saved = page
            disk.make_folder(place.path)
            self._force_entry()
        else:
            saved = backend.work(page).write(place)
            backend.release(page.location)
        disk.write(f"{place.path}/{_NOTE}", json.dumps(saved.to_json()).encode())
        backend.room.put(self._stream, page.number, _size(saved))
        return saved

    def _force_entry(self) -> None:
        """A page's folder must outlive a power cut; the folders above it are forced for the first page alone."""
        disk, here, root = self._backend.disk, self._place.path, self._backend.root.path
        if self._lasts:
            disk.force(here)
        else:
            disk.force_tree(here, root, ())
            self._lasts = True

    def waiting(self, after: int | None) -> Iterator[Page]:
        """The pages behind a number, in order; a page that is not whole will come again."""
        numbers = sorted(int(name) for name in self._place.names())
        for number in numbers:
            place = self._place.child(str(number))
            if (after is None or number > after) and _NOTE in place.names():
                with place.files.open_input_file(f"{place.path}/{_NOTE}") as note:
                    page = Page.from_json(json.loads(note.read()))
                self._backend.room.put(self._stream, number, _size(page))
                yield page


def _size(page: Page) -> int:
    """Bytes that a page takes in the spool: a note takes none."""
    return 0 if isinstance(page.location, SourceRows) else page.size or 0
