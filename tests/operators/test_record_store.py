"""The slack buffer gives rows back in the order of time, each once, whatever the cells: S4's circular array."""

from __future__ import annotations

from typing import Any
from unittest import mock

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.columns import TIME
from slackwater.operators import slack_buffer
from slackwater.operators.slack_buffer import SlackBuffer, in_time_order
from tests.kit import streams  # noqa: F401  (the profile)

TIMES = st.one_of(st.integers(-20, 20), st.integers(-20, 20), st.integers(-(2**50), 2**50))
STEPS = st.lists(st.one_of(TIMES, st.lists(TIMES, max_size=12)), max_size=20)


def rows(times: list[int], first: int) -> pl.DataFrame:
    return pl.DataFrame(
        {TIME: times, "n": list(range(first, first + len(times)))}, schema={TIME: pl.Int64, "n": pl.Int64}
    )


def run(steps: list[Any]) -> None:
    """Pages and heartbeats, beside a plain list of all rows that is sorted anew each time."""
    buffer, waiting, came, heartbeat = SlackBuffer(), [], 0, -(2**63)
    for step in steps:
        if isinstance(step, list):
            page = rows([t for t in step if t > heartbeat], came)
            waiting += page.rows()
            came += page.height
            buffer.add(in_time_order(page))
        elif step > heartbeat:
            heartbeat = step
            got = buffer.release(heartbeat)
            assert ([] if got is None else got.rows()) == sorted(r for r in waiting if r[0] <= heartbeat)
            waiting = [r for r in waiting if r[0] > heartbeat]
        assert buffer.rows == len(waiting)
        every = buffer.all()
        assert sorted([] if every is None else every.rows()) == sorted(waiting)


@settings(max_examples=80)
@given(STEPS)
def test_rows_come_out_in_order_once_the_heartbeat_has_passed_them(steps: list[Any]) -> None:
    run(steps)


@settings(max_examples=80)
@given(STEPS)
def test_the_size_of_cells_changes_nothing(steps: list[Any]) -> None:
    with (
        mock.patch.object(slack_buffer, "_CELLS_PER_PAGE", 2),
        mock.patch.object(slack_buffer, "_MOST_CELLS", 2),
        mock.patch.object(slack_buffer, "_MOST_SLICES", 2),
    ):
        run(steps)


def test_cells_stay_few_when_pages_cover_more_and_more_time() -> None:
    buffer = SlackBuffer()
    for step in (1, 100, 10_000, 1_000_000):
        buffer.add(rows([n * step for n in range(2_000)], 0))
        assert buffer.cells <= slack_buffer._MOST_CELLS
    assert buffer.rows == 8_000


def test_only_the_cell_that_the_heartbeat_cuts_is_split() -> None:
    buffer = SlackBuffer()
    buffer.add(rows(list(range(1_600)), 0))
    before = {cell: slices[0] for cell, slices in buffer._cells.items()}
    released = buffer.release(830)
    assert released is not None
    assert released.height == 831
    same = [cell for cell, slices in buffer._cells.items() if slices[0] is before[cell]]
    assert len(same) == buffer.cells - 1


def test_a_row_far_ahead_does_not_hold_on_to_its_page() -> None:
    buffer = SlackBuffer()
    buffer.add(rows([*range(10_000), 10**9], 0))
    buffer.release(10_000)
    left = buffer.all()
    assert left is not None
    assert left.height == 1
    assert left.to_arrow().get_total_buffer_size() < 1_000
