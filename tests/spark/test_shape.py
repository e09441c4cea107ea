"""The number of tasks of a page's job is learned from what pages cost."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from slackwater.spark.backend.layout import Layout, TaskLayout
from slackwater.spark.backend.one_task import SideBySide


def run(shape: TaskLayout, rows: int, costs: dict[Layout, float], pages: int, files: int = 1) -> list[Layout]:
    chosen = []
    for _ in range(pages):
        way = shape.way(files)
        chosen.append(way)
        shape.ran(way, files, rows, costs[way])
    return chosen


def test_small_pages_are_one_task_whatever_they_cost() -> None:
    for files in (1, 5):
        ways = run(TaskLayout(), 1_000, {Layout.ONE: 9.0, Layout.MANY: 0.1, Layout.PARTS: 0.1}, 50, files)
        assert set(ways) == {Layout.ONE}


def test_large_pages_keep_the_faster_way_and_look_again_now_and_then() -> None:
    many = run(TaskLayout(), 4_000_000, {Layout.ONE: 0.8, Layout.MANY: 0.4}, 70)
    assert many.count(Layout.ONE) <= 6
    one = run(TaskLayout(), 1_000_000, {Layout.ONE: 0.2, Layout.MANY: 0.4}, 70)
    assert one.count(Layout.MANY) <= 6


def test_large_pages_of_several_files_go_in_parts_unless_that_is_slower() -> None:
    costs = {Layout.ONE: 0.8, Layout.PARTS: 0.4, Layout.MANY: 0.6}
    parts = run(TaskLayout(), 4_000_000, costs, 70, files=4)
    assert parts[0] is Layout.ONE  # its size is not known
    assert set(parts[1 : TaskLayout.PATIENCE]) == {Layout.PARTS}
    assert 1 <= parts.count(Layout.MANY) <= 6 and Layout.ONE not in parts[1:]
    many = run(TaskLayout(), 4_000_000, costs | {Layout.MANY: 0.2}, 70, files=4)
    assert many[TaskLayout.PATIENCE + 1 :].count(Layout.PARTS) <= 3


def test_what_pages_of_one_file_cost_says_nothing_of_several() -> None:
    shape = TaskLayout()
    run(shape, 1_000_000, {Layout.ONE: 0.9, Layout.MANY: 0.2}, 10)
    assert shape.way(3) is Layout.PARTS


def test_a_change_is_noticed() -> None:
    shape = TaskLayout()
    run(shape, 1_000_000, {Layout.ONE: 0.2, Layout.MANY: 0.4}, 40)
    assert run(shape, 1_000_000, {Layout.ONE: 0.9, Layout.MANY: 0.4}, 120)[-30:].count(Layout.MANY) >= 28


def test_a_stream_that_shrinks_goes_back_to_one_task() -> None:
    shape = TaskLayout()
    run(shape, 4_000_000, {Layout.ONE: 0.8, Layout.MANY: 0.4}, 10)
    assert run(shape, 500, {Layout.ONE: 0.1, Layout.MANY: 0.1}, 3)[1:] == [Layout.ONE, Layout.ONE]


def test_jobs_run_at_the_same_time_and_the_first_error_is_raised_when_all_have_ended() -> None:
    side_by_side, both, ended = SideBySide(), threading.Barrier(2), list[int]()

    def meet(number: int) -> int:
        both.wait(timeout=10)
        ended.append(number)
        if number == 2:
            raise ValueError("two")
        return number

    assert side_by_side.run([partial(meet, 1), partial(meet, 3)]) == [1, 3]
    with pytest.raises(ValueError, match="two"):
        side_by_side.run([partial(meet, 2), partial(meet, 4)])
    assert sorted(ended) == [1, 2, 3, 4]


def test_at_the_end_of_a_program_jobs_run_one_after_another() -> None:
    side_by_side = SideBySide()
    assert side_by_side.run([lambda: 1, lambda: 2]) == [1, 2]
    assert side_by_side._threads is not None
    side_by_side._threads.shutdown()
    assert side_by_side.run([lambda: 1, lambda: 2]) == [1, 2]
