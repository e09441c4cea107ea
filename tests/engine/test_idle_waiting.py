"""The share of time in idle-waiting (S3 section 6): a busy stream, and one that sends a row in twenty seconds."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.enabling import Enabling, on_demand
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, union, windows

SECOND = 1_000_000


def share(kind: Any, quiet_streams: Enabling, sparse: bool = True) -> float:
    """Of windows over the union, for a minute."""
    query = plan(windows(union(A, B), "1 second", "1 second"), {"a": kind, "b": kind}, domain=TimeDomain.TIMESTAMP)
    script = Script(query, quiet_streams=quiet_streams, clock=ManualClock(SECOND))
    for now in range(SECOND, 60 * SECOND, SECOND // 5):
        script.until(now)
        script.advance(now - script.clock.now())
        script.page(frame([[now, "x"]]), stream="a")
        if not sparse or now % (20 * SECOND) == 0:
            script.page(frame([[now, "x"]]), stream="b")
    return float(script.metrics()["q/window"]["idle_waiting"])


@pytest.mark.parametrize(
    ("kind", "quiet", "sparse", "least", "most"),
    [
        (sw.internal(), sw.papers.no_enabling(), True, 0.9, 1.0),
        (sw.internal(), on_demand(), True, 0.0, 0.001),
        (sw.bounded("0 seconds"), on_demand(), True, 0.9, 1.0),
        (sw.bounded("0 seconds"), on_demand(), False, 0.0, 0.2),
    ],
)
def test_s3_6_a_quiet_stream_makes_windows_wait_unless_it_is_asked(
    kind: Any, quiet: Enabling, sparse: bool, least: float, most: float
) -> None:
    assert least <= share(kind, quiet, sparse) <= most


def test_one_stream_waits_for_nobody_else() -> None:
    script = Script(plan(windows(A, 10, 10)))
    script.page(frame([[1], [25]])).advance(5)
    assert script.metrics()["q/window"]["idle_waiting"] is None
