"""Rules of others that tune tries: each waits as its rule says, and none of them is recommended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.tune.rivals import Rival, RivalTracker

SECOND, HOUR = 1_000_000, 3_600_000_000


def waits(rule: str, late: list[float], page: int = SECOND, rows: int = 100) -> list[int]:
    """By page, how far the heartbeat is behind the largest time: a tenth of the rows of page k are late[k] late."""
    tracker, found = Rival(rule, 0.01).tracker(TimeDomain.TIMESTAMP), []
    assert isinstance(tracker, RivalTracker)
    for k, seconds in enumerate(late):
        top = 10**12 + k * page
        times = np.full(rows, top, dtype=np.int64)
        times[: rows // 10] -= int(seconds * SECOND) + page
        arrival = Arrival(rows, 0, int(times.min()), top, top, sketch=sketch_of(times))
        tracker.arrive(arrival)
        beat = tracker.heartbeat.tick
        found.append(-1 if beat == MIN_TICK else top - beat - 1)
    return found


def test_the_quantile_rule_has_margins_at_the_start_and_forgets_after_five_thousand_rows() -> None:
    found = waits("quantile", [3.0] * 60 + [0.0] * 60)
    assert found[3] == 30 * SECOND
    assert found[6] == 10 * SECOND
    assert found[9] == pytest.approx(3 * SECOND, abs=SECOND), "a tenth of the rows, so more than 5 %, is so late"
    assert found[115] < SECOND / 2


def test_the_first_hour_says_all() -> None:
    found = waits("first hour", [60.0] * 7 + [600.0] * 10, page=HOUR // 6)
    assert found[:6] == [-1] * 6
    assert found[6:] == [found[6]] * 11
    assert 60 * SECOND <= found[6] < 60 * SECOND + HOUR


def test_adwin_forgets_what_came_before_a_change() -> None:
    found = waits("adwin", [1.0, 1.1] * 50 + [30.0, 31.0] * 50 + [1.0, 1.1] * 50)
    assert found[95] == pytest.approx(1 * SECOND, abs=SECOND / 2)
    assert found[195] == pytest.approx(31 * SECOND, abs=SECOND)
    assert found[-1] == pytest.approx(1 * SECOND, abs=SECOND / 2)


def test_rivals_stand_in_the_table_and_are_not_recommended() -> None:
    dice, begin = np.random.default_rng(3), datetime(2024, 5, 1, tzinfo=UTC)
    received = [begin + timedelta(seconds=2 * k) for k in range(4_000)]
    sent = [
        at - timedelta(seconds=float(late)) for at, late in zip(received, dice.exponential(3, 4_000), strict=True)
    ]
    report = sw.tune(pl.DataFrame({"sent": sent, "received": received}), time="sent", arrival="received")
    assert sum("rival: " in line for line in str(report).splitlines()) == 3
    assert "rival" not in report.lines["slackwater"]
