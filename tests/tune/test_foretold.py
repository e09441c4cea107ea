"""What a back-test foretells is what the engine does: rows lost, pairs lost, and when each window is answered.

Catches a back-test that calls trackers in another order than the engine, wakes them at other instants, counts a
page against the wrong heartbeat, or judges sources by the wrong windows.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.columns import TIME
from slackwater.papers.disorder_control import disorder_control
from slackwater.papers.max_delay import max_delay
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.tune.rows import ARRIVAL, FrameRows
from slackwater.windows.spec import WindowSpec
from tests.kit.backtests import backtest, backtest_by_source
from tests.kit.played_policies import Told, paged, played, stream

SECOND = 1_000_000
POLICIES: list[Disorder] = [
    bounded("3 seconds"),
    bounded("1 second", timeout="7 seconds"),
    bounded("2 seconds", idle="4 seconds"),
    bounded("0 seconds", idle="9 seconds", timeout="12 seconds"),
    drop_ratio(0.05, stretch=10),
    drop_ratio(0.2, timeout="6 seconds"),
    disorder_control("5%"),
    max_delay(timeout="15 seconds"),
    learned(window="10 seconds", timeout="8 seconds"),
    learned(window=5, tmax="3 seconds", timeout=None),
    sensors("2 seconds", timeout="5 seconds"),
]
BY_SOURCE = [p for p in POLICIES if p.describe().startswith(("drop_ratio", "learned", "sensors"))]
SPECS = [WindowSpec(5 * SECOND, 5 * SECOND), WindowSpec(7 * SECOND, 3 * SECOND, 1 * SECOND)]


@st.composite
def rows(draw: st.DrawFn, many_sources: bool) -> pl.DataFrame:
    """Rows that come late, in bursts, after pauses, now and then without a time or an arrival."""
    seed, n = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 150))
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(draw(st.sampled_from([0.05, 0.4])), n) + (rng.random(n) < 0.03) * rng.exponential(20, n)
    arrival = (np.cumsum(gaps) * SECOND).astype(np.int64) + 1_000 * SECOND
    late = rng.exponential(draw(st.sampled_from([0.2, 2.0])), n) * (rng.random(n) < 0.5)
    late -= (rng.random(n) < 0.02) * rng.exponential(10, n)
    source = rng.integers(0, 3, n)
    late += np.array([0.0, 0.0, draw(st.sampled_from([0.0, 6.0]))])[source]
    time = [None if rng.random() < 0.02 else int(t) for t in arrival - (late * SECOND).astype(np.int64)]
    came = [None if rng.random() < 0.01 and k else int(a) for k, a in enumerate(arrival)]
    names = [f"s{i}" for i in source] if many_sources else None
    return stream(came, time, names)  # type: ignore[arg-type]


def check(found: Told, expected: Told) -> None:
    assert (found.late_rows, found.lost_pairs) == (expected.late_rows, expected.lost_pairs)
    assert expected.all_pairs in (-1, found.all_pairs)
    assert found.answers == expected.answers


def test_rows_none_of_which_has_a_time_have_no_sketches() -> None:
    rows = pl.DataFrame({ARRIVAL: [1_000_028_494], TIME: [None]}, schema={ARRIVAL: pl.Int64, TIME: pl.Int64})
    assert FrameRows(rows.lazy(), has_source=False).sketches(500_000).height == 0


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
@settings(max_examples=4)
@given(data=st.data())
def test_one_heartbeat_for_all(policy: Disorder, data: st.DataObject) -> None:
    table = data.draw(rows(many_sources=policy.needs_sources or data.draw(st.booleans())))
    spec = data.draw(st.sampled_from(SPECS))
    page = data.draw(st.sampled_from([SECOND // 2, 2 * SECOND]))
    check(Told.foretold(backtest(policy, paged(table, page, spec))), played(table, policy, page, spec))


@pytest.mark.parametrize("policy", BY_SOURCE, ids=lambda p: p.describe())
@settings(max_examples=4)
@given(data=st.data())
def test_a_heartbeat_for_each_source(policy: Disorder, data: st.DataObject) -> None:
    table, spec = data.draw(rows(many_sources=True)), data.draw(st.sampled_from(SPECS))
    foretold = Told.foretold(backtest_by_source(policy, paged(table, SECOND, spec)))
    check(foretold, played(table, policy, SECOND, spec, by_source=True))
