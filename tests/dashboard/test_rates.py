"""Rates are those of the last seconds, whatever the looks."""

from __future__ import annotations

import pytest

from slackwater.dashboard.rates import SPAN, Rates


def figures(rows: float) -> dict[str, dict[str, float]]:
    return {"w": {"rows_in": rows, "rows_out": rows / 2, "runs": rows / 10, "run_seconds": rows / 1000}}


def test_a_steady_stream_has_its_rate_and_a_burst_is_forgotten() -> None:
    rates = Rates()
    for tenth in range(300):
        rates.look(tenth / 10, figures(tenth * 5))
    assert rates.of("w")["rows_in"] == pytest.approx(50) and rates.of("w")["rows_out"] == pytest.approx(25)
    assert rates.of("w")["run_seconds"] == pytest.approx(0.05)
    for tenth in range(300, 300 + int(SPAN * 10) + 20):
        rates.look(tenth / 10, figures(299 * 5))
    assert rates.of("w")["rows_in"] == 0


def test_a_pause_of_looks_is_not_counted_in() -> None:
    rates = Rates()
    rates.look(0, figures(0))
    rates.look(1, figures(10))
    rates.look(1000, figures(5000))
    assert rates.of("w")["rows_in"] == 0, "nothing is known of the last seconds yet"
    rates.look(1002, figures(5200))
    assert rates.of("w")["rows_in"] == 100


def test_an_operator_that_is_new_began_from_nothing_and_one_that_is_unknown_rests() -> None:
    rates = Rates()
    rates.look(0, {})
    rates.look(4, figures(200))
    assert rates.of("w")["rows_in"] == 50 and rates.of("gone")["rows_in"] == 0
