"""Settings of learned bounds: what is refused and in which words, and how a policy describes itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from slackwater.errors import QueryError
from slackwater.progress.learned.learned import Learned, learned
from slackwater.progress.time import TimeDomain

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP


@pytest.mark.parametrize(
    ("settings_", "says"),
    [
        ({"alpha": 1.5}, "alpha=1.5 is no weight; write a number from 0 to 1"),
        ({"alpha": "half"}, "alpha='half' is no weight"),
        ({"window": -1}, "window is -1, which is negative"),
        ({"window": "0 seconds"}, "window='0 seconds' must be positive"),
        ({"window": 2.5}, "2.5 is not a length of time"),
        ({"window": "soon"}, "cannot read 'soon' as a length of time"),
        ({"unit": "0 seconds"}, "unit='0 seconds' must be positive"),
        ({"tmax": "1 hour"}, "tmax='1 hour' must lie between 0 and 100 times unit='1 second'; write a longer unit"),
        ({"tmax": "-1 second"}, "tmax='-1 second' must lie between 0"),
        ({"timeout": "-1 minute"}, "timeout='-1 minute' must be positive"),
        ({"adaptive": True, "window": None}, "adaptive=True moves the window, but window=None"),
        ({"groups": 0}, "groups is 0, which is less than 1"),
        ({"groups": 65}, "groups=65 is more than"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings_: dict[str, Any], says: str) -> None:
    with pytest.raises(QueryError, match=says):
        learned(**settings_)


@pytest.mark.parametrize(
    ("policy", "domain", "says"),
    [
        (learned(initial=5), TIMESTAMP, "initial=5: the time column is a timestamp"),
        (learned(initial="5 seconds"), SEQUENCE, "initial='5 seconds': the time column is an integer"),
        (learned(initial=-5), SEQUENCE, "initial=-5 must be 0 or more"),
    ],
)
def test_an_initial_estimate_must_fit_the_stream(policy: Learned, domain: TimeDomain, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        policy.tracker(domain)


def test_a_policy_describes_itself_as_it_can_be_written_again() -> None:
    for policy in (
        learned(),
        learned(window=None, timeout=None),
        learned(window=500, alpha=0.25, adaptive=True, groups=8, initial=7),
        learned(window="90 seconds", tmax="0 seconds", unit="10 ms", initial="1 minute"),
    ):
        assert eval(policy.describe(), {"learned": learned}) == policy
    assert learned(window="1 minute") == learned(window=timedelta(minutes=1))
    assert len({learned(), learned(), learned(groups=2)}) == 2
