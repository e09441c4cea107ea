"""Early answers that say how good they are: estimates, intervals, accuracy.

Streams are those of experiments/lab/early_streams.py; the oracle for counts knows the stream's rate.
"""

from __future__ import annotations

import tempfile
import time
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

import slackwater as sw
from experiments.lab import early_streams as streams
from experiments.lab.early_history import answer, held, history, judge
from slackwater.aggregates.count import CountOf
from slackwater.aggregates.min_max import MaxOf
from slackwater.aggregates.sum import SumOf
from slackwater.columns import ROWS, WINDOW
from slackwater.estimates import pending
from slackwater.estimates.early import Early
from slackwater.estimates.estimates import Estimates
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec

SECOND = 1_000_000


def small(seconds: int = 600, seed: int = 1) -> streams.Case:
    return streams.dense(seconds, np.random.default_rng(seed))


@cache
def long_run() -> tuple[streams.Case, pl.DataFrame]:
    """A thousand windows without an engine: test_early_kinds.py tests that the answers are those of a query."""
    case = small(10_300)
    return case, answer(history(case))


@cache
def short_run() -> Script:
    return streams.play(small(), sw.early(at=0.5))


def figures(script: Script) -> dict[str, Any]:
    return script.metrics()["q/window"]["accuracy"]


def rows_of(script: Script, kind: str) -> list[dict[str, Any]]:
    return [r for r in script.results if r["kind"] == kind]


def test_estimates_come_close_to_an_answer_that_knows_the_rate() -> None:
    case, answers = long_run()
    ideal = streams.ideal(case, 5)
    for name in ("n", "total"):
        found = judge(answers, name)
        assert 0.79 < found.seen < 0.84  # the thesis has 79.5 and 79.87 %
        assert found.corrected > ideal - 0.01


def test_intervals_hold_as_often_as_is_said_over_a_thousand_windows() -> None:
    _, answers = long_run()
    for name in ("n", "total", "mean"):
        intervals, share = held(answers, name).select("windows", "held").row(0)
        assert intervals >= 1_000, name
        assert 0.88 <= share <= 0.94, name


def test_figures_in_metrics_are_those_of_the_rows() -> None:
    script = short_run()
    finals = {r["window_start"]: r for r in rows_of(script, "final")}
    pairs = [(r, finals[r["window_start"]]) for r in rows_of(script, "early")]
    for name in streams.AGGREGATES:
        found = figures(script)[name]
        seen = [1 - abs(f[name] - e[f"{name}_seen"]) / f[name] for e, f in pairs]
        estimate = [max(1 - abs(f[name] - e[name]) / f[name], 0) for e, f in pairs]
        held = [e[f"{name}_low"] <= f[name] <= e[f"{name}_high"] for e, f in pairs if e[f"{name}_low"] is not None]
        gain = [(f["emitted_at"] - e["emitted_at"]).total_seconds() for e, f in pairs]
        assert found["pairs"] == len(pairs) > 50
        assert found["seen"] == pytest.approx(np.mean(seen))
        assert found["estimate"] == pytest.approx(np.mean(estimate))
        assert (found["worst_seen"], found["worst_estimate"]) == pytest.approx((min(seen), min(estimate)))
        assert found["coverage"] == pytest.approx(np.mean(held))
        assert found["latency_gain"] == pytest.approx(np.mean(gain))


@pytest.mark.parametrize(
    "make",
    [
        streams.bursts,
        streams.change,
        *(pytest.param(m, marks=pytest.mark.long) for m in (streams.rhythm, streams.groups)),
    ],
)
def test_intervals_hold_and_estimates_help_on_streams_that_are_not_calm(make: Any) -> None:
    answers = answer(history(make(2_000, np.random.default_rng(3))))
    for name in streams.AGGREGATES:
        by_group = held(answers, name)
        share = (by_group["held"] * by_group["windows"]).sum() / by_group["windows"].sum()
        assert 0.85 <= share <= 0.96, name
    for name in ("n", "total"):
        found = judge(answers, name)
        assert found.corrected > found.seen + 0.08


def test_without_history_there_is_no_interval_and_the_value_is_what_is_seen() -> None:
    early = rows_of(short_run(), "early")
    first = early[0]
    assert first["completeness"] is None
    assert first["n"] == first["n_seen"] and first["mean"] == first["mean_seen"]
    known = [r["n_low"] is not None for r in early]
    assert not any(known[:20]) and all(known[30:])
    assert 0.75 < early[-1]["completeness"] < 0.9


def test_the_same_stream_gives_the_same_answers_and_finals_are_those_without_prods() -> None:
    a = streams.play(small(), sw.early(at=0.5))
    assert a.results == short_run().results
    calm = streams.play(small(), Early())
    assert rows_of(a, "final") == rows_of(calm, "final")


