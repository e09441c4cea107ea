"""The held-out kinds of streams are what they say. Nothing here asks how good an estimate is on them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.lab.arrivals import SECOND
from experiments.lab.early_streams import Case
from experiments.lab.held_out_kinds import HELD_OUT, VEHICLES, three_populations, tunnels, two_populations
from slackwater.progress.time import microseconds

MINUTE, DAY = 60 * SECOND, 1440 * 60 * SECOND


def rows(case: Case) -> pl.DataFrame:
    delay = (case.arrived - case.rows["t"].to_numpy()) / SECOND
    return case.rows.with_columns(arrived=pl.Series(case.arrived), delay=pl.Series(delay))


@pytest.mark.parametrize("kind", HELD_OUT)
def test_one_seed_is_one_stream_and_no_row_is_later_than_the_slack(kind: str) -> None:
    case, again = (HELD_OUT[kind](60, np.random.default_rng(3)) for _ in range(2))
    assert case.rows.equals(again.rows)
    assert (np.diff(case.arrived) >= 0).all()
    assert 0 <= rows(case)["delay"].min() <= rows(case)["delay"].max() < microseconds(case.slack) / SECOND  # type: ignore[operator]


def test_what_is_measured_in_a_tunnel_comes_at_once_and_is_slow() -> None:
    fleet = rows(tunnels(200, np.random.default_rng(4)))
    assert fleet["g"].n_unique() == VEHICLES
    together = (pl.col("arrived") / 1_000).round()  # Times and delays are rounded one by one.
    backlogs = fleet.filter(pl.col("delay") > 5).group_by("g", together).agg(pl.len(), pl.col("v").max())
    # 2,000 seconds are some six tunnels for each vehicle, with dozens of rows each, in which it drives at 80.
    assert 4 * VEHICLES < backlogs.height < 9 * VEHICLES
    assert backlogs["len"].median() > 10  # type: ignore[operator]
    assert backlogs["v"].max() < 80 + 5 * 3  # type: ignore[operator]
    assert 0.06 < (fleet["delay"] > 5).mean() < 0.12  # type: ignore[operator]


def test_the_mix_of_quick_and_slow_senders_moves_over_the_day_and_the_week() -> None:
    sales = rows(two_populations(1_200, np.random.default_rng(5)))
    late = sales.with_columns(
        hour=pl.col("t") % DAY // (60 * MINUTE),
        weekend=(pl.col("t") // DAY + 3) % 7 >= 5,
        late=pl.col("delay") > 2 * 60,
    )
    by_hour = late.group_by("weekend", "hour").agg(pl.col("late").mean())
    share = {(weekend, hour): late for weekend, hour, late in by_hour.iter_rows()}
    assert share[False, 13] < 0.15 < 0.6 < share[False, 20]
    assert share[True, 13] > 2 * share[False, 13]


def test_offices_send_together_and_not_at_weekends() -> None:
    sent = rows(three_populations(1_200, np.random.default_rng(6)))
    at_eleven = sent.filter((pl.col("t") % DAY // (60 * MINUTE)) == 11)
    weekend = (pl.col("t") // DAY + 3) % 7 >= 5
    by_day = at_eleven.group_by(weekend.alias("weekend")).agg(pl.len() / pl.col("t").floordiv(DAY).n_unique())
    a_day = dict(by_day.iter_rows())
    assert a_day[False] > 2 * a_day[True]
    # Within an hour half of the rows are those of offices: they come in the first minutes after each ten.
    minute = at_eleven.filter(~weekend)["delay"].sort()
    assert 3 * 60 < minute.median() < 8 * 60  # type: ignore[operator]
