"""Windows closed ahead of their turn by range punctuations (S5 section 6.2), against a plain set of windows."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.operators.late_counts import MOST, LateCounts
from slackwater.operators.page import Page
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.operators.window_settings import WindowSettings
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, TimeDomain
from slackwater.testing import arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from slackwater.windows.closed import Closed
from slackwater.windows.spec import WindowSpec
from tests.kit.streams import SAMPLE, WINDOWS, frame

SEEN = range(-100, 100)
TICKS = st.integers(-40, 40)
STEPS = st.lists(st.one_of(TICKS, st.tuples(TICKS, st.one_of(TICKS, st.just(MAX_TICK)))), max_size=8)


def windows_of(closed: Closed) -> set[int]:
    done = {w for w in SEEN if closed.emitted_through is not None and w <= closed.emitted_through}
    return done | {w for first, last in closed.ahead for w in SEEN if first <= w <= last}


@given(WINDOWS, STEPS)
def test_closed_windows_are_those_that_a_punctuation_has_passed_or_a_range_contains(
    window: tuple[int, int], steps: list[Any]
) -> None:
    spec, closed = WindowSpec(*window), Closed()
    model: set[int] = set()
    for step in steps:
        if isinstance(step, int):
            after = closed.advanced(spec, Heartbeat(step), None)
            inside = {w for w in SEEN if spec.bounds(w)[1] - 1 <= step}
        else:
            low, high = step
            after = closed.ranged(spec, low, Heartbeat(high))
            inside = {w for w in SEEN if low < spec.bounds(w)[0] and spec.bounds(w)[1] - 1 <= high}
        newly = [windows_of(a) - windows_of(b) for b, a in closed.steps(after)]
        assert sum(map(len, newly)) == len(set().union(*newly)), "each window once"
        assert set().union(*newly) == inside - model
        model |= inside
        closed = after
        assert windows_of(closed) == model
        panes = pl.DataFrame({PANE: range(-40, 40)})
        needed = {p for p in panes[PANE] if any(w not in model for w in _windows(spec, p))}
        assert set(closed.open_panes(panes, spec, PANE, pl.lit(None))[PANE]) == needed


def _windows(spec: WindowSpec, pane: int) -> range:
    return range(spec.first_window(pane), spec.last_window(pane) + 1)


def test_a_row_that_is_late_for_a_window_closed_ahead_is_counted_and_sent_on() -> None:
    plan: Any = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")
    operator, given_out = WindowAggregate("w", plan, ManualClock(), WindowSettings(route_late=True)), []
    operator.pages = ArrowPages()

    def emit(element: Any, port: str = "main") -> None:
        assert isinstance(element, Page)
        given_out.append((port, operator.pages.payload(element).to_pylist()))

    operator.on_page(arrow_page(frame([[5], [25], [35]]), 0, 0, "t"), emit)
    operator.on_punctuation(Punctuation(Heartbeat.NONE, ranges=((19, 39),)), emit)
    assert [(port, [r["window_start"] for r in rows]) for port, rows in given_out] == [("main", [20, 30])]
    operator.on_page(arrow_page(frame([[8], [31], [15], [45]]), 1, 0, "t"), emit)
    assert [(port, [r["t"] for r in rows]) for port, rows in given_out[1:]] == [("late", [31])]
    assert (operator.metrics()["late_rows"], operator.metrics()["lost_pairs"]) == (1, 1)
    operator.on_punctuation(Punctuation(Heartbeat(49)), emit)
    finals = [(r["window_start"], r["n"]) for _, rows in given_out[2:] for r in rows]
    assert finals == [(0, 2), (10, 1), (40, 1)]


def test_what_windows_closed_ahead_have_lost_is_counted_by_source_and_for_the_latest_windows_only() -> None:
    counts = LateCounts(WindowSpec(10, 10), TimeDomain.SEQUENCE)
    closed = Closed(emitted_through=0, ahead=((2, 2 * MOST),))
    schema = {PANE: pl.Int64, SOURCE: pl.String, ROWS: pl.Int64}
    page = pl.DataFrame([[0, "a", 1], [1, "a", 1], [2, "a", 3], [2, "b", 4]], schema=schema, orient="row")
    assert counts.count(page, closed, "q", 0).lost == 8
    assert (counts.rows, counts.pairs, counts.all_pairs) == (8, 8, 9)
    assert counts.metrics()["late_by_source"] == {"a": 4, "b": 4}
    assert counts.metrics()["lost_by_window"] == {"0": 1, "20": 7}
    everywhere = pl.DataFrame({PANE: range(2, 2 * MOST), SOURCE: "a", ROWS: 1}, schema=schema)
    counts.count(everywhere, closed, "q", 1)
    _, _, _, _, by_window, _ = counts.state()
    assert [by_window[0], by_window[-1], len(by_window)] == [(MOST, 1), (2 * MOST - 1, 1), MOST]
