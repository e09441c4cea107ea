"""The state of a query is what its open windows have, by a recomputation, also from a journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.query_state import query_state
from slackwater.errors import RunError
from slackwater.testing import Script, StreamSpec

SLACK, RANGE, SLIDE, GAP = 5, 20, 10, 4
SPEC = StreamSpec("t BIGINT, k STRING, v BIGINT", sw.bounded(SLACK))
WINDOWS = f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE {RANGE}, SLIDE {SLIDE}] GROUP BY k"
SESSIONS = f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [SESSION {GAP}] GROUP BY k"
ROWS = st.lists(st.tuples(st.integers(0, 80), st.sampled_from("ab"), st.integers(0, 9)), max_size=12)


def state(run: Script) -> list[tuple[Any, ...]]:
    table = query_state(run.executor.graph, "q")
    names = ("window_start", "window_end", "k", "n", "total", "heartbeat")
    assert set(table.schema.names) == set(names)
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def open_windows(pages: list[list[tuple[int, str, int]]]) -> list[tuple[Any, ...]]:
    """A row counts for the windows that are open when it comes; those that time has not passed are the state."""
    windows: dict[tuple[int, int, str], list[int]] = {}
    beat = newest = None
    for page in pages:
        for t, k, v in page:
            first = t // SLIDE * SLIDE
            for start in (first - RANGE + SLIDE, first):
                if beat is None or start + RANGE - 1 > beat:
                    windows.setdefault((start, start + RANGE, k), []).append(v)
        newest = max([t for t, _, _ in page] + ([] if newest is None else [newest]), default=None)
        beat = None if newest is None else newest - SLACK - 1
        windows = {key: rows for key, rows in windows.items() if beat is None or key[1] - 1 > beat}
    return sorted((*key, len(rows), sum(rows), beat) for key, rows in windows.items())


@settings(max_examples=60)
@given(pages=st.lists(ROWS.filter(bool), min_size=1, max_size=6), restart=st.booleans())
def test_it_is_what_the_open_windows_have(
    tmp_path_factory: pytest.TempPathFactory, pages: list[list[tuple[int, str, int]]], restart: bool
) -> None:
    journal = tmp_path_factory.mktemp("journal") if restart else None
    run = Script.from_sql(WINDOWS, {"s": SPEC}, journal=journal)
    for number, page in enumerate(pages):
        run.page([dict(zip("tkv", row, strict=True)) for row in page], number=number)
        before = json.dumps(run.metrics(), default=str)
        assert state(run) == open_windows(pages[: number + 1])
        assert json.dumps(run.metrics(), default=str) == before
    if journal is not None:
        assert state(Script.from_sql(WINDOWS, {"s": SPEC}, journal=journal)) == open_windows(pages)


def test_of_sessions_and_of_no_windows(tmp_path: Path) -> None:
    run = Script.from_sql(SESSIONS, {"s": SPEC}, journal=tmp_path)
    run.page([{"t": 1, "k": "a", "v": 1}, {"t": 4, "k": "a", "v": 2}, {"t": 9, "k": "b", "v": 4}])
    wanted = [(1, 8, "a", 2, 3, 3), (9, 13, "b", 1, 4, 3)]
    assert state(run) == wanted
    assert state(Script.from_sql(SESSIONS, {"s": SPEC}, journal=tmp_path)) == wanted
    plain = Script.from_sql("SELECT t, k FROM s WHERE v > 1", {"s": SPEC})
    with pytest.raises(RunError, match="has no windows that end by time"):
        query_state(plain.executor.graph, "q")
