"""A page that comes again is acknowledged when it is safe, not when it is known."""

from __future__ import annotations

from pathlib import Path

from pyarrow import fs

from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import Script, arrow_page, arrow_plan
from tests.kit.streams import SAMPLE, frame

ROWS = frame([[0, "a", 1, 1.0, 1, "p"]])


def test_a_page_that_comes_again_before_it_is_safe_waits_with_the_first(tmp_path: Path) -> None:
    plan = arrow_plan(SAMPLE, 7, 3, group_by=["g"], n="count(*)")
    script = Script(plan, FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False))
    done = []
    first = script.executor.admit("source:s", arrow_page(ROWS, 0, 0, "t"))
    again = script.executor.admit("source:s", arrow_page(ROWS, 0, 0, "t"))
    first.on_done = lambda: done.append("first")
    again.on_done = lambda: done.append("again")
    assert not first.done
    assert not again.done, "a crash now would lose the page"
    script.executor.run_until_idle()
    assert done == ["first", "again"]
    assert script.metrics()["source:s"]["pages"] == 1
    assert script.executor.admit("source:s", arrow_page(ROWS, 0, 0, "t")).done
