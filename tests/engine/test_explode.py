"""One row to many: as a projection and in FROM, under windows, joins and late rows, with restarts and prods."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope
from slackwater.sql.write import to_sql
from slackwater.testing import ListSink, Script

ORDERS = pa.schema([("t", pa.int64()), ("id", pa.int64()), ("items", pa.list_(pa.string()))])
BLOCKS = pa.schema([("t", pa.int64()), ("parts", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])))])
STREAMS = {"orders": (ORDERS, sw.bounded(3)), "blocks": (BLOCKS, sw.bounded(0))}
COUNTED = "SELECT item, COUNT(*) AS n FROM {} [RANGE 10, SLIDE 5] GROUP BY item"
ROWS = [
    {"t": 1, "id": 1, "items": ["a", "b", "a"]},
    {"t": 2, "id": 2, "items": []},
    {"t": 3, "id": 3, "items": None},
    {"t": 4, "id": 4, "items": ["c"]},
]


def answers(text: str, rows: list[dict[str, Any]] | None = None, stream: str = "orders") -> list[tuple[Any, ...]]:
    script = Script.from_sql(text, {stream: STREAMS[stream]}).page(ROWS if rows is None else rows).drain()
    return [tuple(row.values()) for row in script.results]


@pytest.mark.parametrize(
    "source",
    [
        "SELECT id, explode(items) AS item FROM orders",
        "SELECT o.id, item FROM orders o LATERAL VIEW explode(o.items) t AS item",
        "SELECT id, t.item FROM orders o LATERAL VIEW explode(items) t AS item WHERE id > 0 AND t.item <> 'z'",
        "SELECT o.id, t.item FROM orders AS o CROSS JOIN UNNEST(o.items) AS t(item)",
        "SELECT id, item FROM orders, UNNEST(items) AS t (item)",
        "SELECT id, item FROM orders, LATERAL explode(items) AS t(item)",
        "SELECT id, item FROM orders JOIN LATERAL UNNEST(items) t(item) ON TRUE",
        "SELECT id, item FROM (SELECT *, explode(items) AS item FROM orders)",
        "SELECT id, item FROM orders LATERAL VIEW posexplode(items) t AS place, item",
    ],
)
def test_each_element_is_a_row(source: str) -> None:
    assert answers(source) == [(1, "a"), (1, "b"), (1, "a"), (4, "c")]


@pytest.mark.parametrize(
    "source",
    [
        "SELECT id, explode_outer(items) AS item FROM orders",
        "SELECT id, item FROM orders LATERAL VIEW OUTER explode(items) t AS item",
        "SELECT id, item FROM orders LEFT JOIN UNNEST(items) AS t(item) ON TRUE",
    ],
)
def test_a_row_without_elements_stays(source: str) -> None:
    assert answers(source) == [(1, "a"), (1, "b"), (1, "a"), (2, None), (3, None), (4, "c")]


def test_several_columns_of_a_generator_have_names() -> None:
    assert answers("SELECT posexplode(items) AS (place, item), id FROM orders")[:2] == [(0, "a", 1), (1, "b", 1)]
    assert answers("SELECT posexplode(items), id FROM orders")[-1] == (0, "c", 4)
    rows = [{"t": 1, "parts": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}]
    text = "SELECT p, q FROM blocks CROSS JOIN UNNEST(parts) AS t(p, q)"
    assert answers(text, rows, "blocks") == [(1, "x"), (2, "y")]
    assert answers("SELECT inline(parts) FROM blocks", rows, "blocks") == [(1, "x"), (2, "y")]


def test_generators_one_behind_the_other() -> None:
    first = "SELECT item, again FROM orders LATERAL VIEW explode(items) t AS item"
    text = f"{first} LATERAL VIEW explode(items) u AS again"
    assert Counter(answers(text)) == Counter(
        [(x, y) for row in ROWS for x in row["items"] or () for y in row["items"] or ()]  # type: ignore[attr-defined]
    )


def test_an_exploded_stream_is_a_side_of_a_join() -> None:
    text = (
        "SELECT o.id, t.item, b.t AS at FROM orders o CROSS JOIN UNNEST(items) AS t(item) "
        "JOIN blocks b ON b.t BETWEEN o.t AND o.t + 5 AND t.item <> 'b'"
    )
    script = Script.from_sql(text, STREAMS).page(ROWS, stream="orders")
    script.page([{"t": 6, "parts": []}, {"t": 60, "parts": []}], stream="blocks").drain()
    assert sorted(tuple(row.values()) for row in script.results) == [(1, "a", 6), (1, "a", 6), (4, "c", 6)]


ITEMS = st.none() | st.lists(st.sampled_from("abc"), max_size=3)
ORDER = st.fixed_dictionaries({"t": st.none() | st.integers(0, 40), "id": st.integers(0, 9), "items": ITEMS})


@given(
    pages=st.lists(st.lists(ORDER, max_size=6), max_size=8),
    restarts=st.sets(st.integers(0, 7)),
    prods=st.sets(st.integers(0, 7)),
    outer=st.booleans(),
)
def test_windows_over_elements_count_all_that_are_not_late(
    pages: list[list[dict[str, Any]]], restarts: set[int], prods: set[int], outer: bool
) -> None:
    """An empty row moves time like any other. A late row is late as a whole."""
    view = f"(SELECT *, explode{'_outer' * outer}(items) AS item FROM orders)"
    sink, late = ListSink(), ListSink()
    wanted, lost = Counter[tuple[int, str | None]](), Counter[str | None]()
    heartbeat = -(10**9)
    with tempfile.TemporaryDirectory() as folder:

        def begun() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            return Script.from_sql(
                COUNTED.format(view), {"orders": STREAMS["orders"]}, sink=sink, late=late, journal=journal
            )

        script = begun()
        for n, page in enumerate(pages):
            script.page(page, number=n)
            for row in page:
                elements = list(row["items"] or []) or ([None] if outer else [])
                starts = [s for s in range(-5, 45, 5) if row["t"] is not None and s <= row["t"] < s + 10]
                wanted.update((s, item) for s in starts if s + 10 - 1 > heartbeat for item in elements)
                if not starts or any(s + 10 - 1 <= heartbeat for s in starts):
                    lost.update(elements)
            times = [row["t"] for row in page if row["t"] is not None]
            heartbeat = max([heartbeat, *(max(times) - 3 - 1 for _ in times[:1])])
            if n in prods:
                script.prod()
            if n in restarts:
                script.executor.commit()
                script = begun()
        script.drain()
    found = {(r["window_start"], r["item"]): r["n"] for r in sink.rows if r["kind"] == "final"}
    assert found == dict(wanted)
    assert Counter(row["item"] for row in late.rows) == lost


def test_sql_writes_what_it_reads() -> None:
    scope = Scope(frozenset(("orders", "blocks")))
    for columns in (((None, "*"), ("(place, item)", "posexplode(items)")), (("item", "explode(items)"),)):
        query = L.Select((L.Scan("orders"),), columns)
        (statement,) = parse(to_sql(query, scope), scope).statements
        assert isinstance(statement, S.SelectStatement) and statement.query == query


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("SELECT explode(items) AS a, explode(items) AS b FROM orders", "put one select.…. behind the other"),
        ("SELECT size(explode(items)) AS n FROM orders", "one row to many stands by itself in a projection"),
        ("SELECT posexplode(items) AS item FROM orders", "gives 2 columns, pos, col; name each of them"),
        ("SELECT explode(id) AS item FROM orders", "id is no array"),
        ("SELECT stack(2, id, t) AS item FROM orders", "pages in process know explode, posexplode and inline"),
        ("SELECT a FROM orders LATERAL VIEW upper(items) t AS a", "expected UNNEST or a generator such as"),
        ("SELECT a FROM orders, UNNEST(items) WITH ORDINALITY AS t(a, n)", "write LATERAL VIEW posexplode"),
        ("SELECT a FROM orders o JOIN blocks b ON o.t = b.t CROSS JOIN UNNEST(items) AS t(a)", "first relation"),
        ("SELECT a FROM orders o JOIN blocks b ON o.t = b.t LATERAL VIEW explode(items) t AS a", "first relation"),
    ],
)
def test_what_cannot_be_is_refused(text: str, wrong: str) -> None:
    streams = STREAMS if "blocks" in text else {"orders": STREAMS["orders"]}
    with pytest.raises(QueryError, match=wrong):
        Script.from_sql(text, streams)


def test_results_are_not_exploded_as_answers_but_as_rows() -> None:
    counts = "SELECT id, MAX(t) AS m FROM orders [RANGE 5, SLIDE 5] GROUP BY id"
    with pytest.raises(QueryError, match="on results: its rows would have no window any more"):
        Script.from_sql(f"SELECT explode(id) AS i FROM ({counts})", {"orders": STREAMS["orders"]})


def test_explain_tells_the_step() -> None:
    script = Script.from_sql("SELECT id, explode(items) AS item FROM orders", {"orders": STREAMS["orders"]})
    assert "explode(items)" in script.plan.inputs[0].describe()
    assert isinstance(script.page(ROWS).results[0], dict) and pl.DataFrame(script.results)["item"].null_count() == 0
