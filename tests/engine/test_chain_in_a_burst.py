"""Chain on the engine with lazy pages, as Spark's are: a filter frees room only when somebody has it done.

Pages come faster than they can be worked on. A filter keeps a fifth of the rows, a slow function works on them. The
clock is moved by the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.operators.backend import Done
from slackwater.operators.page import Page
from slackwater.plan.steps import Map
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.scheduling.strategy import Strategy
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from slackwater.windows.kernel import PaneKernel
from tests.kit.streams import SAMPLE, frame

ROWS = 100
MADE = pa.schema([("i", pa.int64())])
#: Seconds of a job with next to nothing to do.
JOB = 0.05
#: Seconds that the slow function takes for a page of which all rows come to it.
SLOW = 6.0


class Lazy(ArrowBackend):
    """Jobs take time."""

    seconds = 0.0
    """By all jobs."""
    done = 0
    """Pages that were worked on so that they take less room."""
    folding = 0.0
    """Seconds of a window for a page, beside its job."""

    def materialize(self, page: Page) -> Done[Page]:
        """A job, and perhaps the function."""
        Lazy.seconds += JOB
        if isinstance(page.steps[-1], Map):
            Lazy.seconds += SLOW * self.frame(replace(page, steps=page.steps[:-1])).height / ROWS
        else:
            Lazy.done += 1
        return super().materialize(page)

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Any:
        """A job."""
        Lazy.seconds += JOB + Lazy.folding
        return super().fold(page, kernels)

    def payload(self, page: Page, about: int | None = None) -> Any:
        """A job, also on a sample."""
        Lazy.seconds += JOB
        return super().payload(page, about)


class Burst:
    """Pages at the instants at which they come, under one strategy."""

    def __init__(self, strategy: Strategy, instants: list[float], plan: Any = None) -> None:
        self.sink, self.instants, self.peak, self.come = ListSink(), instants, 0, 0
        Lazy.seconds, Lazy.done = 0.0, 0
        settings = EngineSettings(strategy=strategy, quantum=60.0)  # whole pages; test_quanta has parts of them
        self.executor = Executor(ManualClock(), None, ArrowPages(here=Lazy()), settings)
        self.executor.measure_by(lambda: Lazy.seconds)
        add_query(self.executor, "q", plan or slow(), self.sink)
        self.executor.between = self._let_in
        while self.come < len(instants):
            Lazy.seconds = max(Lazy.seconds, instants[self.come])
            self._let_in()
            self.executor.run_until_idle()
        self.executor.drain()
        self.seconds = Lazy.seconds

    def _let_in(self) -> None:
        while self.come < len(self.instants) and self.instants[self.come] <= Lazy.seconds:
            rows = frame([[10 * self.come, "a", 0, 0.0, i, "x" * 40] for i in range(ROWS)])
            self.executor.admit("source:s", arrow_page(rows, self.come, 0, "t"))
            self.come += 1
        self.peak = max(self.peak, sum(node.waiting()[1] for node in self.executor.graph))


def slow() -> Any:
    return arrow_plan(SAMPLE, 10, 10, where="i % 5 = 0", map=(_same, MADE), disorder=bounded(0), n="count(*)")


def _same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([rows["i"]], schema=MADE)


def every(seconds: float, pages: int) -> list[float]:
    return [n * seconds for n in range(pages)]


#: A page takes 1.3 seconds with FIFO.
RIVALS: dict[str, Callable[[], Strategy]] = {
    "fifo": sw.fifo,
    "greedy": sw.papers.greedy,
    "round-robin": sw.papers.round_robin,
}


@pytest.mark.parametrize("apart", [1.0, 0.4])
def test_chain_holds_less_than_half_of_what_fifo_holds(apart: float) -> None:
    bursts = {name: Burst(made(), every(apart, 40)) for name, made in {**RIVALS, "chain": sw.chain}.items()}
    peaks = {name: burst.peak for name, burst in bursts.items()}
    page = frame([[0, "a", 0, 0.0, i, "x" * 40] for i in range(ROWS)]).estimated_size()
    assert peaks["fifo"] > 10 * page, "else there is no burst"
    assert peaks["chain"] <= 0.5 * peaks["fifo"]
    assert all(peaks["chain"] <= peaks[rival] + page for rival in RIVALS), peaks
    # At most a job more for each page, and some for samples.
    assert bursts["chain"].seconds <= bursts["fifo"].seconds + 60 * JOB
    assert all(sum(row["n"] for row in burst.sink.rows) == 40 * ROWS / 5 for burst in bursts.values())


def test_where_pages_do_not_wait_no_job_is_spent_on_it() -> None:
    Burst(sw.chain(), every(2.0, 20))
    assert Lazy.done == 0


def counted(**more: Any) -> Any:
    return arrow_plan(SAMPLE, 10, 10, where="i % 2 = 0", disorder=bounded(0), n="count(*)", **more)


@pytest.mark.parametrize(("folding", "held"), [(0.0, 0), (5 * JOB, 25)])
def test_a_filter_has_a_job_of_its_own_only_if_that_frees_more_than_one_for_both(
    monkeypatch: pytest.MonkeyPatch, folding: float, held: int
) -> None:
    monkeypatch.setattr(Lazy, "folding", folding)
    burst = Burst(sw.chain(), every(0.01, 30), counted())
    assert held <= Lazy.done <= (30 if held else 2)
    chains = burst.executor.snapshot().operators["q/where0"]["chain"]
    assert ("q/window" in chains) == (not held)


def test_a_projection_behind_a_filter_is_done_in_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    projected = {"t": "t", "i": "i"}
    plan = arrow_plan(SAMPLE, 10, 10, where="i % 5 = 0", select=projected, disorder=bounded(0), n="count(*)")
    monkeypatch.setattr(Lazy, "folding", 1.0)
    burst = Burst(sw.chain(), every(0.5, 30), plan)
    assert 20 <= Lazy.done <= 30, "one job a page"
    chain = burst.executor.snapshot().operators["q/where0"]["chain"]
    assert chain == ["source:s", "q/where0", "q/select1"]
