"""What a journal gets of the estimates: as little as a prod brings, and enough to go on as if nothing had been."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from experiments.lab.arrivals import SECOND
from experiments.lab.early_streams import START
from slackwater.aggregates.count import CountOf
from slackwater.aggregates.sum import SumOf
from slackwater.columns import ROWS, WINDOW
from slackwater.engine.journal import Record
from slackwater.estimates import pending
from slackwater.estimates.early import Early
from slackwater.estimates.estimates import Estimates
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import Script, arrow_plan
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec

GROUPS = 200


class Weighed(FileJournal):
    """Knows how many bytes of estimates each record has."""

    def __init__(self, folder: Path) -> None:
        super().__init__(fs.LocalFileSystem(), str(folder))
        self.changes: list[int] = []

    def prepare(self, record: Record) -> None:
        table = record.states["q/window"].tables.get("estimates")
        if not record.whole:
            self.changes.append(0 if table is None else table.nbytes)
        super().prepare(record)


def test_a_prod_writes_no_more_than_what_it_has_seen(tmp_path: Path) -> None:
    """200 groups in five open windows, and a prod a second: a group takes its hash and what is seen of it."""
    rows = pl.DataFrame({"t": [START], "g": [0], "v": [1.0]})
    by = {"disorder": bounded("2 seconds"), "domain": TimeDomain.TIMESTAMP, "group_by": ["g"]}
    plan = arrow_plan(rows, "20 seconds", "5 seconds", **by, n="count(*)", total="sum(v)")
    journal = Weighed(tmp_path)
    script, rng = Script(plan, journal), np.random.default_rng(5)
    for second in range(60):
        now = START + second * SECOND
        times = now - rng.integers(0, 2 * SECOND, 4 * GROUPS)
        page = pl.DataFrame({"t": times, "g": np.tile(np.arange(GROUPS), 4), "v": rng.normal(5, 1, 4 * GROUPS)})
        script.page(page, at=now).prod()
    seen = 5 * GROUPS * 4 * 8
    assert len(journal.changes) > 60
    assert mean(sorted(journal.changes)[-40:]) < 1.5 * seen, journal.changes
    assert max(journal.changes) < 2.5 * seen


def estimates(season: int | None) -> Estimates:
    spec, by = WindowSpec(30 * SECOND, 10 * SECOND), (Group("g", "g"),)
    aggregates = (CountOf("n", "count(*)", "*", pa.int64()), SumOf("total", "sum(v)", "v", pa.float64()))
    return Estimates(PaneKernel(spec, by, aggregates), Early(season=season))


def values_of(windows: list[int], groups: list[int], seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    size = len(windows) * len(groups)
    rows = rng.poisson(20, size)
    return pl.DataFrame(
        {
            WINDOW: np.repeat(sorted(windows), len(groups)),
            "g": np.tile(groups, len(windows)),
            ROWS: rows,
            "n": rows,
            "total": np.where(rng.random(size) < 0.1, np.nan, rng.normal(0, 5, size)),
        },
        schema_overrides={ROWS: pl.Int64, "n": pl.Int64},
    )


class Life:
    """Estimates of windows that come one after the other; each step does to them what a window aggregate may do."""

    def __init__(self, season: int | None) -> None:
        self.estimates = estimates(season)
        self.second, self.closed = 40, -1

    def step(self, kind: str, groups: list[int], seed: int) -> None:
        e, now = self.estimates, self.second * SECOND
        open_windows = list(range(self.closed + 1, self.second // 10 + 1))
        if kind == "page":
            self.second += 1 + seed % 4
            last = np.array([(w + 3) * 10 * SECOND - 1 for w in open_windows])
            e.page(now, last, np.full(len(last), 5 + seed % 50))
        elif kind == "prod":
            e.early(values_of(open_windows, groups, seed), now, timed=seed % 5 == 0)
        elif self.closed + 4 <= self.second // 10:
            self.closed += 1
            e.final(values_of([self.closed], groups, seed), now)
            e.closed(Closed(self.closed))

    def next_answer(self) -> pl.DataFrame:
        windows = list(range(self.closed + 1, self.second // 10 + 1))
        return self.estimates.early(values_of(windows, list(range(9)), 1), self.second * SECOND)


def same(one: pa.Table, other: pa.Table) -> bool:
    arrays = [[np.array(v) for c in t.columns[1:] for v in c.to_pylist()] for t in (one, other)]
    names = one["name"].to_pylist() == other["name"].to_pylist()
    return names and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*arrays, strict=True))


steps = st.tuples(
    st.sampled_from(["page", "page", "prod", "prod", "close"]),
    st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True),
    st.integers(0, 1000),
)
#: What happens, and whether a record is written after it: none, one of the changes, or a whole one.
lives = st.lists(st.tuples(steps, st.sampled_from([None, None, False, False, True])), min_size=40, max_size=90)


@settings(max_examples=30, deadline=None)
@given(lives, st.sampled_from([60, 100_000]), st.sampled_from([None, 30 * SECOND, 70 * SECOND]))
def test_restored_estimates_are_those_that_were_saved(life: list[Any], most: int, season: int | None) -> None:
    """A short season comes and goes again while it is learned."""
    usual, pending.MOST_WAITING = pending.MOST_WAITING, most
    try:
        here, tables = Life(season), []
        for step, whole in [*life, (("page", [0], 0), False)]:
            here.step(*step)
            if whole is not None:
                tables = [] if whole else tables
                table = here.estimates.table(whole)
                tables += [] if table is None else [table]
        there = Life(season)
        there.estimates.restore(here.estimates.state(), tables)
        there.second, there.closed = here.second, here.closed
        assert there.estimates.state() == here.estimates.state()
        both = [life.estimates.table(whole=True) for life in (here, there)]
        assert same(both[0], both[1])
        assert there.next_answer().equals(here.next_answer())
    finally:
        pending.MOST_WAITING = usual
