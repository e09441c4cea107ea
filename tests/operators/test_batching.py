"""Waiting pages of a stream are taken as one, as many as make the rows a second grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.build import source_label
from slackwater.engine.queue import Entry, Queue
from slackwater.operators.backend import Done, Folded
from slackwater.operators.batching import AdaptiveBatches
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.progress.arrival import sketch_of
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.testing import arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages, Script
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, finals

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}

PAGES = ArrowPages()


class Machine:
    """Work on pages takes a time for each job and each page, and more a page the more there are of them."""

    def __init__(self, job: float, page: float, crowd: float = 0.0) -> None:
        self.now, self.job, self.page, self.crowd = 0.0, job, page, crowd
        self.took: list[int] = []

    def work(self, page: Page, pages: int) -> None:
        PAGES.measure(page)
        self.now += self.job + pages * (self.page + self.crowd * pages)
        self.took.append(pages)


def page(number: int) -> Page:
    return arrow_page(pl.DataFrame({"t": [number] * 10}), number, 0, "t")


def worked(machine: Machine, waiting: int) -> list[int]:
    queue, together = Queue(), AdaptiveBatches(clock=lambda: machine.now)
    for n in range(waiting):
        queue.push(Entry(page(n), n))
    while len(queue):
        machine.work(*together.take(queue, PAGES))
    assert sum(machine.took) == waiting
    return machine.took


def test_the_fixed_cost_of_a_job_is_shared_by_all_that_wait() -> None:
    took = worked(Machine(job=1.0, page=0.01), 200)
    assert took[:4] == [1, 4, 16, 32]
    assert max(took) == 32


def test_no_more_are_taken_than_pay() -> None:
    # Cheapest a page is 1/n + n/16: four at a time.
    took = worked(Machine(job=1.0, page=0.0, crowd=1 / 16), 200)
    assert took[:4] == [1, 4, 16, 4]
    assert sorted(took)[len(took) // 2] == 4


def test_where_one_costs_least_pages_stay_apart() -> None:
    took = worked(Machine(job=0.0, page=0.1, crowd=0.1), 100)
    assert sum(n == 1 for n in took) > 0.8 * len(took)


@pytest.mark.parametrize(("waiting", "took"), [(2, [2]), (3, [3]), (5, [4, 1]), (7, [4, 3]), (11, [8, 3])])
def test_all_cores_are_kept_busy_where_several_pages_are_taken(waiting: int, took: list[int]) -> None:
    pages = ArrowPages()
    pages.here.cores = 4
    queue, together = Queue(), AdaptiveBatches(clock=lambda: 0.0)
    together._cost, together._groups = {1: 4.0, 8: 1.0, 16: 2.0}, 1
    for n in range(waiting):
        queue.push(Entry(page(n), n))
    assert [together.take(queue, pages)[1] for _ in took] == took


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_after_the_first_page_groups_have_a_page_for_each_core(cores: int) -> None:
    pages = ArrowPages()
    pages.here.cores = cores
    queue, together = Queue(), AdaptiveBatches(clock=lambda: 0.0)
    for n in range(9):
        queue.push(Entry(page(n), n))
    assert [together.take(queue, pages)[1] for _ in range(2)] == [1, cores]


def test_a_prod_is_not_overtaken() -> None:
    queue, together = Queue(), AdaptiveBatches(clock=lambda: 0.0)
    together._cost, together._groups = {1: 2.0, 4: 1.0}, 1
    for n, element in enumerate((page(0), page(1), page(2), Prod(), page(3))):
        queue.push(Entry(element, n))
    assert together.take(queue, PAGES)[1] == 3
    assert isinstance(queue.pop(), Prod)


def test_pages_before_and_after_a_new_operator_stay_apart() -> None:
    queue = Queue()
    together = AdaptiveBatches(apart=lambda first, last: first < 2 <= last, clock=lambda: 0.0)
    together._cost, together._groups = {1: 2.0, 4: 0.5}, 1
    for n in range(4):
        queue.push(Entry(page(n), n))
    assert [together.take(queue, PAGES)[1] for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(("policy", "sketched"), [(bounded(0), 4), (drop_ratio(0.01), 40)])
def test_a_sketch_for_people_is_made_of_few_rows_also_where_pages_are_taken_together(
    monkeypatch: pytest.MonkeyPatch, policy: Disorder, sketched: int
) -> None:
    rows, sample = list[int](), pl.DataFrame({"t": [0]})
    script = Script(arrow_plan(sample, 10, 10, disorder=policy, n="count(*)"), batch_pages=True)
    batching = script.executor.graph.nodes[source_label("s")].operator._batching  # type: ignore[attr-defined]
    batching._cost, batching._clock = {1: 4.0, 4: 1.0, 16: 9.0}, count(step=1_000.0).__next__

    def spy(times: Any) -> bytes:
        rows.append(len(times))
        return sketch_of(times)

    monkeypatch.setattr("slackwater.testing.backend.sketch_of", spy)
    for number in range(40):
        script.executor.admit(source_label("s"), arrow_page(sample + 10 * number, number, 0, "t"))
    script.executor.run_until_idle()
    assert sum(rows) == sketched


class Narrow(ArrowBackend):
    """Room for so many partials of a pane and a group."""

    def __init__(self, pane: int, most: int) -> None:
        super().__init__()
        self._pane, self._most = pane, most
        self.partials: list[int] = []

    def merge(self, pages: Sequence[Page]) -> Page | None:
        rows = pl.concat([self.frame(page) for page in pages])
        partials = rows.select(pl.col("t") // self._pane, "g").n_unique()
        return super().merge(pages) if partials <= self._most else None

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        done = super().fold(page, kernels)
        self.partials += [folded.partials.height for folded in done.value.values()]
        return done


def test_no_more_are_taken_than_have_room_for_what_they_come_down_to() -> None:
    # Each page has one pane with two groups; sixteen together would be cheapest.
    sample = pl.DataFrame({"t": [0], "g": ["a"]})
    pages = [pl.DataFrame({"t": [10 * n] * 4, "g": ["a", "b"] * 2}) for n in range(20)]
    plan = arrow_plan(sample, 10, 10, group_by=["g"], disorder=bounded(0), n="count(*)")
    narrow = Narrow(pane=10, most=6)
    script = Script(plan, batch_pages=True, pages=ArrowPages(here=narrow))
    batching = script.executor.graph.nodes[source_label("s")].operator._batching  # type: ignore[attr-defined]
    batching._cost, batching._clock = {1: 4.0, 4: 2.0, 16: 1.0, 32: 9.0}, count(step=1_000.0).__next__
    batching._groups = 1
    for number, rows in enumerate(pages):
        script.executor.admit(source_label("s"), arrow_page(rows, number, 0, "t"))
    script.executor.run_until_idle()
    script.drain()
    assert narrow.partials == [6] * 6 + [4]
    assert [row["n"] for row in finals(script.results)] == [2] * 40


@settings(max_examples=60)
@given(
    stream=bounded_streams(most=30),
    bursts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    window=st.sampled_from([(7, 3), (10, 10), (12, 8)]),
)
@pytest.mark.parametrize("groups", [[], ["g"]])
def test_windows_are_right_however_pages_are_taken(
    stream: Stream, bursts: list[int], window: tuple[int, int], groups: list[str]
) -> None:
    texts = {name: text for name, (text, _) in COUNT.items()}
    plan = arrow_plan(SAMPLE, *window, group_by=groups, disorder=bounded(stream.slack), **texts)
    script, number = Script(plan, batch_pages=True), 0
    source = script.executor.graph.nodes[source_label("s")].operator
    source._batching._cost = {1: 4.0, 2: 2.0, 4: 1.0}  # type: ignore[attr-defined]
    while number < len(stream.pages):
        for rows in stream.pages[number : number + bursts[number % len(bursts)]]:
            script.executor.admit(source_label("s"), arrow_page(rows, number, 0, "t"))
            number += 1
        script.executor.run_until_idle()
    script.drain()
    rows = pl.concat([SAMPLE.clear(), *stream.pages])
    wanted = recompute(rows, WindowSpec(*window), groups, COUNT)
    assert_same_rows(finals(script.results), wanted, ("window_start", *groups))
    assert script.metrics()["source:s"]["pages"] == len(stream.pages)
