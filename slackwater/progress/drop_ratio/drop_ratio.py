"""A stated share of lost rows, and the shortest wait that allows it: S4's DRATIO with its feedback made exact.

S4 moves its heartbeat by an offset until the share of dropped rows fits. Here the lateness of rows says what any
slack would have lost, so the slack is computed (`loss_curve`). What was lost in the last stretch, and in all,
bounds what may be lost next (`query_losses`). When rows come later than before (`changes`), time stops until the
policy has seen how late they come.
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
from slackwater.progress.drop_ratio.tracker import DropRatioTracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.shares import read_share
from slackwater.progress.silence import DefaultTimeout, read_timeout, show_timeout
from slackwater.progress.time import Span, TimeDomain, microseconds


@dataclass(frozen=True)
class DropRatio(DefaultTimeout):
    """At most the share `p` of (row, window) pairs is lost, in all and in every stretch; see `drop_ratio`."""

    p: float
    stretch: int | str | None = None
    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"sketch"})
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker."""
        by_time = isinstance(self.stretch, str)
        stretch = microseconds(self.stretch) if isinstance(self.stretch, str) else self.stretch
        timestamps = domain is TimeDomain.TIMESTAMP
        one = partial(DropRatioTracker, self.p, stretch, by_time, self.timeout, timestamps)
        own = DelayClassTracker(one, 1_000_000 if timestamps else 1)
        return with_idle(own, "drop_ratio", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        stretch = "" if self.stretch is None else f", stretch={self.stretch!r}"
        timeout = "" if self.timeout is None else f", timeout={show_timeout(self.timeout)}"
        idle = "" if self.idle is None else f", idle={self.idle!r}"
        return f"drop_ratio({self.p!r}{stretch}{timeout}{idle})"


@called()
def drop_ratio(
    p: float | str,
    *,
    stretch: int | str | timedelta | None = None,
    timeout: str | timedelta | None = None,
    idle: Span | None = None,
) -> DropRatio:
    """The shortest wait with which at most the share `p` is lost (S4's DRATIO).

    A row is lost to a window that has been answered; it still counts for its open windows. So the share is of
    (row, window) pairs, of the query that loses most. It is kept in all, and in every stretch, also when delays
    change, as far as is known when a window closes.

    At the start nothing is promised before three pages and 1 / 2p rows, and before the wait is at most 0.8 of the
    stream's age. The age counts from the oldest rows of the first page. Clocks that are ahead of the others add to
    the wait; they do not stop time.
    When rows begin to come later than before, there is such a pause again, until the wait is at most 0.6 of the
    time since. There is none where the stretch can lose several times what came late. A jump of time far ahead is
    believed only when three pages and 5 % of the rows confirm it, so a corrupt timestamp does no harm. Timestamps
    that jump by no more than the time for which nothing newer came, as in a night, are believed at once, unless
    rows were held back in that silence or in the one before.

    Args:
        p: the share that may be lost: 0.01 or "1%".
        stretch: over what the share is kept: a number of pages, or a length of arrival time, as in "10 minutes".
            Without it the stretch is learned: 100 pages, or as many as lose 25 backlogs of the usual size.
        timeout: after so long a silence the stream is taken to have sent all (S1 section 3.4).
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.

    >>> drop_ratio("1%").describe()
    'drop_ratio(0.01)'
    >>> drop_ratio(0.05, stretch="10 minutes").describe()
    "drop_ratio(0.05, stretch='10 minutes')"
    """
    return DropRatio(_share(p), _stretch(stretch), read_timeout(timeout), read_idle("drop_ratio", idle))


def _share(p: float | str) -> float:
    wanted = "write a share between 0 and 1 such as 0.01, or '1%'"
    share = read_share(p)
    if share is None:
        raise QueryError(f"drop_ratio({p!r}) is not a share; {wanted}")
    if not 0 < share < 1:
        hint = f"; {p} percent is '{p}%'" if not isinstance(p, str) and 1 <= share < 100 else ""
        zero = "; to lose nothing, write bounded(...) with the longest delay" if share == 0 else ""
        raise QueryError(f"drop_ratio({p!r}) is not between 0 and 1; {wanted}{hint}{zero}")
    return float(share)


def _stretch(stretch: int | str | timedelta | None) -> int | str | None:
    if stretch is None:
        return None
    wanted = "write a number of pages such as 100, or a length of arrival time such as '10 minutes'"
    if isinstance(stretch, bool) or not isinstance(stretch, (int, str, timedelta)):
        raise QueryError(f"stretch={stretch!r} is neither pages nor time; {wanted}")
    length = stretch if isinstance(stretch, int) else microseconds(stretch)
    if length <= 0:
        raise QueryError(f"stretch={stretch!r} must be positive; {wanted}")
    return f"{length} microseconds" if isinstance(stretch, timedelta) else stretch
