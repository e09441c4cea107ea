"""Rows for the table of the page: whatever types they have, and however many."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.dashboard.board import Board, _text
from slackwater.dashboard.rows_shown import rows_shown
from slackwater.operators.newest_rows import BYTES, ROWS, NewestRows
from tests.kit.watched import WatchedScript, rows, sliding


@given(st.lists(st.integers(0, 150), max_size=12))
def test_the_newest_rows_are_kept_and_no_more(sizes: list[int]) -> None:
    latest, given_rows = NewestRows(), list[int]()
    for size in sizes:
        new = list(range(len(given_rows), len(given_rows) + size))
        latest.take(pa.table({"n": pa.array(new, pa.int64())}))
        given_rows += new
    assert [n for (n,) in rows_shown(latest.tables)["rows"]] == given_rows[::-1][:ROWS]


def test_of_wide_rows_fewer_are_kept() -> None:
    latest = NewestRows()
    for number in range(30):
        latest.take(pa.table({"n": [number], "text": ["x" * (BYTES // 10)]}))
    assert sum(table.nbytes for table in latest.tables) <= BYTES
    shown = rows_shown(latest.tables)["rows"]
    assert [n for n, _ in shown] == list(range(29, 29 - len(shown), -1)) and len(shown) == 9
    assert len(shown[0][1]) == 200


def test_every_type_has_a_text() -> None:
    ticks = [2**62, None]
    table = pa.table(
        {
            "when": pa.array(ticks, pa.timestamp("us", "UTC")),
            "ns": pa.array([1_500_000_000, None], pa.timestamp("ns")),
            "day": pa.array([2**30, None], pa.date32()),
            "days": pa.array([[2**30], None], pa.list_(pa.date32())),
            "span": pa.array([timedelta(seconds=1), None]),
            "bytes": [b"\xff", None],
            "list": [[1, 2], None],
            "decimal": [Decimal("1.50"), None],
            "large": [2**60, None],
            "flag": [True, None],
            "nan": [float("nan"), None],
        }
    )
    shown = json.loads(_text(rows_shown([table])))
    empty, found = (dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"])
    assert {value for name, value in empty.items() if name != "days"} == {None}
    assert found["when"].endswith(" us") and found["ns"] == "1970-01-01 00:00:01.500000" and found["days"] == "?"
    assert found["bytes"] == "b'\\xff'" and found["list"] == "[1, 2]" and found["decimal"] == "1.50"
    assert found["large"] == str(2**60) and found["flag"] is True and found["nan"] is None
    assert str(date(9999, 12, 31).year) not in found["day"]


def test_the_page_has_the_rows_of_the_sink_of_any_query() -> None:
    plans = {
        "windows": sliding(),
        "filter": sliding(None, None, where="delay > 6", select={"t": "t", "d": "delay"}),
    }
    script = WatchedScript(plans)
    try:
        board = Board(script)
        script.page(rows((1, "AA", 5.0), (2, "UA", 7.0), (3, "AA", 9.0)), at=4)
        script.drain()
        sections = board.sections()
        for name in plans:
            shown, given_rows = json.loads(sections[f"answers/{name}"]), script.query(name).sink.rows
            assert len(shown["rows"]) == len(given_rows) > 0
            for column in {"n", "late", "carrier", "d"} & set(shown["columns"]):
                place = shown["columns"].index(column)
                assert [row[place] for row in shown["rows"]] == [row[column] for row in reversed(given_rows)]
        assert board.sections()["answers/filter"] is sections["answers/filter"], "it is made once"
        script.query("filter").stop()
        assert board.sections()["answers/filter"] is sections["answers/filter"], "those of a stopped query stay"
    finally:
        script.stop()
