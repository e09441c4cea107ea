"""Answers that a crash left for a query hold up the others, until that query is back or forgotten."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.errors import RunError
from slackwater.operators.payload import Payload
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ArrowPage, ListSink, arrow_plan
from slackwater.testing.script import ArrowPages

ROW = pl.DataFrame({"t": [1]})
PLAN = arrow_plan(ROW, range=10, slide=10, n="count(*)")


class Broken(ListSink):
    def write(self, payload: Payload, commit_id: int) -> None:
        raise OSError("broken")


def executor(folder: Path, **sinks: ListSink) -> Executor:
    made = Executor(ManualClock(), FileJournal(fs.LocalFileSystem(), str(folder), sync=False), pages=ArrowPages())
    for name, sink in sinks.items():
        add_query(made, name, PLAN, sink)
    return made


def page(number: int, *times: int) -> ArrowPage:
    return ArrowPage(pl.DataFrame({"t": times}), number, 0, "t")


def crashed(folder: Path) -> None:
    """Both queries close a window; the second one's sink fails between the two halves of the commit."""
    first = executor(folder, good=ListSink(), bad=Broken())
    first.admit(source_label("s"), page(0, 1, 2, 30))
    with pytest.raises(RunError, match="broken"):
        first.run_until_idle()


def test_a_query_that_is_not_back_holds_up_the_others(tmp_path: Path) -> None:
    crashed(tmp_path)
    alone = executor(tmp_path, good=ListSink())
    with pytest.raises(RunError, match="bad/sink"):
        alone.admit(source_label("s"), page(1, 40))


def test_a_query_that_is_back_gets_its_answers_first(tmp_path: Path) -> None:
    crashed(tmp_path)
    good, bad = ListSink(), ListSink()
    both = executor(tmp_path, good=good, bad=bad)
    assert [r["n"] for r in bad.rows] == [2]
    both.admit(source_label("s"), page(1, 40))
    both.drain()
    assert [r["n"] for r in good.rows] == [r["n"] for r in bad.rows] == [2, 1, 1]


def test_a_forgotten_query_holds_up_nobody(tmp_path: Path) -> None:
    crashed(tmp_path)
    good = ListSink()
    alone = executor(tmp_path, good=good)
    alone.forget("bad")
    alone.admit(source_label("s"), page(1, 40))
    alone.drain()
    assert [r["n"] for r in good.rows] == [2, 1, 1]
    again = executor(tmp_path, good=good)
    assert again.consumed(source_label("s")) == 1
