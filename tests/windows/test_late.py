"""Rows behind the bound, against a replay of the heartbeat row by row.

A window is emitted once the heartbeat has passed its end; a row counts for exactly the windows that were not
emitted when its page came, and is late if there was one (D3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.kit.streams import SAMPLE, SCHEMA, WINDOWS, Stream, frame, unbounded_streams

Row = dict[str, Any]
AGGREGATES = {"n": "count(*)", "total": "sum(x)"}


@dataclass
class Replayed:
    """What should come out, made row by row in plain Python."""

    spec: WindowSpec
    slack: int
    keep: Callable[[Row], bool] = lambda row: True
    highest: int | None = None
    counted: dict[tuple[int, str | None], list[float | None]] = field(default_factory=dict)
    late_rows: int = 0
    lost_pairs: int = 0
    missing: int = 0
    routed: list[Row] = field(default_factory=list)

    def emitted(self, window: int) -> bool:
        return self.highest is not None and self.highest - self.slack - 1 >= self.spec.bounds(window)[1] - 1

    def page(self, rows: list[Row]) -> None:
        for row in filter(self.keep, rows):
            if row["t"] is None:
                self.routed.append(row)
                continue
            around = range(-60 // self.spec.slide - self.spec.range, 60 // self.spec.slide + 2)
            mine = [k for k in around if self.spec.bounds(k)[0] <= row["t"] < self.spec.bounds(k)[1]]
            lost = [k for k in mine if self.emitted(k)]
            self.lost_pairs += len(lost)
            self.late_rows += bool(lost)
            if lost:
                self.routed.append(row)
            for k in set(mine) - set(lost):
                self.counted.setdefault((k, row["g"]), []).append(row["x"])
        times = [row["t"] for row in rows if row["t"] is not None]
        self.missing += len(rows) - len(times)
        self.highest = max([*times, *([] if self.highest is None else [self.highest])], default=None)

    def results(self, all_windows: bool = False) -> set[tuple[Any, ...]]:
        """Windows emitted so far, or all of them."""
        found = set()
        for (k, g), values in self.counted.items():
            if all_windows or self.emitted(k):
                known = [x for x in values if x is not None]
                found.add((*self.spec.bounds(k), g, len(values), sum(known) if known else None))
        return found


def results_of(script: Script) -> list[tuple[Any, ...]]:
    return [(r["window_start"], r["window_end"], r["g"], r["n"], r["total"]) for r in script.results]


def as_bag(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[c] for c in SCHEMA) for row in rows)


def check(stream: Stream, spec: WindowSpec, where: str | None, keep: Callable[[Row], bool]) -> None:
    grows = isinstance(spec, CumulateSpec)
    plan = arrow_plan(
        SAMPLE,
        spec.range,
        None if grows else spec.slide,
        spec.offset,
        step=spec.slide if grows else None,
        group_by=["g"],
        where=where,
        disorder=bounded(stream.slack),
        **AGGREGATES,
    )
    late = ListSink()
    script, wanted = Script(plan, late=late), Replayed(spec, stream.slack, keep)
    for page in stream.pages:
        script.page(page)
        wanted.page(page.to_dicts())
        got = results_of(script)
        assert len(got) == len(set(got))
        assert set(got) == wanted.results()
        figures = script.metrics()
        assert figures["q/window"]["late_rows"] == wanted.late_rows
        assert figures["q/window"]["lost_pairs"] == wanted.lost_pairs
        assert figures["source:s"]["missing_time"] == wanted.missing
        assert figures["source:s"]["highest"] == wanted.highest
        assert as_bag(late.rows) == as_bag(wanted.routed)
    got = results_of(script.drain())
    assert len(got) == len(set(got))
    assert set(got) == wanted.results(all_windows=True)
    assert figures["q/window"]["late_rows"] == script.metrics()["q/window"]["late_rows"]


@settings(max_examples=120)
@given(unbounded_streams(), WINDOWS, st.integers(0, 5))
@example(Stream([frame([[0]]), frame([[-5]])], 0), (1, 1), 0)
def test_a_row_is_lost_to_exactly_the_windows_that_were_emitted_before_its_page(
    stream: Stream, window: tuple[int, int], offset: int
) -> None:
    spec = WindowSpec(*window, offset % window[1])
    check(stream, spec, None, lambda row: True)


@given(unbounded_streams(), st.integers(1, 6), st.integers(1, 5), st.integers(0, 30))
def test_a_row_is_lost_to_the_steps_that_were_emitted_before_its_page(
    stream: Stream, step: int, steps: int, offset: int
) -> None:
    check(stream, CumulateSpec(step * steps, step, offset % (step * steps)), None, lambda row: True)


@given(unbounded_streams(), st.integers(1, 6), st.integers(1, 9))
def test_a_row_between_windows_is_not_late(stream: Stream, length: int, more: int) -> None:
    check(stream, WindowSpec(length, length + more), None, lambda row: True)


@settings(max_examples=80)
@given(unbounded_streams(), WINDOWS)
def test_rows_that_a_filter_drops_move_time_and_are_never_late(stream: Stream, window: tuple[int, int]) -> None:
    check(stream, WindowSpec(*window), "x >= 0", lambda row: row["x"] is not None and row["x"] >= 0)


def test_the_heartbeat_follows_the_pages_before_not_the_page_itself() -> None:
    """Inside one page order does not matter: its statistics come out of the job that does its work."""
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")).page(frame([[100], [3]]))
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 1)]
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_a_late_row_still_counts_for_the_windows_that_are_open() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 5, disorder=bounded(0), n="count(*)"))
    script.page(frame([[11]])).page(frame([[7]])).drain()
    assert [(r["window_start"], r["n"]) for r in script.results] == [(5, 2), (10, 1)]
    figures = script.metrics()["q/window"]
    assert (figures["late_rows"], figures["lost_pairs"]) == (1, 1)


def test_rows_without_a_time_go_to_the_late_sink_and_count_for_no_window() -> None:
    late = ListSink()
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"), late=late)
    script.page(frame([[None, "a"], [5, "b"], [None, "c"]])).drain()
    assert [row["g"] for row in late.rows] == ["a", "c"]
    assert [row["n"] for row in script.results] == [1]
    assert script.metrics()["source:s"]["missing_time"] == 2
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_a_page_without_any_time_moves_nothing() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"))
    script.page(frame([[5]])).page(frame([[None], [None]]))
    assert script.results == []
    assert script.metrics()["source:s"]["heartbeat"] == 4


def test_without_a_late_sink_late_rows_are_counted_only() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"))
    script.page(frame([[50]])).page(frame([[1], [2], [None]]))
    assert script.metrics()["q/window"]["late_rows"] == 2
    assert "q/late" not in script.metrics()


def test_the_late_sink_gets_the_columns_of_the_projection() -> None:
    late = ListSink()
    plan = arrow_plan(
        SAMPLE, 10, 10, disorder=bounded(0), select={"twice": "h * 2"}, n="count(*)", top="max(twice)"
    )
    Script(plan, late=late).page(frame([[50, "a", 1]])).page(frame([[3, "b", 4]]))
    assert late.rows == [{"twice": 8}]


@pytest.mark.parametrize("window", [(1, 1), (7, 3), (10, 10)])
def test_after_the_end_every_row_is_late(window: tuple[int, int]) -> None:
    late = ListSink()
    script = Script(arrow_plan(SAMPLE, *window, disorder=bounded(0), n="count(*)"), late=late)
    script.page(frame([[5]])).drain()
    before = len(script.results)
    script.page(frame([[6], [1_000_000], [-3]])).drain()
    assert len(script.results) == before
    assert script.metrics()["q/window"]["late_rows"] == 3
    assert sorted(row["t"] for row in late.rows) == [-3, 6, 1_000_000]


def test_the_highest_time_seen_does_not_go_back_below_zero() -> None:
    script = (
        Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")).page(frame([[0]])).page(frame([[-5]]))
    )
    assert script.metrics()["source:s"]["highest"] == 0


def test_nothing_is_written_when_a_filter_has_dropped_the_rows_without_a_time() -> None:
    late = ListSink()
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), where="x > 0", n="count(*)")
    script = Script(plan, late=late).page(frame([[None, "a", 0, -1.0], [5, "b", 0, 1.0]]))
    assert late.commits == {}
    assert script.metrics()["source:s"]["missing_time"] == 1
