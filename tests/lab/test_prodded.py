"""The streams of S5's experiments: rows come in order and in time, punctuations are grammatical and prompt."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from experiments.lab.prodded import bursty, dense, punctuated, reports, steady


@given(times=st.lists(st.integers(-40, 60), min_size=1, max_size=30), every=st.integers(1, 15))
def test_a_punctuation_comes_as_soon_as_it_is_true_and_a_row_lies_beyond(times: list[int], every: int) -> None:
    said = punctuated(pl.DataFrame({"arrival": range(len(times)), "time": times}), every)["upto"].to_list()
    known = None
    for place in range(len(times)):
        seen, coming = times[: place + 1], times[place + 1 :]
        ends = [e for e in range(-60, 80) if e % every == 0]
        true = [e - 1 for e in ends if min(times) < e <= max(seen) and not any(t < e for t in coming)]
        best = max(true, default=None)
        assert said[place] == (best if best != known else None)
        known = best


def test_streams_lie_in_the_order_of_arrival_and_no_row_comes_before_its_time() -> None:
    for rows in (reports(600), steady(100), dense(100), bursty(160)):
        assert rows["arrival"].is_sorted()
        assert (rows["arrival"] >= rows["time"]).all()
    assert reports(600)["time"].n_unique() == 30
    assert 12_500 < len(bursty(160)) < 14_500
