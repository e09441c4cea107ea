"""result_error: enough results are within the bound, the wait is near hindsight's, and its counts are the truth."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from experiments.lab import arrivals as make
from experiments.lab.source_trial import run_by_source
from experiments.lab.trial import Paged, run
from experiments.result_error import Valued, hindsight, within
from slackwater.errors import QueryError
from slackwater.progress.disorder import Disorder
from slackwater.progress.result_error import window_results
from slackwater.progress.result_error.window_results import WindowResults
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import ResultParts, WindowLosses
from slackwater.testing import Script, arrow_plan
from slackwater.windows.spec import WindowSpec
from tests.kit.emissions import STEADY
from tests.kit.streams import SAMPLE, frame

SECOND = 1_000_000
#: count(*), sum(x), avg(x)
VALUES = ((0,), (1,), (1, 0))

Rows = list[tuple[int, int, int, float]]
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-20, 40), st.sampled_from([-1.0, 0.0, 1.0, 5.0])),
    max_size=25,
)


@settings(STEADY, max_examples=60)
@given(ROWS, st.sampled_from([0.05, 0.3, 0.7]))
def test_the_needed_slack_is_that_of_trying_each_one(rows: Rows, error: float) -> None:
    """Rows: window, group, the reference that its page met, value."""
    results = WindowResults(error)
    for page, (window, group, met, x) in enumerate(rows):
        parts = ResultParts(np.array([window * 10 + 9]), np.array([group]), np.array([[1.0, x]]), VALUES)
        results.hear(
            WindowLosses("q", page, parts.last_ticks, np.ones(1, np.int64), 0, results=lambda p=parts: p), met
        )
    wanted = {}
    for window, group in {row[:2] for row in rows}:
        mine = [(max(0, met - (window * 10 + 9)), x) for w, g, met, x in rows if (w, g) == (window, group)]
        outside = [s for s in range(60) if not _good([x for need, x in mine if need <= s], mine, error)]
        wanted[window * 10 + 9, group] = max(outside, default=-1) + 1
    ticks, needed = results.needed()
    groups = [(t, g) for t, g in sorted(wanted)]
    assert ticks.tolist() == [t for t, _ in groups]
    assert needed.tolist() == [wanted[each] for each in groups]


def _good(there: list[float], every: list[tuple[int, float]], error: float) -> bool:
    final = [x for _, x in every]
    pairs = [(len(there), len(final)), (sum(there), sum(final))]
    if not there:
        return False
    pairs.append((sum(there) / len(there), sum(final) / len(final)))
    return all(abs(a - b) <= (error + 1e-9) * abs(b) for a, b in pairs)


def pages(seed: int, count: int = 60) -> list[pl.DataFrame]:
    source, made = random.Random(seed), []
    for n in range(count):
        rows: list[list[Any]] = []
        for _ in range(source.randrange(0, 9)):
            time = n * 2 * SECOND - int(source.expovariate(1 / (3 * SECOND)))
            rows.append([max(0, time), source.choice(["a", "b", "c"]), None, float(source.randrange(1, 9)), None])
        made.append(frame(rows))
    return made


def test_what_the_policy_counts_as_outside_is_what_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Final answers of whole runs, beside the same windows of all rows."""
    monkeypatch.setattr(window_results, "STEPS", 100_000)  # nothing is rounded
    counted = missed = 0
    for seed in range(4):
        came = [*pages(seed), frame([]), frame([])]
        script = Script(plan(sw.result_error("10%", windows="70%")))
        for number, page in enumerate(came):
            script.page(page, at=number * 2 * SECOND)
        source = script.metrics()["source:s"]
        (policy,) = source["policies"].values()
        given = {(micros(r["window_end"]), r["g"]): r for r in script.results}
        heartbeat = max(end for end, _ in given) - 1
        truth = {key: values for key, values in _truth(pl.concat(came)).items() if key[0] - 1 <= heartbeat}
        assert policy["results_judged"] == len(truth) > 100
        missed += sum(key not in given or outside(given[key], values) for key, values in truth.items())
        counted += round(policy["outside_in_all"] * policy["results_judged"])
    assert 20 < missed <= counted <= 1.02 * missed


def plan(policy: Disorder) -> Any:
    values = {"n": "count(*)", "total": "sum(x)", "mean": "avg(x)", "top": "max(x)"}
    time = {"disorder": policy, "domain": TimeDomain.TIMESTAMP}
    return arrow_plan(SAMPLE, "6 seconds", "2 seconds", group_by=["g"], **time, **values)


def micros(instant: datetime) -> int:
    return round(instant.replace(tzinfo=UTC).timestamp() * SECOND)


def outside(row: dict[str, Any], values: dict[str, float]) -> bool:
    return any(abs(row[name] - value) > 0.1 * abs(value) + 1e-9 for name, value in values.items())


