"""A policy on pages from the first to the last, alone."""

from __future__ import annotations

from slackwater.progress.disorder import Disorder
from slackwater.tune.backtest import played, playing
from slackwater.tune.by_source import playing_by_source
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages


def backtest(policy: Disorder, pages: Pages) -> Outcome:
    """In a query with one heartbeat for all rows."""
    return played(playing(policy, pages))


def backtest_by_source(policy: Disorder, pages: Pages) -> Outcome:
    """In a query that groups by the source."""
    return played(playing_by_source(policy, pages))
