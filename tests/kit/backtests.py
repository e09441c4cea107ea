"""A policy on pages from the first to the last, alone."""

from __future__ import annotations

from slackwater.progress.disorder import Disorder
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.backtest import play, playing
from slackwater.tune.by_source import SourceWindows
from slackwater.tune.outcome import PolicyOutcome


def backtest(policy: Disorder, pages: ArrivalPages) -> PolicyOutcome:
    """In a query with one heartbeat for all rows."""
    return play(playing(policy, pages))


def backtest_by_source(policy: Disorder, pages: ArrivalPages) -> PolicyOutcome:
    """In a query that groups by the source."""
    return play(playing(policy, pages, windows_of=SourceWindows))
