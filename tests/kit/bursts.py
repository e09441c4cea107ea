"""Bursts for the tests: an expensive function, a query behind it, and any order of work with prods and deaths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.columns import TIME
from slackwater.engine.build import source_label
from slackwater.operators.map import MapPages
from slackwater.operators.prod import Prod
from slackwater.progress.bounds.bounded import bounded
from slackwater.scheduling.strategy import Ordered, Ready
from slackwater.testing import Script, arrow_page, arrow_plan
from tests.kit.faults import Died
from tests.kit.streams import SAMPLE

TWICE = pa.schema([("g", pa.string()), ("y", pa.int64())])


def twice(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The expensive function: twice `i`."""
    made = pl.DataFrame(rows).select("g", y=pl.col("i") * 2)
    return made.to_arrow().cast(TWICE).combine_chunks().to_batches()[0]


def query(slack: Any, window: tuple[Any, Any], function: Any = twice, **more: Any) -> Any:
    aggregates = {"n": "count(*)", "total": "sum(y)"}
    return arrow_plan(
        SAMPLE, *window, map=(function, TWICE), group_by=["g"], disorder=bounded(slack), **more, **aggregates
    )


def admit(script: Script, rows: pl.DataFrame, number: int) -> bool:
    """Whether the page is safe already."""
    page = arrow_page(rows, number, script.clock.now(), "t")
    return script.executor.admit(source_label("s"), page).done


run_of_map = MapPages.run


def watched(self: MapPages, inputs: Any, emit: Any) -> None:
    """A run of the map that may not promise anything of rows that are set aside."""
    run_of_map(self, inputs, emit)
    said = self.output([inputs[0].time])
    for page in inputs[1].elements():
        for t in self.pages.here.frame(page)[TIME].drop_nulls().to_list():
            assert t > said.heartbeat.tick and not any(after < t <= until for after, until in said.ranges)


@dataclass
class Chance(Ordered):
    """Picks any of the ready operators; before some picks it prods, and at one the process dies."""

    numbers: Sequence[int]
    prods: dict[int, Prod]
    dies_at: int | None = None
    picks: int = 0
    ask: Callable[[Prod], None] = field(default=lambda prod: None)
    commit_every: int = 64

    def first(self, ready: Sequence[Ready]) -> Ready:
        self.picks += 1
        if self.picks == self.dies_at:
            raise Died
        if self.picks in self.prods:
            self.ask(self.prods[self.picks])
        return ready[self.numbers[self.picks % len(self.numbers)] % len(ready)]
