"""Bursts before any expensive operator (S5 sections 4.3.2 and 6.2): a join with a table, or a filter."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.operators.prod_request import check_sideline
from slackwater.plan import logical as L
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ArrowPages, ListSink, Script, arrow_page
from tests.kit import streams_of_samples
from tests.kit.streams import assert_same_rows, finals, frame
from tests.kit.streams_of_samples import CODES

COLUMNS = streams_of_samples.select(streams_of_samples.A, g="g", k="i")
TABLE = streams_of_samples.windows(L.JoinStored((COLUMNS,), "codes", ("g",), "inner"), 10, 10, "g", n="count(*)")
FILTER = streams_of_samples.windows(streams_of_samples.where(streams_of_samples.A, "h >= 0"), 10, 10, "g")


@pytest.mark.parametrize(("written", "place"), [(TABLE, "stored1"), (FILTER, "where0")], ids=["table", "filter"])
def test_section_6_2_bursts_wait_before_a_join_with_a_table_and_before_a_filter(
    tmp_path: Path, written: L.Logical, place: str
) -> None:
    plan, sink = streams_of_samples.plan(written, {"a": sw.bounded(0)}), ListSink()
    pages = [frame([[n if n < 6 else 6 + n, "a", 0, 1.0, n]]) for n in range(11)]

    def begin(aside: bool = True) -> Script:
        journal, tables = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False), ArrowPages({"codes": CODES})
        return Script(plan, journal, sink, sideline=sw.sideline(ratio=3) if aside else None, pages=tables)

    def give(script: Script, number: int) -> None:
        page = arrow_page(pages[number], number, 0, "t")
        script.executor.admit(source_label("a"), page)

    script = begin().page(pages[0], 0).page(pages[1], 1).prod(until=10)
    early = [row for row in sink.rows if row["kind"] == "early"]
    assert [row["n_seen"] for row in early] == [4 if place == "stored1" else 2]
    for number in range(2, 11):
        give(script, number)
    for _ in range(9):  # in the middle of the burst the process ends
        node = script.executor._cycle.next()
        if hasattr(node, "operator"):
            script.executor._cycle.run(node)
        else:
            script.executor.commit()
    script.executor.commit()
    waiting = script.metrics()[f"q/{place}"]["sideline"]
    assert waiting > 0
    with pytest.raises(sw.RunError, match="start it as it was"):
        begin(False).page(frame([[40, "a"]]), 11)
    script = begin().drain()
    assert script.metrics()[f"q/{place}"]["sidelined_pages"] >= waiting
    calm = Script(plan, pages=ArrowPages({"codes": CODES}))
    for number, page in enumerate(pages):
        calm.page(page, number)
    assert_same_rows(finals(sink.rows), finals(calm.drain().results), ["window_start", "g"])


def test_a_sideline_needs_something_that_is_expensive() -> None:
    plain = streams_of_samples.plan(streams_of_samples.windows(streams_of_samples.A, 10, 10))
    with pytest.raises(sw.QueryError, match="no map"):
        check_sideline(plain)
    for written in (TABLE, FILTER):
        check_sideline(streams_of_samples.plan(written))
