"""The lateness that people see is that of the rows, to within a bin."""

from __future__ import annotations

import datasketches as ds
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.progress.arrival import Arrival
from slackwater.progress.histogram import LatenessHistogram

SECOND = 1_000_000


def page(times: np.ndarray) -> Arrival:
    sketch = ds.kll_doubles_sketch(4096)
    sketch.update(times.astype(np.float64))
    return Arrival(len(times), 0, int(times.min()), int(times.max()), 0, sketch=bytes(sketch.serialize()))


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_those_of_the_rows(seed: int) -> None:
    source = np.random.default_rng(seed)
    seen, late, top = LatenessHistogram(), [], None
    for number in range(40):
        times = (number + 1) * 10 * SECOND - (source.exponential(SECOND, 3_000)).astype(np.int64)
        seen.admit(number, top)
        seen.arrive(number, page(times))
        if top is not None:
            late.append(np.maximum(top - times, 0))
        top = int(times.max()) if top is None else max(top, int(times.max()))
    # Rows come behind the page before by chance only: make one page that is wholly late.
    seen.admit(99, top)
    seen.arrive(99, page(np.full(3_000, (top or 0) - 5 * SECOND)))
    late.append(np.full(3_000, 5 * SECOND))
    every = np.concatenate(late)
    got = seen.quantiles()
    assert got["max"] == every.max()
    assert got["p50"] == 0 == np.quantile(every, 0.5)
    assert got["p99"] == pytest.approx(np.quantile(every, 0.99), rel=0.1)


def test_without_a_sketch_only_the_largest_is_known() -> None:
    seen = LatenessHistogram()
    assert seen.quantiles() == {}
    seen.admit(1, 100)
    seen.arrive(1, Arrival(3, 0, 60, 120, 0))
    assert seen.quantiles() == {"max": 40}


def test_a_restart_goes_on_with_the_same_distribution() -> None:
    one, other = LatenessHistogram(), LatenessHistogram()
    for number in range(5):
        one.admit(number, 1_000 * number)
        one.arrive(number, page(np.arange(500) + 1_000 * number - 300))
    one.admit(5, 5_000)
    other.restore(one.state())
    for seen in (one, other):
        seen.arrive(5, page(np.arange(500)))
    assert one.quantiles() == other.quantiles()
    assert one.state() == other.state()


@given(st.lists(st.lists(st.integers(0, 10_000), min_size=1, max_size=60), min_size=2, max_size=6))
def test_the_shares_are_the_distribution_that_the_quantiles_are_read_from(pages: list[list[int]]) -> None:
    histogram, highest = LatenessHistogram(), None
    for number, times in enumerate(pages):
        histogram.admit(number, highest)
        histogram.arrive(number, page(np.array(times)))
        highest = max([*times, *([] if highest is None else [highest])])
    shares, found = histogram.shares(), histogram.quantiles()
    assert abs(sum(part for _, part in shares) - 1) < 1e-3
    assert [late for late, _ in shares] == sorted(late for late, _ in shares)
    upto = 0.0
    for late, part in shares:
        upto += part
        if upto >= 0.5 + 1e-3:
            assert found["p50"] <= late
            break
    assert shares[-1][0] <= found["max"]
