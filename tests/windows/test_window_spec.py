"""Pane arithmetic against brute force: every window and pane is written out tick by tick and looked at."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.kit.streams import WINDOWS

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP


@st.composite
def specs(draw: st.DrawFn) -> WindowSpec:
    length, slide = draw(WINDOWS)
    return WindowSpec.of(SEQUENCE, length, slide, draw(st.integers(-50, 50)))


@st.composite
def growing(draw: st.DrawFn) -> WindowSpec:
    step, steps = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    return CumulateSpec.of_steps(SEQUENCE, step, step * steps, draw(st.integers(-50, 50)))


def covering(spec: WindowSpec, tick: int) -> set[int]:
    """Windows that have a tick, found by trying them all."""
    reach = (abs(tick) + spec.range + abs(spec.offset)) // spec.slide + 2
    return {k for k in range(-reach, reach + 1) if spec.bounds(k)[0] <= tick < spec.bounds(k)[1]}


@given(st.one_of(specs(), growing()), st.integers(-200, 200))
def test_a_tick_is_in_exactly_the_windows_that_cover_its_pane(spec: WindowSpec, tick: int) -> None:
    pane = spec.pane_of(tick)
    assert set(range(spec.first_window(pane), spec.last_window(pane) + 1)) == covering(spec, tick)


@given(specs(), st.integers(-200, 200))
def test_a_pane_holds_its_ticks_and_no_others(spec: WindowSpec, tick: int) -> None:
    pane = spec.pane_of(tick)
    start = spec.offset + pane * spec.pane
    assert start <= tick < start + spec.pane
    assert {spec.pane_of(t) for t in range(start, start + spec.pane)} == {pane}
    assert spec.pane_of(start - 1) == pane - 1
    assert spec.pane_of(start + spec.pane) == pane + 1


@given(specs(), st.integers(-50, 50))
def test_a_window_is_a_whole_number_of_panes(spec: WindowSpec, window: int) -> None:
    start, end = spec.bounds(window)
    first, beyond = spec.panes(window)
    assert {spec.pane_of(t) for t in range(start, end)} == set(range(first, beyond))
    assert beyond - first == spec.panes_per_window
    assert spec.panes(window + 1)[0] - first == spec.panes_per_slide


@given(growing(), st.integers(-200, 200))
def test_a_window_that_grows_begins_with_its_row_of_windows(spec: WindowSpec, window: int) -> None:
    start, end = spec.bounds(window)
    assert (start - spec.offset) % spec.range == 0
    assert 0 < end - start <= spec.range and (end - start) % spec.slide == 0
    assert spec.bounds(window + 1)[1] == end + spec.slide
    after = spec.next_begin(start)
    assert spec.bounds(after)[0] == start + spec.range and spec.bounds(after - 1)[0] == start


@given(st.one_of(specs(), growing()), st.integers(-100, 100))
def test_first_and_last_window_of_a_pane_are_those_that_list_it(spec: WindowSpec, pane: int) -> None:
    around = range(-400, 400)
    listing = [k for k in around if spec.panes(k)[0] <= pane < spec.panes(k)[1]]
    assert (listing[0], listing[-1]) == (spec.first_window(pane), spec.last_window(pane))
    assert listing == list(range(listing[0], listing[-1] + 1))


@given(st.one_of(specs(), growing()), st.integers(-200, 200))
def test_last_closed_is_the_latest_window_with_no_tick_above_the_heartbeat(spec: WindowSpec, tick: int) -> None:
    heartbeat = Heartbeat(tick)
    last = spec.last_closed(heartbeat)
    assert heartbeat.closes(spec.bounds(last)[1])
    assert not heartbeat.closes(spec.bounds(last + 1)[1])
    assert not any(heartbeat.admits(t) for t in range(*spec.bounds(last)))
    assert any(heartbeat.admits(t) for t in range(*spec.bounds(last + 1)))


@given(specs(), st.integers(-200, 200), st.integers(0, 50))
def test_last_closed_grows_with_the_heartbeat(spec: WindowSpec, tick: int, more: int) -> None:
    assert spec.last_closed(Heartbeat(tick)) <= spec.last_closed(Heartbeat(tick + more))


@given(specs())
def test_no_heartbeat_closes_nothing_and_the_end_closes_every_window_of_the_domain(spec: WindowSpec) -> None:
    assert spec.bounds(spec.last_closed(Heartbeat.NONE))[1] <= Heartbeat.NONE.tick + 1
    assert spec.bounds(spec.last_closed(Heartbeat.END))[1] > Heartbeat.END.tick + 1 - spec.slide


@given(specs(), st.integers(-200, 200))
def test_windows_lie_as_sparks_window_function_lays_them(spec: WindowSpec, tick: int) -> None:
    """Spark's TimeWindowing: the last start is t − ((t − offset) mod slide), the others lie slides before it."""
    last_start = tick - (tick - spec.offset) % spec.slide
    starts = {last_start - i * spec.slide for i in range(-(-spec.range // spec.slide))}
    wanted = {s for s in starts if s <= tick < s + spec.range}
    assert {spec.bounds(k)[0] for k in covering(spec, tick)} == wanted


@given(WINDOWS, st.integers(-1000, 1000))
def test_an_offset_counts_modulo_the_slide(window: tuple[int, int], offset: int) -> None:
    length, slide = window
    spec = WindowSpec.of(SEQUENCE, length, slide, offset)
    assert 0 <= spec.offset < slide
    assert spec == WindowSpec.of(SEQUENCE, length, slide, offset + 7 * slide)


def test_seven_by_three_has_panes_of_one_tick() -> None:
    spec = WindowSpec.of(SEQUENCE, 7, 3, None)
    assert (spec.pane, spec.panes_per_window, spec.panes_per_slide) == (1, 7, 3)
    assert covering(spec, 0) == {-2, -1, 0}
    assert covering(spec, -1) == {-2, -1}


def test_with_a_slide_of_their_range_windows_tumble() -> None:
    spec = WindowSpec.of(TIMESTAMP, "10 minutes", "10 minutes", None)
    assert spec == WindowSpec(600_000_000, 600_000_000)
    assert spec.panes_per_window == spec.panes_per_slide == 1


def test_spans_of_a_timestamp_window_are_microseconds() -> None:
    spec = WindowSpec.of(TIMESTAMP, "30 minutes", "10 minutes", "1 minute")
    assert spec == WindowSpec(1_800_000_000, 600_000_000, 60_000_000)


@pytest.mark.parametrize(
    ("length", "slide", "says"),
    [
        (0, 1, "size=0 must be positive"),
        (-5, 1, "size=-5 must be positive"),
        (5, 0, "slide=0 must be positive; windows tumble without a slide"),
        (5, -1, "slide=-1 must be positive"),
        (
            10**8,
            1,
            r"slide=1: each row would be in 100,000,000 windows of size=100000000; at most 1,000,000 can be",
        ),
        ("5 seconds", 5, "size='5 seconds': the time column is an integer.*size=100"),
        (5, 1.5, "slide=1.5: the time column is an integer"),
        (True, 1, "size=True: the time column is an integer"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(length: object, slide: object, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        WindowSpec.of(SEQUENCE, length, slide, None)  # type: ignore[arg-type]


def test_a_number_for_a_timestamp_window_is_refused() -> None:
    with pytest.raises(QueryError, match=r"size=5: the time column is a timestamp.*size='30 minutes'"):
        WindowSpec.of(TIMESTAMP, 5, 5, None)


@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.booleans(),
    st.dictionaries(st.integers(-50, 80), st.integers(1, 9), max_size=8),
)
def test_rows_by_window_counts_each_row_in_all_of_its_windows(
    length: int, slide: int, grows: bool, rows: dict[int, int]
) -> None:
    spec = CumulateSpec(length * slide, slide) if grows else WindowSpec(length, slide, length % slide)
    expected: Counter[int] = Counter()
    for pane, count in rows.items():
        for window in range(spec.first_window(pane), spec.last_window(pane) + 1):
            expected[spec.bounds(window)[1] - 1] += count
    last_ticks, counted = spec.rows_by_window(np.array([*rows], dtype=np.int64), np.array([*rows.values()]))
    assert dict(zip(last_ticks.tolist(), counted.tolist(), strict=True)) == expected
    assert sorted(expected) == last_ticks.tolist()
