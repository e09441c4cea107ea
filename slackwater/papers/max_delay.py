"""The rival that S4 compares itself with: the arrival time less the largest delay seen (S4 sections 2 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.policies import POLICIES, Policy
from slackwater.progress.silence import DefaultTimeout, SilenceTracker, read_timeout, show_timeout
from slackwater.progress.time import Span, TimeDomain


@dataclass(frozen=True)
class MaxDelay(DefaultTimeout):
    """The settings of `max_delay`."""

    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker, for timestamps only."""
        if domain is not TimeDomain.TIMESTAMP:
            raise QueryError(
                "max_delay() compares the time column with the time of arrival, but the column is an integer, no "
                "timestamp; write disorder_control() instead, which needs only the column"
            )
        return with_idle(MaxDelayTracker(self.timeout), "max_delay", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        timeout = None if self.timeout is None else show_timeout(self.timeout)
        shown = {"timeout": timeout, "idle": None if self.idle is None else repr(self.idle)}
        return f"max_delay({', '.join(f'{name}={value}' for name, value in shown.items() if value)})"


@called()
def max_delay(timeout: str | timedelta | None = None, idle: Span | None = None) -> MaxDelay:
    """A wait as long as the largest delay seen, to compare (S4 section 2).

    The heartbeat is u − m, where u is the time of arrival and m the largest delay u − t of any row seen. A page
    arrives all at once, so its slowest row is the one with the smallest timestamp. Only an arrival moves the
    heartbeat, not the clock alone.

    Args:
        timeout: after so long a silence, what was seen is taken to be all (S1 section 3.4).
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.

    >>> t = max_delay().tracker(TimeDomain.TIMESTAMP)
    >>> t.arrive(Arrival(rows=2, missing=0, lowest=70, highest=99, at=100))      # 30 late
    >>> t.arrive(Arrival(rows=2, missing=0, lowest=105, highest=119, at=120))    # only 15 late
    >>> t.heartbeat                                                              # none below 90 should come
    Heartbeat(tick=89)
    """
    return MaxDelay(read_timeout(timeout), read_idle("max_delay", idle))


def _show(span: int) -> str:
    return TimeDomain.TIMESTAMP.show_span(span)


class MaxDelayTracker(SilenceTracker):
    """Follows the largest delay; one row that was on its way for a day holds time back by a day, for good."""

    STATE = (*SilenceTracker.STATE, "_delay")
    absolute_clock = True

    def __init__(self, timeout: int | None) -> None:
        super().__init__(timeout)
        self._delay: int | None = None

    def arrive(self, arrival: Arrival) -> None:
        """Take the delay of the page's slowest row; the paper's heartbeat u − m says that none smaller comes."""
        self._saw(arrival)
        if arrival.lowest is None:
            return
        delay = arrival.at - arrival.lowest
        self._delay = delay if self._delay is None else max(self._delay, delay)
        self._raise(arrival.at - self._delay - 1)

    def metrics(self) -> Figures:
        """The largest delay."""
        return {} if self._delay is None else {"max_delay": _show(self._delay)}


_OPTIONS = ("timeout", "idle")
POLICIES.append(Policy(("MAX", "DELAY"), max_delay, _OPTIONS, "MAX DELAY", tried="once", module="sw.papers"))
