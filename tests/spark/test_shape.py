"""The number of tasks of a page's job is learned from what pages cost."""

from __future__ import annotations

from slackwater.spark.pages.shape import Shape


def run(shape: Shape, rows: int, one: float, many: float, pages: int) -> list[bool]:
    chosen = []
    for _ in range(pages):
        way = shape.one_task()
        chosen.append(way)
        shape.ran(way, rows, one if way else many)
    return chosen


def test_small_pages_are_one_task_whatever_they_cost() -> None:
    assert all(run(Shape(), 1_000, one=9.0, many=0.1, pages=50))


def test_large_pages_keep_the_faster_way_and_look_again_now_and_then() -> None:
    many = run(Shape(), 4_000_000, one=0.8, many=0.4, pages=70)
    assert many.count(True) <= 6
    one = run(Shape(), 1_000_000, one=0.2, many=0.4, pages=70)
    assert one.count(False) <= 6


def test_a_change_is_noticed() -> None:
    shape = Shape()
    run(shape, 1_000_000, one=0.2, many=0.4, pages=40)
    assert run(shape, 1_000_000, one=0.9, many=0.4, pages=120)[-30:].count(False) >= 28


def test_a_stream_that_shrinks_goes_back_to_one_task() -> None:
    shape = Shape()
    run(shape, 4_000_000, one=0.8, many=0.4, pages=10)
    assert run(shape, 500, one=0.1, many=0.1, pages=3)[1:] == [True, True]
