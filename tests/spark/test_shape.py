"""The number of tasks of a page's job is learned from what pages cost."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from slackwater.spark.pages.one_task import SideBySide
from slackwater.spark.pages.shape import Shape, Way


def run(shape: Shape, rows: int, costs: dict[Way, float], pages: int, files: int = 1) -> list[Way]:
    chosen = []
    for _ in range(pages):
        way = shape.way(files)
        chosen.append(way)
        shape.ran(way, files, rows, costs[way])
    return chosen


def test_small_pages_are_one_task_whatever_they_cost() -> None:
    for files in (1, 5):
        ways = run(Shape(), 1_000, {Way.ONE: 9.0, Way.MANY: 0.1, Way.PARTS: 0.1}, 50, files)
        assert set(ways) == {Way.ONE}


def test_large_pages_keep_the_faster_way_and_look_again_now_and_then() -> None:
    many = run(Shape(), 4_000_000, {Way.ONE: 0.8, Way.MANY: 0.4}, 70)
    assert many.count(Way.ONE) <= 6
    one = run(Shape(), 1_000_000, {Way.ONE: 0.2, Way.MANY: 0.4}, 70)
    assert one.count(Way.MANY) <= 6


def test_large_pages_of_several_files_go_in_parts_unless_that_is_slower() -> None:
    costs = {Way.ONE: 0.8, Way.PARTS: 0.4, Way.MANY: 0.6}
    parts = run(Shape(), 4_000_000, costs, 70, files=4)
    assert parts[0] is Way.ONE  # its size is not known
    assert set(parts[1 : Shape.PATIENCE]) == {Way.PARTS}
    assert 1 <= parts.count(Way.MANY) <= 6 and Way.ONE not in parts[1:]
    many = run(Shape(), 4_000_000, costs | {Way.MANY: 0.2}, 70, files=4)
    assert many[Shape.PATIENCE + 1 :].count(Way.PARTS) <= 3


def test_what_pages_of_one_file_cost_says_nothing_of_several() -> None:
    shape = Shape()
    run(shape, 1_000_000, {Way.ONE: 0.9, Way.MANY: 0.2}, 10)
    assert shape.way(3) is Way.PARTS


def test_a_change_is_noticed() -> None:
    shape = Shape()
    run(shape, 1_000_000, {Way.ONE: 0.2, Way.MANY: 0.4}, 40)
    assert run(shape, 1_000_000, {Way.ONE: 0.9, Way.MANY: 0.4}, 120)[-30:].count(Way.MANY) >= 28


def test_a_stream_that_shrinks_goes_back_to_one_task() -> None:
    shape = Shape()
    run(shape, 4_000_000, {Way.ONE: 0.8, Way.MANY: 0.4}, 10)
    assert run(shape, 500, {Way.ONE: 0.1, Way.MANY: 0.1}, 3)[1:] == [Way.ONE, Way.ONE]


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
