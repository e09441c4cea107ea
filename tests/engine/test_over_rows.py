"""OVER on the rows of a stream: random streams and lengths, against a recomputation of each row's frame."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import describe
from tests.kit.arcs import watched_arcs
from tests.kit.joins import Row
from tests.kit.several_streams import EVENTS, Came, Kind, World
from tests.kit.streams import Stream, bounded_streams
from tests.kit.streams_of_samples import A, plan, where

RANGE = "RANGE BETWEEN {} PRECEDING AND CURRENT ROW"


def over(length: int, *partition: str) -> str:
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    return f"OVER ({by}ORDER BY t {RANGE.format(length)})"


def frame_of(row: Row, rows: list[Row], length: int, partition: tuple[str, ...]) -> list[Row]:
    """SQL's frame: both ends included, all rows of the current instant, nulls in one partition."""
    return [r for r in rows if row["t"] - length <= r["t"] <= row["t"] and all(r[c] == row[c] for c in partition)]


def kind(length: int, other: int, partition: tuple[str, ...]) -> Kind:
    """Two frames, one of them twice, an expression over one, and the row's own columns."""
    first, second = over(length, *partition), over(other)
    columns = {
        "t": "t",
        "g": "g",
        "i": "i",
        "n": f"count(*) {first}",
        "top": f"coalesce(max(i) {first}, 0) + 1",
        "every": f"count(i) {second}",
    }
    query = L.Select((where(A, "t IS NOT NULL"),), tuple(columns.items()))

    def wanted(came: Came) -> list[Row]:
        rows, made = [r for r in came["a"].to_dicts() if r["t"] is not None], list[Row]()
        for row in rows:
            one, two = frame_of(row, rows, length, partition), frame_of(row, rows, other, ())
            top = max((r["i"] for r in one if r["i"] is not None), default=0) + 1
            every = sum(r["i"] is not None for r in two)
            made.append({**{c: row[c] for c in "tgi"}, "n": len(one), "top": top, "every": every})
        return made

    return Kind(query, wanted, ())


@settings(max_examples=80)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    kinds=st.lists(
        st.builds(kind, st.integers(0, 9), st.integers(0, 9), st.sampled_from([(), ("g",), ("g", "i")])),
        min_size=1,
        max_size=2,
    ),
    events=st.lists(EVENTS, max_size=20),
)
def test_each_row_has_the_aggregates_of_its_frame(
    streams: dict[str, Stream], kinds: list[Kind], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, None, kinds)
        world.play([*(("add", n) for n in range(len(kinds))), *events])
    world.check()


def test_explain_shows_both_parts() -> None:
    text = describe(plan(L.Select((A,), (("t", "t"), ("n", f"count(*) {over(5, 'g')}")))))
    assert "window range 6, for each row group by" in text and "left as-of join (backward)" in text


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("count(*) OVER (PARTITION BY g ORDER BY i)", "write ORDER BY t"),
        ("count(*) OVER (PARTITION BY g)", "write ORDER BY t"),
        ("count(*) OVER (ORDER BY t)", "say how far the window of a row reaches back"),
        ("count(*) OVER (ORDER BY t RANGE UNBOUNDED PRECEDING)", "say how far the window of a row reaches back"),
        (
            "count(*) OVER (ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
            "rows of one instant have no order",
        ),
        ("count(*) OVER (ORDER BY t RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)", "and no further"),
        ("rank() OVER (ORDER BY t RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)", "rank"),
    ],
)
def test_what_it_cannot_do_is_told(call: str, wrong: str) -> None:
    query: Any = L.Select((A,), (("t", "t"), ("n", call)))
    with pytest.raises(QueryError, match=wrong):
        plan(query)
