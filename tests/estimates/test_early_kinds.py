"""Intervals on kinds of streams that were not chosen for them, beside a plain interval of the last hundred errors.

Each history is that of `slackwater/testing/early_kinds.py`; the real `Estimates` answers it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

from slackwater.estimates.early import Early
from slackwater.testing.early_history import COLUMNS, answer, held, history, judge
from slackwater.testing.early_kinds import KINDS
from slackwater.testing.early_streams import play


@cache
def answers(kind: str, seed: int, windows: int) -> pl.DataFrame:
    return answer(history(KINDS[kind](windows, np.random.default_rng(seed))))


@pytest.mark.parametrize("kind", ["zipf", "drifting"])
def test_every_group_has_the_coverage_that_was_asked_for(kind: str) -> None:
    for column in COLUMNS:
        by_group = held(answers(kind, 11, 700), column).filter(pl.col("windows") >= 500)
        assert by_group.height >= 38
        worst = by_group.filter((pl.col("held") < 0.87) | (pl.col("held") > 0.93))
        assert worst.is_empty(), (column, worst)


@pytest.mark.parametrize("kind", ["gaps", "season", "correlated"])
def test_no_interval_scores_much_worse_than_a_plain_one(kind: str) -> None:
    for column in COLUMNS:
        windows = 800 if kind == "season" else 500
        scores = [judge(answers(kind, seed, windows), column).against_plain for seed in (11, 12)]
        assert np.mean(scores) <= 1.06, (column, scores)


def test_after_silence_intervals_are_no_wider_than_the_stream_itself() -> None:
    for seed in (11, 12):
        known = answers("gaps", seed, 500).filter(pl.col("n_low").is_not_null())
        usual = known["n_final"].median()
        assert isinstance(usual, float)
        assert known.filter(pl.col("n_high") > 2 * usual).is_empty()


def test_values_that_go_with_their_delay_are_corrected_and_others_left() -> None:
    late = answers("correlated", 11, 500).tail(400)
    for column in ("mean", "top"):
        seen, said = (float((late[f"{column}_final"] - late[c]).abs().mean()) for c in (f"{column}_seen", column))  # type: ignore[arg-type]
        assert said < 0.4 * seen, column
    even = answers("steady", 11, 300)
    assert (even["mean"] == even["mean_seen"]).mean() > 0.9  # type: ignore[operator]


def test_a_season_is_found_and_every_part_of_the_day_is_held() -> None:
    both = [answers("season", seed, 800) for seed in (11, 12)]
    known = pl.concat(both).filter(pl.col("n_low").is_not_null())
    inside = known.select(
        part=pl.col("prodded") // 14_400_000_000 % 6,
        held=pl.col("n_final").is_between(pl.col("n_low"), pl.col("n_high")),
    )
    by_part = inside.group_by("part").agg(pl.col("held").mean())
    assert by_part.height == 6
    assert by_part["held"].min() >= 0.83 and by_part["held"].max() <= 0.96, by_part  # type: ignore[operator]
    assert np.mean([judge(one, "n").error_against_plain for one in both]) <= 1.0


def test_the_histories_are_those_of_a_query() -> None:
    case = KINDS["steady"](60, np.random.default_rng(3))
    script = play(case, Early())
    finals = [r["n"] for r in script.results if r["kind"] == "final"]
    assert history(case).final["n"].to_list() == finals
