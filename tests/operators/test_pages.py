"""A page is a value; what pages of one arrival share is forgotten when nobody has such a page any more."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.operators.backend import LateTimes
from slackwater.operators.page import CachedRows, Origin, Page, SavedRows, SourceRows
from slackwater.plan.steps import JoinTable, Select, Stamp, Where
from slackwater.progress.arrival import Arrival
from slackwater.testing import ArrowPages, ListSink, Script, StreamSpec, arrow_page
from tests.kit.streams import frame

ROWS = arrow_page(frame([[3, "a"], [8, "b"], [None, "c"]]), 4, 0, "t")
SCHEMA = pa.schema([("t", pa.int64()), ("g", pa.string()), ("i", pa.int64())])


def test_equal_pages_are_equal_and_a_step_makes_another_page() -> None:
    one, other = (Page(Origin("source:s", 1), SavedRows("pages/1"), (Where("a > 1"),)) for _ in range(2))
    assert one == other and hash(one) == hash(other) and len({one, other}) == 1
    assert one.with_step(Where("b")) != one and "pages/1" in repr(one)


@pytest.mark.parametrize(
    "location",
    [
        SavedRows("pages/1", (("__time", "t"),)),
        SourceRows("s", "files", '{"paths": []}', ("`t`",), (("__time", "t"),), "spool/s/1"),
    ],
)
def test_a_page_comes_back_from_json(location: Any) -> None:
    steps = (Stamp(7), Where("x"), Select((("a", "1"),)), JoinTable("r", "inner", "k = l", (("l", "l"),), ()))
    arrival = Arrival(3, 1, 5, 9, 2, 14, b"sketch")
    page = Page(Origin("source:s", 1), location, steps, None, 2, frozenset({"total"}), arrival, size=77)
    again = Page.from_json(json.loads(json.dumps(page.to_json())))
    assert again == page
    assert (again.at, again.needs, again.arrival, again.size) == (2, {"total"}, arrival, 77)


def test_only_rows_that_outlive_the_process_are_durable() -> None:
    saved = Page(Origin("s", 1), SavedRows("pages/1"))
    assert saved.durable and saved.folder == "pages/1" and saved.stamped(9).durable
    assert not saved.with_step(Where("x")).durable, "what is done to the rows may give something else tomorrow"
    memory = Page(Origin("s", 1), CachedRows(None))
    assert not memory.durable and memory.folder is None
    with pytest.raises(AssertionError, match="only in memory"):
        memory.to_json()


def test_all_pages_of_an_arrival_know_it_once_something_has_run() -> None:
    pages, filtered = ArrowPages(), ROWS.with_step(Where("g = 'a'"))
    assert pages.arrival(ROWS) is None and pages.rows(filtered) is None
    assert pages.payload(filtered).num_rows == 1  # type: ignore[union-attr]
    for page in (ROWS, filtered, ROWS.with_step(Where("g = 'b'"))):
        assert pages.rows(page) == 3 and pages.arrival(page) == ArrowPages().measure(ROWS)
    assert pages.measure(ROWS.stamped(5)).highest == 5


def test_late_rows_have_an_arrival_of_their_own() -> None:
    pages = ArrowPages()
    late = pages.late(ROWS, LateTimes(5))
    assert late is not None and pages.measure(late).rows == 2 and pages.measure(ROWS).rows == 3


def test_what_is_known_goes_with_the_last_that_holds_a_page() -> None:
    pages = ArrowPages()
    pages.hold(ROWS)
    pages.hold(ROWS.with_step(Where("t > 5")))
    pages.measure(ROWS)
    pages.release(ROWS)
    assert pages.arrival(ROWS) is not None
    pages.release(ROWS)
    assert pages.arrival(ROWS) is None and not pages.here._frames


TABLE = pl.DataFrame({"k": ["a", "b"], "name": ["x", "y"]})
QUERIES = {
    "windows": "SELECT g, COUNT(*) AS n FROM s [RANGE 10, SLIDE 5] WHERE i > 0 GROUP BY g",
    "over windows": """SELECT MAX(n) AS m
        FROM (SELECT g, COUNT(*) AS n FROM s [RANGE 5, SLIDE 5] GROUP BY g) [RANGE 10, SLIDE 10]""",
    "each row": "SELECT g, COUNT(*) AS n FROM s [RANGE 10] GROUP BY g",
    "rows": "SELECT g, i + 1 AS j FROM s WHERE i > 1",
    "table": "SELECT name, COUNT(*) AS n FROM s [RANGE 10, SLIDE 10] JOIN r ON g = k GROUP BY name",
    "join": "SELECT a.i AS i, b.i AS j FROM s [RANGE 5] AS a JOIN z [RANGE 5] AS b ON a.g = b.g",
    "union": """SELECT g, COUNT(*) AS n
        FROM (SELECT t, g FROM s UNION ALL SELECT t, g FROM z) [RANGE 5, SLIDE 5] GROUP BY g""",
}


@pytest.mark.parametrize("strategy", [sw.fifo, sw.chain])
@pytest.mark.parametrize("name", QUERIES)
def test_nothing_is_left_of_pages_that_have_been_worked_off(name: str, strategy: Any) -> None:
    spec = StreamSpec(SCHEMA, sw.bounded(2))
    streams = dict.fromkeys("sz" if name in ("join", "union") else "s", spec)
    late = ListSink() if name in ("windows", "each row", "union") else None
    script = Script.from_sql(QUERIES[name], streams, {"r": TABLE}, strategy=strategy(), late=late)
    pages = script.executor.pages
    for n in range(12):
        rows = [{"t": 4 * n + k - 9 * (n % 5 == 4), "g": "ab"[k % 2], "i": k} for k in range(4)]
        script.pages(dict.fromkeys(streams, rows))
        if n % 3 == 1:
            script.prod()
        assert len(pages._shared) <= 2 and len(pages._locations) <= 2 * len(streams)
    script.drain()
    for node in script.executor.graph:
        node.operator.state(whole=True)  # then a prodder learns from the last page, too
    assert script.results
    assert not pages._shared and not pages._origins and not pages._locations and not pages._taken
    assert isinstance(pages, ArrowPages) and not pages.here._frames
