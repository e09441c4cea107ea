"""A page that several operators wait for: its rows are saved once, and go with the last that has taken them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.operators.backend import Done
from slackwater.operators.page import Location, Page, SavedRows
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from tests.kit.faults import Died
from tests.kit.streams import SAMPLE, frame

MADE = pa.schema([("y", pa.int64())])
NAMES = ("q0", "q1", "q2")


class Folders(ArrowBackend):
    """Saved pages in folders, which outlive a process."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: dict[str, Page] = {}
        self.made = 0

    def write(self, page: Page) -> Done[Page]:
        self.made += 1
        done, place = super().write(page), SavedRows(f"pages/{self.made}")
        self.folders[place.folder] = done.value
        return Done(replace(done.value, location=place), done.arrival)

    def rows_at(self, location: Location) -> pl.DataFrame:
        saved = isinstance(location, SavedRows) and location.folder in self.folders
        return super().rows_at(self.folders[location.folder].location if saved else location)  # type: ignore[union-attr]

    def delete(self, folder: str) -> None:
        del self.folders[folder]


class Readers:
    """Three queries, each with a map of its own, on one stream and a journal."""

    def __init__(self, folder: Path, pages: Folders, dies_at: int | None = None) -> None:
        self.executor = Executor(
            ManualClock(), FileJournal(fs.LocalFileSystem(), str(folder), sync=False), pages=ArrowPages(here=pages)
        )
        self.pages = pages
        self.sinks = {name: ListSink() for name in NAMES}
        self.runs: list[tuple[str, int]] = []
        self.left: list[set[int]] = []
        self._dies_at = dies_at
        for name in NAMES:
            plan = arrow_plan(
                SAMPLE, 10, 10, map=(self._work(name), MADE), disorder=bounded(0), n="count(*)", y="sum(y)"
            )
            add_query(self.executor, name, plan, self.sinks[name])

    def _work(self, name: str) -> Any:
        def work(rows: pa.RecordBatch) -> pa.RecordBatch:
            self.runs.append((name, rows["i"][0].as_py()))
            self.left.append({saved.number for saved in self.pages.folders.values()})
            if len(self.runs) == self._dies_at:
                raise Died
            return pa.record_batch([rows["i"]], schema=MADE)

        return work

    def read(self, numbers: range) -> None:
        for n in numbers:
            self.executor.admit(source_label("s"), arrow_page(frame([[n, "a", 0, 1.0, n]]), n, 0, "t"))
        self.executor.run_until_idle()


@pytest.fixture
def pages() -> Folders:
    return Folders()


def test_a_page_with_several_readers_is_saved_once_and_goes_with_the_last(tmp_path: Path, pages: Folders) -> None:
    readers = Readers(tmp_path, pages)
    readers.read(range(4))
    assert sorted(readers.runs) == [(name, n) for name in NAMES for n in range(4)]
    assert pages.made == 4, "three arcs wait for each of four pages"
    last = {n: max(i for i, (_, page) in enumerate(readers.runs) if page == n) for n in range(4)}
    kept = [all(n in left for n in range(4) if last[n] > i) for i, left in enumerate(readers.left)]
    assert all(kept), "the rows are there as long as one has not worked on them"
    assert pages.folders == {}


def test_readers_of_a_saved_page_share_it_after_a_crash_too(tmp_path: Path, pages: Folders) -> None:
    with pytest.raises(Died):
        Readers(tmp_path, pages, dies_at=2).read(range(4))
    back = Readers(tmp_path, pages)
    waiting = [e for _, q in back.executor.graph.queues() for e in q if e.is_page]
    assert len(waiting) > len({e.element for e in waiting}) == len(pages.folders)
    back.executor.run_until_idle()
    back.executor.drain()
    answers = [[(r["n"], r["y"]) for r in sink.rows if r["kind"] == "final"] for sink in back.sinks.values()]
    assert answers == [[(4, 6)]] * 3
    assert pages.made == 4 and pages.folders == {}
