"""Rows that wait for time inside operators are counted (S2 section 2: the memory of a plan is what waits in it)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.plan import logical as L
from slackwater.testing import Script
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, select, union, windows


def join(left: L.Window, right: L.Window) -> L.Join:
    return L.Join((select(A, t="t", i="i"), select(B, j="i")), (left, right), "i = j", "inner")


#: Operators in which rows wait until time has passed them, each with how far above the heartbeat they may go out.
QUERIES = {
    "rows join": (join(L.Window(rows=3), L.Window(rows=3)), 0),
    "join of rows with a range": (join(L.Window(rows=3), L.Window(range=10)), 0),
    "ordered union": (L.Union((A, B), ordered=True), 1),
    "windows for each row": (windows(union(A, B), 10, None), 0),
}


@pytest.mark.parametrize("query", QUERIES)
@given(
    pages=st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 9), min_size=1, max_size=3)), max_size=12
    )
)
def test_s2_2_what_is_above_the_least_heartbeat_waits(query: str, pages: list[tuple[str, list[int]]]) -> None:
    """Each page lies above the ones before it of its stream, so no row is late."""
    logical, above = QUERIES[query]
    script = Script(plan(logical), strategy=sw.chain())
    came: dict[str, list[int]] = {"a": [], "b": []}
    for stream, times in pages:
        start = max(came[stream], default=0) + 1
        came[stream] += [start + time for time in times]
        script.page(frame([[start + time, "x", 0, 0.0, 1] for time in times]), stream=stream)
        passed = min(max(times) - 1 if times else -1 for times in came.values())
        waiting = [t for times in came.values() for t in times if t > passed + above or passed < 0]
        figures = script.metrics().values()
        assert sum(f["queued"] for f in figures) == 0
        assert sum(f["waiting_for_time"] for f in figures) == len(waiting)
    assert sum(f["waiting_for_time"] for f in script.drain().metrics().values()) == 0


def test_s2_2_rows_that_wait_are_counted_after_a_restart(tmp_path: Path) -> None:
    logical, _ = QUERIES["rows join"]
    script = Script(plan(logical), journal=tmp_path)
    for page in range(50):
        script.page(frame([[page, "a", 0, 0.0, page]]), stream="a")
    again = Script(plan(logical), journal=tmp_path)
    again.executor.resume()
    assert sum(f["waiting_for_time"] for f in again.metrics().values()) == 50


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("rows join", [0, 1, 1, 4, 4, 9]),
        ("windows for each row", [0, 2, 2, 4, 4, 6]),
        ("ordered union", [0, 2, 3, 4, 5, 6]),
    ],
)
def test_s3_4_1_simultaneous_rows_come_out_at_once_where_no_time_comes_twice_in_a_stream(
    query: str, counts: list[int]
) -> None:
    """With S3's registers the second row of an instant lets both go; `bounded(0)` may repeat a time, (0, 0) not."""
    unique, repeats = (
        Script(plan(QUERIES[query][0], dict.fromkeys("ab", policy)))
        for policy in (sw.skew([[(0, 0)]]), sw.bounded(0))
    )
    came: tuple[list[int], list[int]] = ([], [])
    for time, stream in ((1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"), (3, "b")):
        for script, found in zip((unique, repeats), came, strict=True):
            script.page(frame([[time, "a", 0, 0.0, 7]]), stream=stream)
            found.append(len(script.results))
    assert came[0] == counts
    assert came[1][-1] < counts[-1] or query == "ordered union"
    assert unique.drain().results == repeats.drain().results
