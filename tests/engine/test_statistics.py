"""What the engine tells a strategy of its plan: when operators come and go, and once a statistics window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.build import add_query
from slackwater.engine.calibration import ENOUGH, SHARE, SampleSums
from slackwater.engine.executor import Executor
from slackwater.engine.records import Measured, Ran
from slackwater.engine.settings import EngineSettings
from slackwater.engine.statistics import WINDOW
from slackwater.engine.waits import Waits
from slackwater.operators.backend import Done
from slackwater.operators.page import DriverRows, Page
from slackwater.plan.steps import Map, Select, Where
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.paths import Plan
from slackwater.scheduling.strategy import Act, Ready, Situation, WaitingPages
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from tests.kit.pages import known_page
from tests.kit.streams import SAMPLE, frame

ONE_COLUMN = pa.schema([("i", pa.int64())])


def _numbers(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([rows["i"]], schema=ONE_COLUMN)


class Learning(Fifo):
    """Keeps what it is told."""

    charts = False

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[Plan] = []

    def learn(self, plan: Plan) -> None:
        """Keep it."""
        self.plans.append(plan)


def page(number: int) -> Page:
    """Ten rows; how many there are is known before anybody asks."""
    return known_page(frame([[10 * number + n, "a", n] for n in range(10)]), number)


def test_a_strategy_is_told_of_plans_and_of_what_they_cost() -> None:
    strategy = Learning()
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(strategy=strategy))
    # Of a row a column remains.
    plan = arrow_plan(SAMPLE, 10, 10, map=(_numbers, ONE_COLUMN), disorder=bounded(0), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.run_until_idle()
    assert [(label, work.inputs) for label, work in strategy.plans[-1].items()] == [
        ("source:s", ()),
        ("q/map0", ("source:s",)),
        ("q/window", ("q/map0",)),
        ("q/sink", ("q/window",)),
    ]
    assert all(work.cost is None for work in strategy.plans[-1].values())
    for number in range(5):
        executor.admit("source:s", page(number))
        executor.run_until_idle()
    mapped, backend = strategy.plans[-1]["q/map0"], ArrowPages()
    sizes = [page(0).size, backend.materialize(page(0).with_step(Map(_numbers, (), ONE_COLUMN))).size]
    assert mapped.cost is not None and mapped.cost > 0 and mapped.width is not None and mapped.width > 0
    assert mapped.growth is not None and sizes[0] and sizes[1]
    assert mapped.growth == pytest.approx(sizes[1] / sizes[0], rel=0.1) and mapped.growth < 0.6
    assert mapped.longest > 0


def test_it_is_told_often_at_first_then_once_a_window() -> None:
    strategy = Learning()
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(strategy=strategy))
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    told = list[int]()
    executor.between = lambda: told.append(len(strategy.plans))
    for number in range(60):
        executor.admit("source:s", page(number))
        executor.run_until_idle()
    runs = [told.index(n) for n in range(1, told[-1] + 1)]
    windows = [later - earlier for earlier, later in pairwise(runs)]
    assert windows[:4] == [1, 2, 4, 8] and set(windows[5:]) == {WINDOW}
    before = len(strategy.plans)
    executor.remove("q")
    executor.run_until_idle()
    assert len(strategy.plans) == before + 1 and not strategy.plans[-1]


def test_a_page_of_unknown_size_teaches_nothing_about_sizes() -> None:
    measured = Measured()
    measured.ran(Ran("map", 1.0, 10, 10, 0, 0))
    assert measured.growth is None and measured.width is None and measured.selectivity == 1
    measured.ran(Ran("map", 1.0, 10, 10, 80, 20))
    assert measured.growth == 0.25


class Counted(ArrowBackend):
    """Counts how often a sample is taken of a page."""

    samples = 0

    def collect(
        self, page: Page, columns: Mapping[str, str] | None = None, limit: int | None = None
    ) -> Done[pa.Table]:
        Counted.samples += 1
        return super().collect(page, columns, limit)


def sampled(pages: int, where: str = "h >= 8") -> tuple[Learning, ListSink, Executor]:
    """Run pages of which nothing is known before they are folded, under a clock that goes on by 1 at each look."""
    strategy, sink, seconds = Learning(), ListSink(), count(0.0)
    strategy.charts = True
    executor = Executor(ManualClock(), None, ArrowPages(here=Counted()), EngineSettings(strategy=strategy))
    executor._cycle.stopwatch = lambda: next(seconds)
    plan = arrow_plan(SAMPLE, 10, 10, where=where, select={"t": "t"}, disorder=bounded(0), n="count(*)")
    add_query(executor, "q", plan, sink)
    Counted.samples = 0
    for number in range(pages):
        rows = frame([[10 * number + n, "a", n] for n in range(10)])
        executor.admit("source:s", arrow_page(rows, number, 0, "t"))
        executor.run_until_idle()
    return strategy, sink, executor


def test_a_sample_shows_what_filters_and_projections_leave() -> None:
    strategy, sink, executor = sampled(20)
    plan = strategy.plans[-1]
    rows = arrow_page(frame([[n, "a", n] for n in range(10)]), 0, 0, "t")
    whole = Page(rows.origin, DriverRows(ArrowPages().sample(rows, 10)))
    filtered = whole.with_step(Where("h >= 8"))
    sizes = [
        ArrowPages().payload(made).nbytes for made in (whole, filtered, filtered.with_step(Select((("t", "t"),))))
    ]
    assert plan["q/where0"].growth == pytest.approx(sizes[1] / sizes[0])
    assert plan["q/select1"].growth == pytest.approx(sizes[2] / sizes[1])
    assert plan["source:s"].width == pytest.approx(sizes[0] / 10)
    # Rows are counted only by the window; those before it have worked on the same ones.
    assert all(work.cost is not None and work.cost > 0 for label, work in plan.items() if label != "q/sink")
    executor.drain()
    assert sum(row["n"] for row in sink.rows) == 40, "samples go nowhere"


def test_samples_take_a_small_share_of_the_time_after_the_first_ones() -> None:
    _, _, executor = sampled(20)
    assert Counted.samples == 4, "so few rows are tried four times at once"
    calibration = executor._cycle.statistics._calibration
    for number, worked, samples in ((20, 0.0, 4), (21, 100 / SHARE, 5), (22, 0.0, 6)):
        calibration.worked(worked)
        executor.admit("source:s", arrow_page(frame([[10 * number, "a", 9]]), number, 0, "t"))
        executor.run_until_idle()
        assert Counted.samples == samples


def test_only_a_strategy_with_charts_has_samples_taken() -> None:
    executor = Executor(ManualClock(), None, ArrowPages(here=Counted()), EngineSettings(strategy=Fifo()))
    add_query(executor, "q", arrow_plan(SAMPLE, 10, 10, where="h >= 8", n="count(*)"), ListSink())
    Counted.samples = 0
    executor.admit("source:s", arrow_page(frame([[1, "a", 1]]), 0, 0, "t"))
    executor.run_until_idle()
    assert Counted.samples == 0


def test_what_fails_on_a_sample_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "collect", lambda *given, **more: 1 / 0)
    strategy, sink, executor = sampled(20)
    executor.drain()
    assert sum(row["n"] for row in sink.rows) == 40
    assert strategy.plans[-1]["q/where0"].inputs == ("source:s",)


def test_an_operator_that_comes_later_gets_a_sample_of_its_own() -> None:
    strategy, _, executor = sampled(3)
    later = arrow_plan(SAMPLE, 10, 10, where="h >= 8", select={"t": "t", "h": "h"}, disorder=bounded(0), n="max(h)")
    add_query(executor, "p", later, ListSink())
    for number in range(3, 6):
        rows = frame([[10 * number + n, "a", n] for n in range(10)])
        executor.admit("source:s", arrow_page(rows, number, 0, "t"))
        executor.run_until_idle()
    mine = strategy.plans[-1]["p/select1"]
    assert mine.inputs == ("q/where0",) and mine.growth is not None and 0 < mine.growth < 1


def test_an_early_page_of_which_nothing_is_left_is_not_the_last_word() -> None:
    seen = SampleSums()
    seen.add(0.0, 10, 10, 400, 0)
    assert seen.growth == 0.05, "half a row of ten"
    assert not seen.known
    for _ in range(3):
        seen.add(0.0, 10, 10, 400, 200)
    assert seen.known and seen.growth is not None and 0.35 < seen.growth < 0.5
    few = SampleSums()
    few.add(0.0, 1_000, ENOUGH, 4_000, 400)
    assert few.known, "an operator behind a filter need not have all of a sample"
    whole = SampleSums()
    whole.add(2.0, 1_000, 1_000, 40_000, 4_000)
    assert whole.known and (whole.cost, whole.width, whole.growth) == (0.002, 40, 0.1)


class Slow(ArrowBackend):
    """Work on a page takes time, by how many steps it has."""

    clock = 0.0
    takes: tuple[float, ...] = ()

    def payload(self, page: Page, about: int | None = None) -> Any:
        Slow.clock += self.takes[len(page.steps)]
        return super().payload(page, about)


@pytest.mark.parametrize(
    ("takes", "where", "select"), [((1.0, 1.0, 10.0), 0.0, 0.8), ((1.0, 10.0, 12.0), 0.8, 0.0)]
)
def test_a_sample_shows_what_an_operator_adds_to_the_work(
    monkeypatch: pytest.MonkeyPatch, takes: tuple[float, ...], where: float, select: float
) -> None:
    monkeypatch.setattr(Slow, "takes", takes)
    strategy = Learning()
    strategy.charts = True
    executor = Executor(ManualClock(), None, ArrowPages(here=Slow()), EngineSettings(strategy=strategy))
    executor.measure_by(lambda: Slow.clock)
    plan = arrow_plan(SAMPLE, 10, 10, where="h >= 0", select={"t": "t"}, disorder=bounded(0), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.admit("source:s", arrow_page(frame([[n, "a", n] for n in range(10)]), 0, 0, "t"))
    executor.run_until_idle()
    told = strategy.plans[-1]
    # Of nine seconds more one may be chance: so long takes a job with nothing to do. Of ten, a quarter may be.
    assert told["q/where0"].cost == pytest.approx(where) and told["q/select1"].cost == pytest.approx(select)


def test_waits_are_told_by_admission_oldest_first_in_a_few_groups() -> None:
    seen: list[Ready] = []

    class Watching(Fifo):
        watches = True

        def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
            seen.extend(r for r in ready if r.label == "source:s")
            return super().pick(ready, now)

    executor, seconds = (
        Executor(ManualClock(), None, ArrowPages(), EngineSettings(strategy=Watching())),
        [0.0],
    )
    executor.measure_by(lambda: seconds[0])
    add_query(executor, "q", arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"), ListSink())
    executor.run_until_idle()

    def later() -> None:
        seconds[0] += 1.0

    executor.between = later
    for number in range(20):
        executor.admit("source:s", page(number))
    executor.run_until_idle()
    first, second = seen[0].waits, next(r.waits for r in seen if r.waits and r.waits[0].seconds > 0)
    assert len(first) == 7 and [w.rows for w in first] == [30.0] * 6 + [20.0], "at most eight groups"
    assert [w.admission for w in first] == sorted(w.admission for w in first)
    assert second[0].seconds >= 1.0 and second[0].admission > first[0].admission


def test_a_page_that_nobody_has_looked_at_yet_has_not_waited() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    add_query(executor, "q", arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"), ListSink())
    executor.admit("source:s", page(0))
    waits = Waits(lambda: 5.0)
    assert waits.of(executor.graph.nodes["source:s"]) == (WaitingPages(1, 0.0, 10.0),)
