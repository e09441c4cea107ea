"""A query that comes back changed goes on with what it keeps; what it did not have counts from then on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import JournalError, RunError
from slackwater.plan.change import Change, Keeps, compare, kept_by
from slackwater.plan.node import describe
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Disorder
from slackwater.progress.learned.learned import learned
from slackwater.spark.storage.journal_files import FileJournal, QueryNote
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.streams import SAMPLE, Stream, frame, unbounded_streams

BEFORE = {"n": "count(*)", "total": "sum(x)"}
#: Each can begin in windows that are open: none is a sketch or a struct.
MORE = {
    "c": "count(i)",
    "mean": "avg(x)",
    "low": "min(i)",
    "high": "max(x)",
    "spread": "stddev(x)",
    "all": "bool_and(i > 0)",
    "least": "min(s)",
}


def query(aggregates: dict[str, str], policy: Disorder | None = None, **more: Any) -> Any:
    return arrow_plan(SAMPLE, 7, 3, group_by=["g"], disorder=policy or bounded(100), **more, **aggregates)


def results(script: Script) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(row["window_start"], row["g"]): row for row in script.drain().results}


@given(unbounded_streams(), st.integers(0, 5), st.sets(st.sampled_from(sorted(MORE)), min_size=1), st.booleans())
@settings(max_examples=25)
def test_old_aggregates_go_on_and_new_ones_count_the_rows_since(
    stream: Stream, until: int, begun: set[str], keeps_total: bool
) -> None:
    after = {"k": BEFORE["n"], **({"total": BEFORE["total"]} if keeps_total else {}), **{n: MORE[n] for n in begun}}
    with tempfile.TemporaryDirectory() as folder:
        first = Script(query(BEFORE), FileJournal(fs.LocalFileSystem(), folder, sync=False))
        for page in stream.pages[:until]:
            first.page(page)
        for _ in range(2):  # the second restart finds records of both
            changed = Script(query(after), FileJournal(fs.LocalFileSystem(), folder, sync=False))
        whole, since = Script(query(BEFORE)), Script(query({n: MORE[n] for n in begun}))
        for page in stream.pages[:until]:
            whole.page(page)
        for page in stream.pages[until:]:
            for script in (changed, whole, since):
                script.page(page)
        got, old, new = results(changed), results(whole), results(since)
    assert got.keys() == old.keys()
    for window, row in got.items():
        assert row["k"] == old[window]["n"]
        if keeps_total:
            assert row["total"] == old[window]["total"]
        for name in begun:
            nothing = 0 if name == "c" else None
            assert row[name] == (new[window][name] if window in new else nothing), (name, row)


def test_a_window_that_closes_before_anything_has_come_has_nothing_new(tmp_path: Path) -> None:
    first = Script(query(BEFORE), FileJournal(fs.LocalFileSystem(), str(tmp_path)))
    first.page(frame([[0, "a", 1, 1.0, 1, "p"]]))
    changed = Script(query({**BEFORE, **MORE}), FileJournal(fs.LocalFileSystem(), str(tmp_path)))
    (row, *_) = changed.drain().results
    assert (row["n"], row["total"], row["c"]) == (1, 1.0, 0)
    assert all(row[name] is None for name in MORE if name != "c")


def test_a_changed_policy_takes_no_time_back_and_loses_no_row_that_it_waits_for(tmp_path: Path) -> None:
    def page(*times: int) -> pl.DataFrame:
        return frame([[t, "a", 1, 1.0, 1, "p"] for t in times])

    first = Script(query(BEFORE, bounded(0)), FileJournal(fs.LocalFileSystem(), str(tmp_path)), ListSink())
    first.page(page(14)).page(page(21), at=1).page(page(21), at=2)
    assert {row["window_start"] for row in first.results} == {9, 12}, "all windows of 14"
    changed = Script(query(BEFORE, learned()), FileJournal(fs.LocalFileSystem(), str(tmp_path)), ListSink())
    changed.page(page(30, 13), at=3)
    later = {row["window_start"]: row["n"] for row in changed.drain().results}
    assert later.keys().isdisjoint({9, 12}), "their final answers are out"
    assert later[15] == 2


def test_a_sketch_cannot_begin_in_windows_that_are_open(tmp_path: Path) -> None:
    first = Script(query(BEFORE), FileJournal(fs.LocalFileSystem(), str(tmp_path)))
    first.page(frame([[0, "a", 1, 1.0, 1, "p"]]))
    for aggregate in ("approx_count_distinct(i)", "last(s)"):
        with pytest.raises(RunError, match=r"cannot begin in open windows"):
            Script(query({"d": aggregate}), FileJournal(fs.LocalFileSystem(), str(tmp_path)))


def test_what_may_change_and_what_not() -> None:
    kept = kept_by(query(BEFORE))
    assert compare(kept, kept_by(query(BEFORE, learned(), having="n > 3"))) == Change()
    assert compare(kept, kept_by(query({"m": "count(*)", "low": "min(x)"}))) == Change(("low",), ("total",))
    assert compare(kept, kept_by(query(BEFORE, where="i > 0"))) is None
    other_window = arrow_plan(SAMPLE, 8, 3, group_by=["g"], disorder=bounded(100), **BEFORE)
    assert compare(kept, kept_by(other_window)) is None
    assert Keeps.from_json(kept.to_json()) == kept


def test_a_journal_says_why_it_cannot_go_on_and_what_to_choose(tmp_path: Path) -> None:
    plan, other = query(BEFORE), query(BEFORE, where="i > 0")
    journal = FileJournal(fs.LocalFileSystem(), str(tmp_path))
    journal.note({"q": QueryNote(describe(plan), {}, None, kept_by(plan))})
    with pytest.raises(JournalError, match=r"where i > 0[\s\S]*start\(on_change='new'\)"):
        journal.change("q", describe(other), kept_by(other))
    changed = query({**BEFORE, "low": "min(x)"})
    assert journal.change("q", describe(changed), kept_by(changed)).describe() == "low counts from now on"
