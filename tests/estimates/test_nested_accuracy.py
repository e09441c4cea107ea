"""Accuracy, targets and measures of windows over the results of other windows (S5 section 4.4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.estimates.early import Early
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, arrow_plan

SECOND = 1_000_000


def nested(early: Early, seconds: int = 900) -> Script:
    """The mean and the largest count of five groups, in windows of ten seconds of counts by five seconds."""
    rng = np.random.default_rng(3)
    first = pl.DataFrame({"t": [0], "g": [0]})
    below = arrow_plan(
        first, "5 seconds", "5 seconds", group_by=["g"], domain=TimeDomain.TIMESTAMP, disorder=bounded("3 seconds"),
        n="count(*)",
    )  # fmt: skip
    above = arrow_plan(
        first, "10 seconds", "10 seconds", domain=TimeDomain.TIMESTAMP, over=below, usual="avg(n)", most="max(n)"
    )
    script = Script(above, early=early)
    for second in range(seconds):
        times = second * SECOND - (rng.exponential(0.7, 20).clip(max=2.9) * SECOND).astype(np.int64)
        script.until(second * SECOND).page(
            pl.DataFrame({"t": times[times >= 0], "g": rng.integers(0, 5, len(times))[times >= 0]})
        )
    return script.drain()


def of_kind(script: Script, kind: str) -> list[dict[str, Any]]:
    return [row for row in script.results if row["kind"] == kind]


def test_answers_over_results_have_intervals_that_hold_and_stay_what_has_arrived() -> None:
    script = nested(sw.early(at=0.8))
    finals = {row["window_start"]: row for row in of_kind(script, "final")}
    early = of_kind(script, "early")
    assert all(row["usual"] == row["usual_seen"] for row in early)
    known = [row for row in early if row["usual_low"] is not None]
    assert len(known) > 60
    held = [row["usual_low"] <= finals[row["window_start"]]["usual"] <= row["usual_high"] for row in known]
    assert 0.8 <= np.mean(held) <= 1.0
    figures = script.metrics()["q/window"]["accuracy"]["usual"]
    assert figures["pairs"] == len(early) and 0.5 < figures["seen"] <= 1


def test_a_measure_of_ones_own_compares_answers_over_results() -> None:
    script = nested(sw.early(at=0.8, measure=lambda early, final, seconds: float(early <= final)), 200)
    figures = script.metrics()["q/window"]["accuracy"]["most"]
    assert figures["measured_pairs"] == len(of_kind(script, "early")) and figures["measured"] > 0.9


def test_a_measure_of_text_moves_the_prods_to_its_target() -> None:
    """The latest word of a window is another one in its second half: early answers are right from then on."""
    first = pl.DataFrame({"t": [0], "word": ["a"]})
    plan = arrow_plan(first, "10 seconds", "10 seconds", domain=TimeDomain.TIMESTAMP, disorder=bounded("1 second"),
                      latest="max(word)")  # fmt: skip
    early = sw.early(at=0.1, accuracy=0.9, measure=lambda early, final, seconds: float(early == final))
    script = Script(plan, early=early)
    for second in range(600):
        word = "b" if second % 10 >= 6 else "a"
        script.until(second * SECOND).page(pl.DataFrame({"t": [second * SECOND], "word": [word]}))
    figures = script.metrics()
    assert 0.55 < figures["q/prodder"]["prodded_at"] < 0.8
    assert figures["q/window"]["accuracy"]["latest"]["measured"] > 0.6


@pytest.mark.parametrize("target", [0.8])
def test_a_target_moves_the_prods_of_windows_over_results(target: float) -> None:
    script = nested(sw.early(accuracy=target))
    figures = script.metrics()
    assert figures["q/prodder"]["prodded_at"] != 0.75
    assert "running_accuracy" in figures["q/prodder"]