@pytest.mark.parametrize(
    ("early", "seconds"), [(sw.early(at=0.5, accuracy=0.97), 400), (sw.early(every="2 seconds"), 200)]
)
def test_a_restart_changes_no_early_answer(early: Early, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_WAITING", 300)  # of more, some are left out
    case = streams.groups(seconds, np.random.default_rng(2))
    case.rows = case.rows.with_columns(pl.col("v").cast(pl.Int64))  # sums do not depend on the order of merging
    whole = streams.play(case, early)
    sink = ListSink()
    with tempfile.TemporaryDirectory() as folder:
        plan = arrow_plan(
            case.rows.head(1), "30 seconds", "10 seconds", group_by=("g",), domain=TimeDomain.TIMESTAMP,
            disorder=bounded("5 seconds"), **streams.AGGREGATES,
        )  # fmt: skip
        script = None
        for number, (at, rows) in enumerate(case.pages()):
            if script is None or number % 7 == 0:
                now = 0 if script is None else script.clock.now()
                script = Script(plan, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink, early=early)
                script.clock.set(now)
            script.until(at).page(rows)
        assert script is not None
        script.drain()
    assert len(rows_of(whole, "early")) > 300

    def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda r: (r["kind"], r["window_start"], r["emitted_at"], r["g"]))

    assert ordered(sink.rows) == ordered(whole.results)
    assert script.metrics()["q/window"]["accuracy"] == figures(whole)


def test_prods_at_any_time_know_windows_of_a_like_age() -> None:
    script = streams.play(small(900), sw.early(every="5 seconds"))
    last = [r for r in rows_of(script, "early") if r["completeness"] is not None][-40:]
    by_age: dict[float, list[float]] = {}
    for r in last:
        by_age.setdefault((r["emitted_at"] - r["window_end"]).total_seconds(), []).append(r["completeness"])
    shares = [np.mean(by_age[age]) for age in sorted(by_age)]
    assert len(shares) > 4 and np.corrcoef(shares, sorted(by_age))[0, 1] > 0.9
    assert shares[-1] > 0.98 and 0.1 < shares[0] < 0.4


def test_estimates_keep_the_type_of_their_value() -> None:
    rng = np.random.default_rng(4)
    t = np.arange(0, 400 * SECOND, SECOND // 4)
    rows = pl.DataFrame({"t": t, "i": rng.integers(1, 9, len(t))}).with_columns(
        (pl.col("i") * Decimal("0.25")).cast(pl.Decimal(10, 2)).alias("d"), pl.lit("x").alias("s")
    )
    case = streams.Case(rows, t)
    script = streams.play(case, sw.early(at=0.5), {"n": "count(*)", "i": "sum(i)", "d": "sum(d)", "s": "max(s)"})
    last = rows_of(script, "early")[-1]
    assert isinstance(last["n"], int) and last["n"] == pytest.approx(120, abs=3) and last["n_seen"] < 110
    assert isinstance(last["i"], int) and last["i"] > last["i_seen"]
    assert isinstance(last["d"], Decimal) and last["d"] > last["d_seen"]
    assert last["s"] == "x" and last["s_low"] is None and "s" not in figures(script)


def test_where_windows_go_by_numbers_ages_go_by_the_largest_seen() -> None:
    rng = np.random.default_rng(1)
    script = Script(arrow_plan(pl.DataFrame({"t": [0]}), 100, 100, disorder=bounded(50), n="count(*)"),
                    early=sw.early(at=0.5))  # fmt: skip
    numbers = np.arange(6_000) + rng.integers(0, 40, 6_000)
    for begin in range(0, 6_000, 10):
        script.page(pl.DataFrame({"t": numbers[begin : begin + 10]}))
    found = script.drain().metrics()["q/window"]["accuracy"]["n"]
    assert found["estimate"] > 0.9 > 0.6 > found["seen"]


def kernel() -> PaneKernel:
    aggregates = (
        CountOf("n", "count(*)", "*", pa.int64()),
        SumOf("total", "sum(v)", "v", pa.float64()),
        MaxOf("top", "max(v)", "v", pa.float64()),
    )
    return PaneKernel(WindowSpec(30 * SECOND, 10 * SECOND), (Group("g", "g"),), aggregates)


def values_of(window: int, groups: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(window * 100 + rows)
    n = rng.poisson(rows, groups) + 1
    return pl.DataFrame(
        {WINDOW: window, "g": [f"g{i}" for i in range(groups)], ROWS: n, "n": n, "total": n * 2.0, "top": n * 1.0}
    )


def test_an_answer_for_a_thousand_groups_takes_milliseconds_and_little_is_kept() -> None:
    estimates = Estimates(kernel(), Early())
    spent, pages = [], []
    for window in range(30):
        end = window * 10 * SECOND + 30 * SECOND
        now = end - 5 * SECOND
        asked = pl.concat([values_of(window + k, 1_000, 25 - 8 * k) for k in range(3)])
        last_ticks = end - 1 + 10 * SECOND * np.arange(3)
        begin = time.thread_time()
        estimates.page(now, last_ticks, np.array([3_000, 2_000, 1_000]))
        pages.append(time.thread_time() - begin)
        begin = time.thread_time()
        answer = estimates.early(asked, now)
        spent.append(time.thread_time() - begin)
        final = values_of(window, 1_000, 30)
        estimates.final(final, now + 10 * SECOND)
    assert answer.height == 3_000
    assert np.median(spent) < 0.05 and np.median(pages) < 0.001
    table = estimates.table(whole=True)
    assert table is not None and table.nbytes < 8 * 2**20
