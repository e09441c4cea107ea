"""A bound on the error of results, and the shortest wait that keeps it: feedback from late rows, as in S4's DRATIO.

`drop_ratio` bounds the share of lost rows. Here late rows show how wrong each result would have been with any wait,
and from that the wait is computed (`window_results`). If results were wrong, fewer later ones may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import ClassVar

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.disorder import Tracker
from slackwater.progress.drop_ratio.by_source import DelayClassTracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.result_error.tracker import ResultErrorTracker
from slackwater.progress.shares import read_share
from slackwater.progress.silence import DefaultTimeout, read_timeout, show_timeout
from slackwater.progress.time import Span, TimeDomain


@dataclass(frozen=True)
class ResultError(DefaultTimeout):
    """The policy that keeps a share of the windows within a relative error; see `result_error`."""

    error: float
    windows: float = 0.95
    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"sketch"})
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker."""
        timestamps = domain is TimeDomain.TIMESTAMP
        one = partial(ResultErrorTracker, self.error, 1 - self.windows, self.timeout, timestamps)
        own = DelayClassTracker(one, 1_000_000 if timestamps else 1)
        return with_idle(own, "result_error", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        windows = "" if self.windows == 0.95 else f", windows={self.windows!r}"
        timeout = "" if self.timeout is None else f", timeout={show_timeout(self.timeout)}"
        idle = "" if self.idle is None else f", idle={self.idle!r}"
        return f"result_error({self.error!r}{windows}{timeout}{idle})"


@called()
def result_error(
    error: float | str,
    *,
    windows: float | str = 0.95,
    timeout: str | timedelta | None = None,
    idle: Span | None = None,
) -> ResultError:
    """Wait as briefly as possible so that final values are within `error` of the values that all rows would give.

    The bound holds for counts, sums and averages, in a share of the windows. In a query with groups, it holds for
    this share of all results. The policy does not judge other aggregates. If a query has no count, sum or average,
    it judges the number of rows of each window. It learns the wait from late rows: they show what each earlier
    window would have lacked with any wait.

    The first final answer comes when three windows have ended, and when the wait is at most 0.8 of the stream's
    age. As in `drop_ratio`, a time far ahead of all others is believed only when other rows confirm it.

    Args:
        error: the relative error of a value: 0.01 or "1%".
        windows: the share of windows that must be within the error: 0.95 or "95%".
        timeout: after a silence of this length, the stream counts as having sent all rows (S1 section 3.4).
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.

    >>> result_error("1%").describe()
    'result_error(0.01)'
    >>> result_error(0.05, windows="99%").describe()
    'result_error(0.05, windows=0.99)'
    """
    settings = _share("", error, "0.01, or '1%'"), _share("windows=", windows, "0.95, or '95%'")
    return ResultError(*settings, read_timeout(timeout), read_idle("result_error", idle))


def _share(name: str, written: float | str, example: str) -> float:
    share = read_share(written)
    if share is None or not 0 < share < 1:
        why = "is not a share" if share is None else "is not between 0 and 1"
        raise QueryError(f"result_error({name}{written!r}) {why}; write a share between 0 and 1 such as {example}")
    return float(share)
