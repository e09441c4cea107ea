"""Every disorder policy goes through the same checks; see `tests.kit.policy_checks`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import policy_checks as check
from tests.kit.emissions import STEADY
from tests.kit.policy_checks import POLICIES, Happening, happenings

FEW = settings(STEADY, max_examples=12)
every_policy = pytest.mark.parametrize("name", POLICIES)


@every_policy
def test_a_fresh_tracker_promises_nothing(name: str) -> None:
    check.check_a_fresh_tracker_promises_nothing(POLICIES[name](), now=1_000)


@every_policy
@FEW
@given(events=happenings())
def test_heartbeats_never_go_back(name: str, events: list[Happening]) -> None:
    check.check_heartbeats_never_go_back(POLICIES[name](), events)


@every_policy
@FEW
@given(events=happenings(), at=st.integers(0, 10))
def test_a_restored_tracker_continues_identically(name: str, events: list[Happening], at: int) -> None:
    check.check_a_restored_tracker_continues_identically(POLICIES[name](), events, at)


@every_policy
@FEW
@given(events=happenings(most=6))
def test_a_state_does_not_change_afterwards(name: str, events: list[Happening]) -> None:
    check.check_a_state_does_not_change_afterwards(POLICIES[name](), events)


@every_policy
@FEW
@given(events=happenings())
def test_the_clock_alone_moves_nothing_before_wake_at(name: str, events: list[Happening]) -> None:
    check.check_the_clock_alone_moves_nothing_before_wake_at(POLICIES[name](), events)


@pytest.mark.parametrize("name", [n for n, write in POLICIES.items() if getattr(write(), "timeout", None)])
def test_a_row_without_a_time_puts_the_timeout_off(name: str) -> None:
    check.check_a_row_without_a_time_puts_the_timeout_off(POLICIES[name]())


@every_policy
def test_a_policy_is_a_value(name: str) -> None:
    others = [write() for other, write in POLICIES.items() if other != name]
    check.check_a_policy_is_a_value(POLICIES[name], others)


@every_policy
def test_a_policy_describes_itself_as_it_can_be_written_again(name: str) -> None:
    check.check_a_policy_describes_itself_as_it_can_be_written_again(POLICIES[name]())


@every_policy
@settings(FEW, max_examples=5)
@given(events=happenings(most=6))
def test_metrics_are_figures(name: str, events: list[Happening]) -> None:
    check.check_metrics_are_figures(POLICIES[name](), events)
