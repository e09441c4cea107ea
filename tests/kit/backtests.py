"""A policy on pages from the first to the last, alone."""

from __future__ import annotations

from slackwater.progress.disorder import Disorder
from slackwater.tune.backtest import play, playing
from slackwater.tune.by_source import SourceWindows
from slackwater.tune.outcome import PolicyOutcome
from slackwater.tune.pages import Pages


def backtest(policy: Disorder, pages: Pages) -> PolicyOutcome:
    """In a query with one heartbeat for all rows."""
    return play(playing(policy, pages))


def backtest_by_source(policy: Disorder, pages: Pages) -> PolicyOutcome:
    """In a query that groups by the source."""
    return play(playing(policy, pages, windows_of=SourceWindows))
