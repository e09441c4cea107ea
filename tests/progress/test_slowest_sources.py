"""The sources that hold time back, against a plain sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.time import MAX_TICK, MIN_TICK

_TICKS = st.one_of(st.integers(-5, 5), st.sampled_from([MIN_TICK, MAX_TICK]))


@given(st.lists(_TICKS), st.integers(1, 6))
def test_the_lowest_come_first_and_of_equal_ones_the_first_named(ticks: list[int], most: int) -> None:
    names = [f"s{n}" for n in range(len(ticks))]
    found = SourceHeartbeats(names, np.array(ticks, dtype=np.int64), 0).lowest(most)
    order = sorted(range(len(ticks)), key=lambda n: (ticks[n], n))[:most]
    assert list(found.items()) == [(names[n], ticks[n]) for n in order]
