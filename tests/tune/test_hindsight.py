"""The fixed delay of a back-test is the least that would have done: by brute force over rows, one at a time.

Catches a delay that is off by a tick, a page judged by its own rows, lateness measured against the wrong maximum,
and a rounding that loses more than was allowed.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.columns import TIME
from slackwater.progress.bounds.bounded import bounded
from slackwater.tune.hindsight import curve, fixed, hindsight, written
from slackwater.tune.rows import ARRIVAL
from slackwater.windows.spec import WindowSpec
from tests.kit.backtests import backtest
from tests.kit.played_policies import paged, stream

SECOND = 1_000_000
SPECS = [WindowSpec(10, 10), WindowSpec(7, 3, 2)]


@st.composite
def streams(draw: st.DrawFn) -> pl.DataFrame:
    moment = st.integers(0, 120)
    pairs = draw(st.lists(st.tuples(moment, st.integers(-15, 60)), min_size=1, max_size=40))
    return stream([a for a, _ in pairs], [a - late for a, late in pairs])


def lost_by_hand(rows: pl.DataFrame, page: int, spec: WindowSpec, delay: int) -> tuple[int, int]:
    """Lost pairs and all pairs, by the watermark: the largest time of the batches before, less the delay."""
    watermark, largest, lost, pairs = None, None, 0, 0
    numbered = sorted((a // page, t) for a, t in rows.select(ARRIVAL, TIME).iter_rows())
    for number in sorted({n for n, _ in numbered}):
        times = [t for n, t in numbered if n == number]
        for t in times:
            k = (t - spec.offset) // spec.slide
            while spec.offset + k * spec.slide + spec.range > t:
                end = spec.offset + k * spec.slide + spec.range
                pairs += 1
                lost += watermark is not None and end <= watermark
                k -= 1
        largest = max(times) if largest is None else max(largest, *times)
        watermark = largest - delay
    return lost, pairs


def least_by_hand(rows: pl.DataFrame, page: int, spec: WindowSpec, share: float) -> int:
    delay = 0
    while (found := lost_by_hand(rows, page, spec, delay))[0] > share * found[1]:
        delay += 1
    return delay


@settings(max_examples=60)
@given(streams(), st.sampled_from(SPECS), st.sampled_from([1, 5, 20]), st.sampled_from([0.001, 0.05, 0.3]))
def test_the_delay_is_the_least_that_would_have_done(
    rows: pl.DataFrame, spec: WindowSpec, page: int, share: float
) -> None:
    assert hindsight(paged(rows, page, spec), share) == least_by_hand(rows, page, spec, share)


@settings(max_examples=40)
@given(streams(), st.sampled_from(SPECS), st.integers(0, 70))
def test_a_fixed_delay_by_arithmetic_is_bounded(rows: pl.DataFrame, spec: WindowSpec, delay: int) -> None:
    pages = paged(rows, 5, spec)
    quick, played = fixed(pages, delay), backtest(bounded(f"{delay} microseconds"), pages)
    assert int(quick.lost.sum()) == lost_by_hand(rows, 5, spec, delay)[0]
    for name in ("met", "lost", "lost_rows", "held", "ends", "closed"):
        assert getattr(quick, name).tolist() == getattr(played, name).tolist(), name


@given(st.integers(0, 10**13))
def test_a_written_delay_is_no_shorter_and_hardly_longer(delay: int) -> None:
    assert delay <= written(delay) <= max(delay * 1.02 + 1, delay + 1_000)


def test_the_curve_falls() -> None:
    rng = np.random.default_rng(3)
    arrival = np.arange(3_000) * SECOND
    late = (rng.exponential(20, 3_000) * SECOND).astype(np.int64)
    pages = paged(
        stream(arrival.tolist(), (arrival - late).tolist()), 5 * SECOND, WindowSpec(30 * SECOND, 10 * SECOND)
    )
    delays, shares, waits = zip(*curve(pages), strict=True)
    assert len(delays) > 20
    assert shares[-1] == 0
    assert list(shares) == sorted(shares, reverse=True)
    assert list(waits) == sorted(waits)
    assert all(hindsight(pages, share) <= delay for delay, share in zip(delays, shares, strict=True))


def test_a_stream_in_order_needs_no_delay() -> None:
    pages = paged(stream([1, 2, 3, 40], [1, 2, 3, 40]), 1, SPECS[0])
    assert hindsight(pages, 0.001) == 0
    assert curve(pages) == []
    assert fixed(pages, 0).figures().lost_rows == 0


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_a_late_group_that_just_fits_may_be_lost(share: float) -> None:
    """A thousand rows in their own windows; as many as the share allows come 500 late, and no more."""
    late = int(1_000 * share)
    arrival = [*range(0, (1_000 - late) * 10, 10), *([20_000] * late)]
    time = [*range(0, (1_000 - late) * 10, 10), *([9_000] * late)]
    assert hindsight(paged(stream(arrival, time), 1, SPECS[0]), share) == 0
    arrival, time = [*arrival, 20_000], [*time, 9_001]
    needed = (999 - late) * 10 - 9_010 + 1
    assert hindsight(paged(stream(arrival, time), 1, SPECS[0]), share) == needed
