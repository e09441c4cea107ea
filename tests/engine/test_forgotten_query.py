"""Answers that a crash left for a query hold up the others, until that query is back or forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.engine.build import source_label
from slackwater.errors import RunError
from slackwater.spark.storage.record_file import unpack
from slackwater.testing import ListSink
from tests.kit.counted import Broken, executor, page


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


def records(folder: Path) -> dict[int, str]:
    """What the records say; the newest one has been signed by each session since."""
    found = [unpack(path.read_bytes())[0] for path in (folder / "steps").iterdir()]
    return {record.step: repr(record) for record in found}


def test_queries_that_are_stopped_before_the_others_are_back_leave_the_journal_as_it_was(tmp_path: Path) -> None:
    first = executor(tmp_path, one=ListSink(), two=ListSink())
    first.admit(source_label("s"), page(0, 1, 2))
    first.run_until_idle()
    before = records(tmp_path)
    again = executor(tmp_path, new=ListSink(), one=ListSink())
    again.held = True
    for query in ("new", "one"):
        again.retire(query)
    assert records(tmp_path) == before
    two = ListSink()
    last = executor(tmp_path, one=ListSink(), two=two)
    last.admit(source_label("s"), page(1, 30))
    last.run_until_idle()
    assert [r["n"] for r in two.rows] == [2]
