"""A user's own measure of accuracy: compared with a recomputation from the rows that were said."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from experiments.lab.arrivals import SECOND
from experiments.lab.early_streams import Case, play
from slackwater.columns import WINDOW
from slackwater.estimates.measure import Measure
from slackwater.testing import Script

AGGREGATES = {"n": "count(*)", "word": "max(w)"}


def case() -> Case:
    rng = np.random.default_rng(4)
    t = np.sort(rng.integers(0, 200 * SECOND, 900))
    words = rng.choice(["ab", "cd", "ef", "zz"], 900, p=[0.5, 0.3, 0.19, 0.01])
    return Case(pl.DataFrame({"t": t, "w": words, "g": rng.integers(0, 3, 900)}), t, group_by=("g",))


def quality(early: Any, final: Any, seconds: float) -> float:
    same = early == final if isinstance(final, str) else abs(early - final) <= 0.1 * final
    return float(same) / (1 + seconds / 100)


def pairs(script: Script) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    finals = {(r["window_start"], r["g"]): r for r in script.results if r["kind"] == "final"}
    last = {(r["window_start"], r["g"]): r for r in script.results if r["kind"] == "early"}
    return [(early, finals[at]) for at, early in last.items()]


def test_the_mean_quality_is_that_of_the_last_early_rows_and_text_counts_too() -> None:
    script = play(case(), sw.early(every="4 seconds", measure=quality), AGGREGATES)
    found = script.metrics()["q/window"]["accuracy"]
    for name in AGGREGATES:
        wanted = [
            quality(e[name], f[name], (f["emitted_at"] - e["emitted_at"]).total_seconds()) for e, f in pairs(script)
        ]
        assert found[name]["measured_pairs"] == len(wanted) > 40
        assert found[name]["measured"] == pytest.approx(np.mean(wanted))
    assert 0 < found["word"]["measured"] < 1 and "seen" not in found["word"]


def test_a_function_that_fails_stops_no_stream_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def only_numbers(early: Any, final: Any, seconds: float) -> float:
        return 1 - abs(early - final) / 10_000

    with caplog.at_level(logging.WARNING):
        script = play(case(), sw.early(at=0.5, measure=only_numbers), AGGREGATES)
    found = script.metrics()["q/window"]["accuracy"]
    assert found["word"] == {"measured_pairs": 0} and found["n"]["measured_pairs"] > 40
    assert sum("measure=" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.parametrize(
    "gives", [None, float("nan"), float("inf"), -0.1, 1.5, "good", [1.0], 1j, np.array([0.5, 0.5]), KeyError("g")]
)
def test_what_is_no_share_is_told_and_left_out(gives: Any, caplog: pytest.LogCaptureFixture) -> None:
    def measure(early: Any, final: Any, seconds: float) -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    with caplog.at_level(logging.WARNING):
        script = play(case(), sw.early(at=0.5, measure=measure), AGGREGATES)
    found = script.metrics()["q/window"]["accuracy"]
    assert found["word"] == {"measured_pairs": 0} and found["n"]["measured_pairs"] == 0
    assert sum("measure=" in r.getMessage() for r in caplog.records) == 1
    assert pairs(script), "the answers come all the same"


def test_a_prod_for_one_group_leaves_what_was_said_of_the_others() -> None:
    measure = Measure(lambda early, final, seconds: early / final, ["g"], ["n"])
    measure.early(pl.DataFrame({WINDOW: [1, 1], "g": ["a", None], "n": [2, 3]}), now=0)
    measure.early(pl.DataFrame({WINDOW: [1], "g": ["a"], "n": [8]}), now=SECOND)
    measure.final(pl.DataFrame({WINDOW: [1, 1], "g": ["a", None], "n": [10, 10]}), now=5 * SECOND)
    assert measure.metrics("n") == {"measured": pytest.approx((0.8 + 0.3) / 2), "measured_pairs": 2}


def test_the_seconds_are_those_since_the_answer_of_each_group() -> None:
    waited: list[float] = []
    measure = Measure(lambda early, final, seconds: waited.append(seconds) or 1.0, ["g"], ["n"])
    measure.early(pl.DataFrame({WINDOW: [1, 1], "g": ["a", "b"], "n": [2, 3]}), now=0)
    measure.early(pl.DataFrame({WINDOW: [1], "g": ["a"], "n": [8]}), now=SECOND)
    measure.final(pl.DataFrame({WINDOW: [1, 1], "g": ["a", "b"], "n": [10, 10]}), now=5 * SECOND)
    assert sorted(waited) == [4, 5]
