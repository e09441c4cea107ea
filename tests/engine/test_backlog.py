"""A page that several operators wait for: its rows are saved once, and go with the last that has taken them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ArrowPage, ListSink, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.faults import Died
from tests.kit.streams import SAMPLE, frame

MADE = pa.schema([("y", pa.int64())])
NAMES = ("q0", "q1", "q2")


class Folders(ArrowPages):
    """Saved pages in folders, which outlive a process."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, Any]] = {}
        self.made = 0

    def save(self, page: ArrowPage) -> dict[str, Any]:
        self.made += 1
        self.folders[f"pages/{self.made}"] = ARROW_SAVE(page)
        return {"folder": f"pages/{self.made}"}

    def load(self, saved: dict[str, Any]) -> ArrowPage:
        return ArrowPage.load(self.folders[saved["folder"]])

    def drop(self, saved: dict[str, Any]) -> None:
        del self.folders[saved["folder"]]


ARROW_SAVE = ArrowPage.save


class Readers:
    """Three queries, each with a map of its own, on one stream and a journal."""

    def __init__(self, folder: Path, pages: Folders, dies_at: int | None = None) -> None:
        self.executor = Executor(
            ManualClock(), FileJournal(fs.LocalFileSystem(), str(folder), sync=False), pages=pages
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
            self.left.append({saved["number"] for saved in self.pages.folders.values()})
            if len(self.runs) == self._dies_at:
                raise Died
            return pa.record_batch([rows["i"]], schema=MADE)

        return work

    def read(self, numbers: range) -> None:
        for n in numbers:
            self.executor.admit(source_label("s"), ArrowPage(frame([[n, "a", 0, 1.0, n]]), n, 0, "t"))
        self.executor.run_until_idle()


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Folders:
    folders = Folders()
    monkeypatch.setattr(ArrowPage, "save", lambda page: folders.save(page))
    return folders


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
    assert len(waiting) > len({id(e.element) for e in waiting}) == len(pages.folders)
    back.executor.run_until_idle()
    back.executor.drain()
    answers = [[(r["n"], r["y"]) for r in sink.rows if r["kind"] == "final"] for sink in back.sinks.values()]
    assert answers == [[(4, 6)]] * 3
    assert pages.made == 4 and pages.folders == {}
