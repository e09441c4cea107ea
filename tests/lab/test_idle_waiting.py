"""S3's experiment in virtual time: what the paper says of its four lines holds, and tuples come out in order."""

from __future__ import annotations

import pytest

import slackwater as sw
from experiments.lab.idle_waiting import Case, IdleOutcome, arrivals, simulate

SECONDS = 12.0
#: A sparse stream that shows up within the seconds of a test.
RATES = (50.0, 0.25)


def run(case: Case, seconds: float = SECONDS) -> IdleOutcome:
    return simulate(case, seconds, seed=3)


@pytest.fixture(scope="module")
def lines() -> dict[str, IdleOutcome]:
    return {
        "A": run(Case(sw.papers.no_enabling(), rates=RATES)),
        "B": run(Case(sw.papers.no_enabling(), rates=RATES, punctuations=100)),
        "C": run(Case(rates=RATES)),
        "D": run(Case(rates=RATES, latent=True)),
    }


def test_the_ordered_union_gives_all_tuples_that_pass_in_the_order_of_time(lines: dict[str, IdleOutcome]) -> None:
    passing = [at for at, _, made in arrivals(Case(rates=RATES), SECONDS, 3) if made.passes]
    for line in "BC":
        times = [made.time for made in lines[line].departed]
        assert times == sorted(times)
    assert [made.at for made in lines["C"].departed] == passing
    assert sorted(made.at for made in lines["D"].departed) == passing


def test_on_demand_is_within_a_tenth_of_a_millisecond_of_latent_time(lines: dict[str, IdleOutcome]) -> None:
    """S3: 'about 0.1 milliseconds—four orders of magnitude smaller than A'; here a step takes 5 microseconds."""
    assert 0 < lines["C"].mean - lines["D"].mean <= 100
    assert lines["A"].mean > 10_000 * lines["C"].mean
    assert lines["A"].mean > lines["B"].mean > 50 * lines["C"].mean


def test_idle_waiting_is_most_of_the_time_without_and_next_to_none_on_demand(lines: dict[str, IdleOutcome]) -> None:
    """S3: 99 % in A, 15 % in B at 100 punctuations a second, less than 0.1 % in C."""
    assert lines["A"].idle_waiting > 0.98
    assert 0.1 < lines["B"].idle_waiting < 0.3
    assert lines["C"].idle_waiting < 0.001
    assert lines["D"].idle_waiting == 0


def test_the_peak_queue_is_two_orders_smaller_and_grows_again_with_many_punctuations(
    lines: dict[str, IdleOutcome],
) -> None:
    assert lines["A"].peak_queue > 100 * lines["D"].peak_queue / 2 > 20 * lines["C"].peak_queue / 2
    few, many = (run(Case(sw.papers.no_enabling(), punctuations=rate), 2).peak_queue for rate in (100, 1_000))
    assert many > 3 * few, "punctuations of the sparse stream wait for the next tuple of the other one"


def test_none_is_made_when_nobody_waits(lines: dict[str, IdleOutcome]) -> None:
    """A tuple that waits is let out by one enabling timestamp."""
    assert lines["A"].enabled == lines["B"].enabled == lines["D"].enabled == 0
    assert 0 < lines["C"].enabled <= len(lines["C"].departed)
