"""S4's disorder controller as a policy (section 4): the mean less the largest distance from it, and DRATIO."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from math import ceil, floor
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.policies import POLICIES, Policy
from slackwater.progress.shares import read_share
from slackwater.progress.silence import DefaultTimeout, SilenceTracker, read_timeout, show_timeout
from slackwater.progress.time import MIN_TICK, Span, TimeDomain, microseconds
from slackwater.progress.window_losses import WindowLosses

#: The mean is taken over a page and as many tuples of those before.
RECENT = 32
#: The mean is kept in parts of a tick, so that small pages do not lose its fraction.
PARTS = 2**16
#: A refresh waits until this many drops would have been allowed: fewer say little of the share.
ENOUGH = 2
#: A share of nothing forwards the heartbeat by this part of d, one of twice DRATIO delays it by as much.
STEP = 8
#: The heartbeat stands while more than this part of DRATIO is lost of all pairs.
FULL = Fraction(9, 10)
#: The most steps by which a single refresh delays.
STEPS = 4


@dataclass(frozen=True)
class DisorderControl(DefaultTimeout):
    """The settings of `disorder_control`."""

    dratio: Fraction
    every: int | None = None
    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"total"})
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker; any domain will do, that is the point of taking the mean."""
        own = DisorderController(self.dratio, self.every, self.timeout, domain)
        return with_idle(own, "disorder_control", self.idle, domain)

    def describe(self) -> str:
        """The policy as the user would write it."""
        every = "" if self.every is None else f", every={TimeDomain.TIMESTAMP.show_span(self.every)!r}"
        rest = every + ("" if self.timeout is None else f", timeout={show_timeout(self.timeout)}")
        rest += "" if self.idle is None else f", idle={self.idle!r}"
        return f"disorder_control(dratio='{_percent(self.dratio)}'{rest})"


def disorder_control(
    dratio: float | str = 0,
    every: str | timedelta | None = None,
    timeout: str | timedelta | None = None,
    idle: Span | None = None,
) -> DisorderControl:
    """S4's own wait, to compare: as far behind the mean as any row was, with an offset for a share (S4 section 4).

    The heartbeat is μ − d, where μ is the mean of the windowing attribute and d the largest distance |a − μ| seen.
    It never goes back. With DRATIO, an offset delays it when more than that share of the (row, window) pairs is
    lost, and forwards it when less is. While the share of all pairs is nearly used up, the heartbeat stops. With
    DRATIO 0, the default, there is no offset: the policy drops as few rows as it can.

    The paper leaves open what the mean is taken over. Here it is the mean of the page and, by weight, the 32 tuples
    before it. `docs/disorder_control.md` has the figures for this choice, and for the step of the offset, which is
    DRATIO less the share, in parts of DRATIO, times d / 8.

    >>> t = disorder_control().tracker(TimeDomain.SEQUENCE)
    >>> t.arrive(Arrival(rows=3, missing=0, lowest=10, highest=60, total=120, at=0))
    >>> t.heartbeat           # the mean is 40, and 10 is 30 away: none smaller than 10 should come
    Heartbeat(tick=9)

    Args:
        dratio: the share that may be dropped: 0.01 or "1%".
        every: how often to refresh the offset, by the wall clock, as in "1 second"; by default with every page. A
            refresh waits until there are enough pairs to measure the share.
        timeout: after so long a silence, what was seen is taken to be all (S1 section 3.4); S4 has none.
        idle: time goes on with the clock while the stream is silent, at most so far behind it, as in `bounded`.
    """
    period = None if every is None else microseconds(every)
    if period is not None and period <= 0:
        raise QueryError(f"every={every!r} must be positive, as in every='1 second'")
    return DisorderControl(_share(dratio), period, read_timeout(timeout), read_idle("disorder_control", idle))


def _share(dratio: object) -> Fraction:
    """A share from 0 to 1, or a text of 0 % to 100 %."""
    share = read_share(dratio)
    if share is None or (isinstance(dratio, str) and "%" not in dratio):
        raise QueryError(f"dratio={dratio!r} is no share; write dratio=0.01 or dratio='1%'")
    if not 0 <= share <= 1:
        hint = f" or dratio='{dratio}%'" if isinstance(dratio, (int, float)) and 0 < dratio <= 100 else ""
        raise QueryError(f"dratio={dratio!r} must lie between 0 and 1, or '0%' and '100%'; write dratio=0.01{hint}")
    return share


