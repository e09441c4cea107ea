"""Intervals where the world stops: devices fall silent one by one, half of them at once, or all for a while."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.lab.early_history import answer, history
from experiments.lab.stops import STOPS

QUICK = ("one by one", "outage")
LONG = [pytest.param(name, marks=pytest.mark.long) for name in STOPS if name not in QUICK]


@pytest.mark.parametrize("kind", [*QUICK, *LONG])
def test_windows_in_which_something_stops_are_held(kind: str) -> None:
    held = []
    for seed in (1601, 1602):
        stops = STOPS[kind](600, np.random.default_rng(seed))
        said = answer(history(stops.case))
        hit = said.filter(pl.Series(stops.affected(said["prodded"].to_numpy()))).drop_nulls("n_low")
        assert (hit["n_low"] < hit["n_high"]).all()
        held += hit.select(pl.col("n_final").is_between("n_low", "n_high")).to_series().to_list()
    assert len(held) >= 20
    assert np.mean(held) >= 0.8, np.mean(held)
