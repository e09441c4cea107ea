"""A session without Spark for the live page: the real loop and operators, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.engine.records import History
from slackwater.engine.settings import QuerySettings
from slackwater.errors import RunError
from slackwater.estimates.early import Early
from slackwater.operators.prod_request import read_prod
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.request import ProdRequest
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.api.metrics import RunFigures
from slackwater.spark.backend.memory_budget import MemoryBudget
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages

SECOND = 1_000_000
NO_SPARK: Any = SimpleNamespace(jobs=0, spark_seconds=0.0, room=MemoryBudget())
SAMPLE = pl.DataFrame({"t": [0], "carrier": ["a"], "delay": [0.0]})


def sliding(
    range: str | None = "30 seconds",
    slide: str | None = "10 seconds",
    disorder: Disorder | None = None,
    **more: Any,
) -> PlanNode:
    """Delays by carrier, over the stream `s`, whose time is a timestamp."""
    plan: PlanNode = arrow_plan(
        SAMPLE,
        range=range,
        slide=slide,
        group_by=["carrier"] if range else [],
        domain=TimeDomain.TIMESTAMP,
        disorder=disorder or bounded("5 seconds"),
        **(more or {"n": "count(*)", "late": "avg(delay)"}),
    )
    return plan


def rows(*given: tuple[float, str, float]) -> pl.DataFrame:
    """Rows of the stream: second, carrier, delay."""
    found = [(round(t * SECOND), carrier, delay) for t, carrier, delay in given]
    return pl.DataFrame(found, schema=SAMPLE.schema, orient="row")


class WatchedScript:
    """Queries by name; `page` lets a page in and waits until all has been worked on."""

    spark_ui = "http://127.0.0.1:4040"

    def __init__(self, plans: Mapping[str, PlanNode], early: Early | None = None) -> None:
        self.clock = ManualClock(0)
        self.pages = ArrowPages()
        executor = Executor(self.clock, pages=self.pages)
        self._queries = [WatchedRun(self, name, plan) for name, plan in plans.items()]
        for query in self._queries:
            add_query(executor, query.name, query.plan, query.sink, QuerySettings(early=early))
        self.loop = Loop(executor)
        self.loop.call(lambda: None)
        self._number = -1

    def page(self, given: pl.DataFrame, at: float) -> None:
        """A page comes at a second of the clock."""
        self.offer(given, at)
        self.loop.call(lambda: None)

    def offer(self, given: pl.DataFrame, at: float) -> None:
        """The same, without waiting."""
        self.clock.set(round(at * SECOND))
        self._number += 1
        (stream,) = {s.name: s for s in streams_of(self._queries[0].plan)}.values()
        page = arrow_page(given, self._number, self.clock.now(), stream.time, stream.source, stream.punctuation)
        self.loop.offer(source_label(stream.name), page)

    def drain(self) -> None:
        """Close every window."""
        self.loop.call(lambda: self.loop.executor.drain(for_good=False))

    def queries(self) -> list[WatchedRun]:
        return self._queries

    def query(self, name: str) -> WatchedRun:
        return next(q for q in self._queries if q.name == name)

    @property
    def history(self) -> History:
        return self.loop.history

    @property
    def paused(self) -> bool:
        return self.loop.paused

    def pause(self) -> None:
        self.loop.set_paused(True)

    def resume(self) -> None:
        self.loop.set_paused(False)

    def stop(self) -> None:
        self.loop.stop()


class WatchedRun:
    """A query of it, as a `Run` is one of a session."""

    def __init__(self, script: WatchedScript, name: str, plan: PlanNode) -> None:
        self._script = script
        self.name, self.plan, self.sink = name, plan, ListSink()
        self.active, self.failure = True, ""
        self._last: dict[str, Any] | None = None
        self._figures = RunFigures(name, plan, self.sink, NO_SPARK)

    @property
    def status(self) -> str:
        return "running" if self.active else "stopped"

    def metrics(self) -> dict[str, Any]:
        if self._last is not None:
            return self._last
        now = self._script.clock.now()
        return dict(self._figures.at(self._script.history.latest, now, {}))

    def prod(self, until: object = None, where: str | None = None) -> None:
        if not self.active:
            raise RunError(f"query {self.name!r} has been stopped")
        prod = replace(read_prod(self.plan, ProdRequest(until, where), self._script.pages.here), query=self.name)
        loop = self._script.loop
        loop.interrupt(lambda: loop.executor.prod(prod, at_once=True))

    def stop(self) -> None:
        if self.active:
            self._last, self.active = self.metrics(), False
            self._script.loop.interrupt(lambda: self._script.loop.executor.remove(self.name))
