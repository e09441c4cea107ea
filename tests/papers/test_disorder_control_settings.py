"""Settings of S4's disorder controller and its rival: what is refused, and how a policy describes itself."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import QueryError
from slackwater.papers.disorder_control import disorder_control
from slackwater.papers.max_delay import max_delay
from slackwater.progress.time import TimeDomain

SEQUENCE = TimeDomain.SEQUENCE


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (5, r"dratio=5 must lie between 0 and 1, or '0%' and '100%'; write dratio=0.01 or dratio='5%'"),
        (-0.1, "dratio=-0.1 must lie between 0 and 1"),
        ("101%", "dratio='101%' must lie between"),
        ("-1%", "dratio='-1%' must lie between"),
        ("1", r"dratio='1' is no share; write dratio=0.01 or dratio='1%'"),
        ("few%", "dratio='few%' is no share"),
        ("1/0%", "dratio='1/0%' is no share"),
        (float("nan"), "dratio=nan is no share"),
        (True, "dratio=True is no share"),
        (None, "dratio=None is no share"),
    ],
)
def test_a_dratio_that_is_no_share_is_refused(written: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        disorder_control(written)


@pytest.mark.parametrize("name", ["every", "timeout"])
def test_a_length_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(QueryError, match=f"{name}='0 seconds' must be positive"):
        disorder_control(**{name: "0 seconds"})  # type: ignore[arg-type]


def test_a_timeout_of_nothing_is_refused_by_max_delay() -> None:
    with pytest.raises(QueryError, match="timeout='0 seconds' must be positive"):
        max_delay("0 seconds")


def test_max_delay_refuses_a_column_that_is_no_timestamp() -> None:
    with pytest.raises(QueryError, match=r"the column is an integer.*write disorder_control\(\) instead"):
        max_delay().tracker(SEQUENCE)


def test_a_share_can_be_written_in_several_ways() -> None:
    assert disorder_control(0.01) == disorder_control("1%") == disorder_control(" 1.0 % ")
    assert disorder_control(0) == disorder_control("0%") == disorder_control()
    assert disorder_control(1) == disorder_control("100%")
    assert len({disorder_control("1%"), disorder_control(0.01), disorder_control("2%")}) == 2


def test_a_policy_describes_itself_as_it_can_be_written_again() -> None:
    for policy in (
        disorder_control(),
        disorder_control("2.5%", every="1 second", timeout="90 seconds"),
        disorder_control("1/3%"),
        max_delay(),
        max_delay("2 minutes"),
    ):
        names = {"disorder_control": disorder_control, "max_delay": max_delay}
        assert eval(policy.describe(), names) == policy
    assert disorder_control(0.01).describe() == "disorder_control(dratio='1%')"