def _percent(share: Fraction) -> str:
    percent = share * 100
    shown = f"{float(percent):.15g}"
    return f"{shown if Fraction(shown) == percent else percent}%"


class DisorderController(SilenceTracker):
    """μ, d and the offset; whole numbers only, so that a restart gives the same heartbeats.

    It is what holds time back: one tuple far off makes d large for good, and only an offset can make up for it.
    """

    STATE = (
        *SilenceTracker.STATE,
        "_mean",
        "_weight",
        "_distance",
        "_offset",
        "_lost",
        "_pairs",
        "_fresh_lost",
        "_fresh_pairs",
        "_refreshed",
    )

    def __init__(self, dratio: Fraction, every: int | None, timeout: int | None, domain: TimeDomain) -> None:
        super().__init__(timeout)
        self._dratio, self._every, self._domain = dratio, every, domain
        self._mean = 0  # in `PARTS` of a tick
        self._weight = 0
        self._distance = 0
        self._offset = 0
        self._lost = self._pairs = 0
        self._fresh_lost = self._fresh_pairs = 0
        self._refreshed = MIN_TICK

    def arrive(self, arrival: Arrival) -> None:
        """Move the mean, the distance, and the heartbeat."""
        self._saw(arrival)
        if arrival.lowest is None or arrival.highest is None:
            return
        assert arrival.total is not None, "the policy asks for the sum of the times"
        old = min(self._weight, RECENT)
        self._weight = old + arrival.timed
        self._mean = (self._mean * old + arrival.total * PARTS) // self._weight
        mean = self._mean // PARTS
        self._distance = max(self._distance, arrival.highest - mean, mean - arrival.lowest)
        if self._every is None or arrival.at >= self._refreshed + self._every:
            self._refresh(arrival.at)
        if not self._spent():
            self._raise(min(self._target(), self._highest))

    def _target(self) -> int:
        """One tick below μ − d − offset: the paper's heartbeat says that none smaller comes."""
        return self._mean // PARTS - self._distance - self._offset - 1

    def _spent(self) -> bool:
        """Whether the share lost in all is so near to DRATIO that the heartbeat stands: it cannot go back."""
        lost, pairs = self._lost + self._fresh_lost, self._pairs + self._fresh_pairs
        return self._dratio > 0 and lost > FULL * self._dratio * pairs

    def hear(self, report: WindowLosses) -> None:
        """Count what a query lost of a page."""
        self._fresh_lost += report.lost
        self._fresh_pairs += report.all

    def _refresh(self, now: int) -> None:
        """Move the offset by how far the share of lost pairs, since the last time or in all, is from DRATIO."""
        p = self._dratio
        if p == 0 or self._fresh_pairs == 0 or self._fresh_pairs * p < ENOUGH:
            return
        self._lost += self._fresh_lost
        self._pairs += self._fresh_pairs
        share = max(Fraction(self._fresh_lost, self._fresh_pairs), Fraction(self._lost, self._pairs))
        self._fresh_lost = self._fresh_pairs = 0
        self._refreshed = now
        exact = max((p - share) / p, Fraction(-STEPS)) * self._distance / STEP
        by = ceil(exact) if exact > 0 else floor(exact)
        # While the heartbeat stands, what is lost says nothing of the offset. It cannot go back either: while the
        # stream catches up with it, further delays would be too much.
        if not self._spent() if by > 0 else self._target() >= self._heartbeat:
            self._offset = max(-2 * self._distance, min(self._offset - by, self._distance))

    def metrics(self) -> Figures:
        """Where the mean stands, how far from it tuples were, the offset, and the share that was lost so far."""
        lost, pairs = self._lost + self._fresh_lost, self._pairs + self._fresh_pairs
        return {
            "mean": self._domain.show(self._mean // PARTS if self._weight else MIN_TICK),
            "distance": self._domain.show_span(self._distance),
            "offset": self._domain.show_span(self._offset),
            "dratio": _percent(self._dratio),
            "dropped": f"{100 * lost / pairs:.3g}%" if pairs else "0%",
        }


POLICIES.append(
    Policy(
        ("CONTROL",),
        disorder_control,
        ("every", "timeout", "idle"),
        "CONTROL 1%",
        tried="for each target",
        module="sw.papers",
    )
)