def _truth(rows: pl.DataFrame) -> dict[tuple[int, str], dict[str, float]]:
    found: dict[tuple[int, str], list[float]] = {}
    for t, g, x in rows.select("t", "g", "x").iter_rows():
        for end in range(t // (2 * SECOND) + 1, t // (2 * SECOND) + 4):
            found.setdefault((end * 2 * SECOND, g), []).append(x)
    return {k: {"n": len(v), "total": sum(v), "mean": sum(v) / len(v)} for k, v in found.items()}


def valued(delay: make.Delay, seed: int, groups: int = 1, seconds: int = 1_500, **options: Any) -> Valued:
    rows, rng = make.arrivals(delay, seconds=seconds, seed=seed, **options), np.random.default_rng(seed)
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    values, keys = rng.normal(100, 30, len(rows)), rng.integers(0, groups, len(rows))
    return Valued.with_values(paged, WindowSpec(10 * SECOND, 10 * SECOND), values, keys)


@pytest.mark.parametrize(
    ("delay", "groups"),
    [
        pytest.param(make.exponential(2), 1, id="steady"),
        pytest.param(make.mixed(make.exponential(0.5), make.exponential(8), 0.1), 1, id="two kinds of delays"),
        pytest.param(make.exponential(2), 4, id="groups"),
        pytest.param(make.none(), 1, id="sorted"),
    ],
)
def test_enough_results_are_within_the_bound_and_the_wait_is_near_that_of_hindsight(
    delay: make.Delay, groups: int
) -> None:
    case = valued(delay, 61, groups)
    outcome, best = run(sw.result_error("1%").tracker(TimeDomain.TIMESTAMP), case), hindsight(case, 0.01)
    assert within(outcome, 0.01) >= 0.94
    assert outcome.waits().mean() <= 1.4 * best.waits().mean() + SECOND


def test_a_looser_bound_and_fewer_windows_wait_less() -> None:
    case = valued(make.exponential(2), 62)
    policies = sw.result_error("1%"), sw.result_error("5%"), sw.result_error("5%", windows="60%")
    waits = [run(p.tracker(TimeDomain.TIMESTAMP), case).waits().mean() for p in policies]
    assert waits[0] > 1.2 * waits[1] > 1.2 * 1.1 * waits[2]


def test_after_delays_grow_enough_results_are_within_the_bound_again() -> None:
    case = valued(make.regimes((0, make.exponential(1)), (700, make.exponential(5))), 63, seconds=2_000)
    outcome = run(sw.result_error("1%").tracker(TimeDomain.TIMESTAMP), case)
    assert within(outcome, 0.01) >= 0.92
    late = [int(case.paged.ats[k]) for k in range(len(case.paged))]
    slacks = case.paged.highest_before()[1:] - outcome.heartbeats[1:]
    before, after = (slacks[np.searchsorted(late, t * SECOND)] for t in (690, 900))
    assert after > 2 * before


def test_a_corrupt_time_far_ahead_closes_nothing() -> None:
    rows = make.arrivals(make.exponential(1), seconds=300, seed=64)
    times = rows["time"].to_numpy().copy()
    times[5_000] = 10**15
    paged = Paged.cut(rows["arrival"].to_numpy(), times, SECOND)
    spec = WindowSpec(10 * SECOND, 10 * SECOND)
    case = Valued.with_values(paged, spec, np.ones(len(times)), np.zeros(len(times), np.int64))
    assert run(sw.result_error("1%").tracker(TimeDomain.TIMESTAMP), case).share < 0.01


def test_of_very_many_groups_some_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_results, "ENTRIES", 500)
    case = valued(make.exponential(2), 65, groups=64, seconds=400)
    tracker = sw.result_error("10%").tracker(TimeDomain.TIMESTAMP)
    outcome = run(tracker, case)
    assert 0 < tracker.metrics()["groups_followed"] < 0.5
    assert within(outcome, 0.1) >= 0.9


def test_quick_sources_do_not_wait_for_a_slow_one() -> None:
    delays = [make.exponential(0.5), make.exponential(0.5), lambda rng, made: 60 + rng.exponential(1, len(made))]
    parts = [make.arrivals(d, seconds=600, rate=20, seed=66 + k, sources=1) for k, d in enumerate(delays)]
    rows = pl.concat(part.with_columns(source=pl.lit(f"s{k}")) for k, part in enumerate(parts))
    tracker = sw.result_error("1%").tracker(TimeDomain.TIMESTAMP)
    waits = run_by_source(tracker, rows, SECOND, WindowSpec(10 * SECOND, 10 * SECOND)).waits
    quick, slow = (float(np.mean(waits[s])) / SECOND for s in ("s0", "s2"))
    assert quick < 15 < 55 < slow


@pytest.mark.parametrize(
    ("write", "wrong"),
    [
        (lambda: sw.result_error(1), "is not between 0 and 1"),
        (lambda: sw.result_error("much"), "is not a share"),
        (lambda: sw.result_error("1%", windows="100%"), "windows='100%'"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_write(write: Callable[[], object], wrong: str) -> None:
    with pytest.raises(QueryError, match=re.escape(wrong)):
        write()
