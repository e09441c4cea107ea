"""The kit for users: a query in SQL, rows as a test writes them, and the answers since the last look."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan.node import streams_of
from slackwater.testing import Script, StreamSpec

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TRIPS = pa.schema([("ts", pa.timestamp("ms", "UTC")), ("carrier", pa.string()), ("delay", pa.float64())])
TICKS = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


def trip(minute: int, carrier: str = "AA", delay: float = 1.0) -> dict[str, object]:
    return {"ts": NOON + timedelta(minutes=minute), "carrier": carrier, "delay": delay}


def test_a_window_closes_when_the_policy_lets_it() -> None:
    text = "SELECT carrier, AVG(delay) AS late FROM trips [RANGE 10 MINUTES, SLIDE 10 MINUTES] GROUP BY carrier"
    script = Script.from_sql(text, {"trips": (TRIPS, sw.bounded("5 minutes"))})
    script.page([trip(1), trip(2, delay=3.0), trip(12)])
    assert script.new_rows() == []
    script.page([trip(16)])
    (row,) = script.new_rows()
    assert (row["carrier"], row["late"], row["window_end"]) == ("AA", 2.0, NOON + timedelta(minutes=10))
    assert script.new_rows() == [], "it has been seen"
    script.drain()
    assert [row["window_start"] for row in script.new_rows()] == [NOON + timedelta(minutes=10)]


def test_a_join_of_two_streams_gets_pages_of_both_at_once() -> None:
    text = "SELECT l.k, l.v AS a, r.v AS b FROM l [RANGE 5] JOIN r [RANGE 5] ON l.k = r.k"
    script = Script.from_sql(text, {"l": (TICKS, sw.bounded(0)), "r": (TICKS, sw.bounded(0))})
    script.pages({"l": [{"t": 1, "k": "x", "v": 1}], "r": [{"t": 3, "k": "x", "v": 2}]})
    assert [(row["a"], row["b"]) for row in script.new_rows()] == [(1, 2)]
    with pytest.raises(QueryError, match=r"reads l, r; say which, as in page\(rows, stream='l'\)"):
        script.page([])


def test_a_table_and_early_answers() -> None:
    text = "SELECT name, COUNT(*) AS n FROM s JOIN codes ON k = code WINDOW [RANGE 10, SLIDE 10] GROUP BY name"
    codes = pl.DataFrame({"code": ["x"], "name": ["ex"]})
    script = Script.from_sql(text, {"s": (TICKS, sw.bounded(0))}, tables={"codes": codes})
    script.page([{"t": 1, "k": "x", "v": 1}, {"t": 2, "k": "unknown", "v": 1}]).prod()
    assert [(row["kind"], row["name"], row["n_seen"]) for row in script.new_rows()] == [("early", "ex", 1)]


@pytest.mark.parametrize("time", ["t", "v"])
def test_a_window_on_another_attribute_gets_the_pages_of_the_stream(time: str) -> None:
    text = f"SELECT k, COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR({time}), 10) GROUP BY k"
    script = Script.from_sql(text, {"s": (TICKS, sw.bounded(0))})
    script.page([{"t": 1, "k": "x", "v": 1}]).page([{"t": 2, "k": "x", "v": 2}], stream="s").drain()
    assert [(row["k"], row["n"]) for row in script.new_rows()] == [("x", 2)]


def test_a_stream_that_is_read_by_two_attributes_gets_a_page_once() -> None:
    text = (
        "SELECT COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(v), 10) UNION ALL "
        "SELECT 10 * COUNT(*) AS n FROM s [RANGE 10, SLIDE 10]"
    )
    script = Script.from_sql(text, {"s": (TICKS, sw.bounded(0))})
    script.page([{"t": 1, "k": "x", "v": 21}, {"t": 2, "k": "x", "v": 22}]).drain()
    assert sorted((row["n"], row["window_end"]) for row in script.new_rows()) == [(2, 30), (20, 10)]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"prods": "nope = 1"}, "stream 's': prods 'nope = 1': there is no column 'nope'"),
        ({"prods": "k"}, "stream 's': prods 'k': this is string, not a condition"),
        ({"prods": ""}, "stream 's': prods="),
        ({"prods": True}, "stream 's': prods=True"),
        ({"source": "nope"}, "stream 's': source 'nope': there is no column 'nope'"),
        ({"disorder": sw.punctuated("nope")}, "stream 's': punctuated 'nope': there is no column 'nope'"),
        ({"disorder": sw.punctuated("k")}, "stream 's': punctuated 'k' is of type string"),
        ({"disorder": sw.punctuated("v", since="k")}, "stream 's': punctuated 'k' is of type string"),
        ({"disorder": sw.punctuated("v", on=["nope"])}, "stream 's': punctuated 'nope': there is no column 'nope'"),
    ],
)
def test_settings_of_a_stream_are_checked_before_rows_come(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(QueryError, match=re.escape(says)):
        Script.from_sql("SELECT k FROM s", {"s": StreamSpec(TICKS, **{"disorder": sw.bounded(0), **settings})})


def test_columns_can_be_written_as_for_spark() -> None:
    columns = "t TIMESTAMP, k STRING, v DECIMAL(9, 2), tags MAP<STRING, ARRAY<INT>>, at STRUCT<x: DOUBLE>"
    schema = StreamSpec(columns, sw.bounded(0)).schema
    assert [str(kind) for kind in schema.types[:3]] == ["timestamp[us, tz=UTC]", "string", "decimal128(9, 2)"]
    assert schema.field("tags").type == pa.map_(pa.string(), pa.list_(pa.int32()))
    assert schema.field("at").type == pa.struct([("x", pa.float64())])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("", "'' names no columns with their types; write them as in 'ts TIMESTAMP, n BIGINT'"),
        ("t, k STRING", "'t, k STRING' names no columns with their types"),
        ("t BIGINT,, k", "names no columns with their types"),
        ("t BIGINT, k GEOMETRY", "there is no type GEOMETRY; there are TIMESTAMP, "),
    ],
)
def test_columns_that_cannot_be_read_are_refused(columns: str, says: str) -> None:
    with pytest.raises(QueryError, match=re.escape(says)):
        Script.from_sql("SELECT k FROM s", {"s": (columns, sw.bounded(0))})


def test_a_second_script_with_the_same_folder_goes_on_where_the_first_one_was(tmp_path: Path) -> None:
    text, streams = "SELECT k, COUNT(*) AS n FROM s [RANGE 10, SLIDE 10] GROUP BY k", {"s": (TICKS, sw.bounded(0))}
    Script.from_sql(text, streams, journal=tmp_path).page([{"t": 1, "k": "x", "v": 1}])
    again = Script.from_sql(text, streams, journal=str(tmp_path))
    again.page([{"t": 2, "k": "x", "v": 1}]).drain()
    assert [row["n"] for row in again.new_rows()] == [2]


def test_time_and_source_can_be_named() -> None:
    spec = StreamSpec(TICKS, sw.bounded(0), time="v", source="k")
    script = Script.from_sql("SELECT k, COUNT(*) AS n FROM s [RANGE 10, SLIDE 10] GROUP BY k", {"s": spec})
    script.page([{"t": 0, "k": "x", "v": 5}]).page([{"t": 0, "k": "x", "v": 15}])
    assert [(row["k"], row["window_end"], row["n"]) for row in script.new_rows()] == [("x", 10, 1)]


def test_types_are_those_of_spark() -> None:
    script = Script.from_sql("SELECT floor(t / 10) AS tens, t / 10 AS part FROM s", {"s": (TICKS, sw.bounded(0))})
    assert [str(field.type) for field in script.plan.schema] == ["int64", "double"]
    script.page([{"t": 25, "k": "x", "v": 1}])
    assert script.new_rows() == [{"tens": 2, "part": 2.5}]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"t": 1, "w": 2}], None),
        (pl.DataFrame({"t": [1], "k": ["x"], "v": [1], "w": [2]}), "rows have a column 'w', the stream has none"),
    ],
)
def test_rows_that_do_not_fit(rows: object, says: str | None) -> None:
    script = Script.from_sql("SELECT k FROM s", {"s": (TICKS, sw.bounded(0))})
    if says is None:
        script.page(rows)  # type: ignore[arg-type]
        assert script.new_rows() == [{"k": None}], "a column that a row lacks is null"
        return
    with pytest.raises(QueryError, match=says):
        script.page(rows)  # type: ignore[arg-type]


def test_only_a_select_can_be_scripted() -> None:
    with pytest.raises(QueryError, match="takes one SELECT"):
        Script.from_sql("SELECT 1 FROM s; SELECT 2 FROM s", {"s": (TICKS, sw.bounded(0))})
    with pytest.raises(QueryError, match="no column 'when'; there are t, k, v"):
        Script.from_sql("SELECT k FROM s", {"s": StreamSpec(TICKS, sw.bounded(0), time="when")})


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        ("WATTR number", "disorder_control(dratio='0%')"),
        ("WINDOWING-ATTRIBUTE number, DRATIO 0%", "disorder_control(dratio='0%')"),
        ("WATTR number, DRATIO 2%", "drop_ratio(0.02)"),
    ],
)
def test_an_attribute_that_has_no_policy_has_the_best_effort(words: str, policy: str) -> None:
    orders = pa.schema([("ts", pa.timestamp("us", "UTC")), ("number", pa.int64())])
    script = Script.from_sql(
        f"SELECT count(*) AS n FROM orders [RANGE 10, SLIDE 10, {words}]",
        {"orders": (orders, sw.bounded("1 second"))},
    )
    (stream,) = streams_of(script.plan)
    assert stream.disorder.describe() == policy


def test_what_is_divided_by_zero_is_null_as_on_spark() -> None:
    text = "SELECT k, SUM(v) / SUM(w) AS a, SUM(v) % SUM(w) AS b, SUM(w / v) AS c FROM s [RANGE 10] GROUP BY k"
    script = Script.from_sql(text, {"s": ("t BIGINT, k STRING, v BIGINT, w BIGINT", sw.bounded(0))})
    (row,) = script.page([{"t": 1, "k": "x", "v": 5, "w": 0}]).drain().new_rows()
    assert (row["a"], row["b"], row["c"]) == (None, None, 0.0)
