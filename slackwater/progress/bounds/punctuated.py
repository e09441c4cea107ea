"""Sources that send their own heartbeats: punctuated input (S4 section 2, S5 section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import numpy as np

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.patterns import PatternTracker
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.silence import DefaultTimeout, SilenceTracker, read_timeout, show_timeout
from slackwater.progress.source_numbers import Ints
from slackwater.progress.source_table import SourceTable
from slackwater.progress.time import MIN_TICK, TimeDomain

#: Sources that metrics name, of those that hold time back.
_SHOWN = 5


@dataclass(frozen=True)
class Punctuated(DefaultTimeout):
    """Rows carry punctuations; see `punctuated`."""

    column: str
    timeout: int | None = None
    everyone: str | None = None
    since: str | None = None
    on: tuple[str, ...] = ()
    by: str | None = None
    """Of the attributes `on` which punctuations speak, the one that a reader goes by; analysis chooses it."""

    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def needs_sources(self) -> bool:
        """Only to tell the one that speaks for all from the others."""
        return self.everyone is not None

    @property
    def has_patterns(self) -> bool:
        """Whether a punctuation says more than a time, and for whose source."""
        return bool(self.on) or self.since is not None

    def tracker(self, domain: TimeDomain) -> PunctuatedTracker | PatternTracker:
        """A fresh tracker."""
        if self.has_patterns:
            return PatternTracker(self.timeout, self.on, self.by)
        return PunctuatedTracker(self.timeout, self.everyone)

    def describe(self) -> str:
        """The policy as the user would write it."""
        timeout = "" if self.timeout is None else f", timeout={show_timeout(self.timeout)}"
        everyone = "" if self.everyone is None else f", everyone={self.everyone!r}"
        since = "" if self.since is None else f", since={self.since!r}"
        on = f", on={list(self.on)!r}" if self.on else ""
        by = "" if self.by is None else f" by {self.by}"
        return f"punctuated({self.column!r}{timeout}{everyone}{since}{on}){by}"


@called()
def punctuated(
    column: str,
    timeout: str | timedelta | None = None,
    *,
    everyone: str | None = None,
    since: str | None = None,
    on: str | Sequence[str] = (),
) -> Punctuated:
    """No wait of our own: the senders say in a column how far they are (S4 section 2: "given externally").

    Where `column` has a value τ, the sender promises that all its later rows have a time above τ. Such a row may be
    an ordinary one, or carry nothing else (its time null). In a stream with `source=` it speaks for its own source
    only. The stream is as far as the source that is furthest behind; one that has said nothing yet holds it back. A
    row that breaks the promise is counted (`ungrammatical_rows` in `metrics()`), and is late for the windows that
    have been answered.

    Args:
        column: the column, or expression, of a promise; null in most rows.
        timeout: after so long a silence the stream is taken to have sent all up to its largest time.
        everyone: a punctuation on a row whose source has this value speaks for all sources, also for those
            that have not sent anything: S5's [≤ 10, *] beside [≤ 10, 2] (section 2.2).
        since: a column with a time, or null. A punctuation with it promises the stretch (since, τ] only.
        on: the columns of which a punctuation speaks, instead of `source=`: its row has the value of each that it
            promises something about, and null for any value. With on=["sensor", "lane"], a row with τ = 10, sensor
            2 and lane null is S5's [≤ 10, 2, *]. A window closes by the first of these columns that it groups by,
            and else by promises for all values. Other promises are counted and have no effect.

    >>> t = punctuated("upto").tracker(TimeDomain.SEQUENCE)
    >>> t.arrive(Arrival(rows=3, missing=0, lowest=3, highest=50, at=0, punctuation=20))
    >>> t.heartbeat
    Heartbeat(tick=20)
    """
    if not isinstance(column, str) or not column.strip():
        raise QueryError(f"punctuated({column!r}): write the column of the punctuations, as in punctuated('upto')")
    if everyone is not None and not isinstance(everyone, str):
        raise QueryError(f"everyone={everyone!r} is no name of a source; write it as text, as in everyone='*'")
    names = tuple(on) if isinstance(on, Sequence) and not isinstance(on, str) else (on,)
    written = (*names, *([] if since is None else [since]))
    if not all(isinstance(name, str) and name.strip() for name in written):
        raise QueryError(
            f"punctuated(since={since!r}, on={on!r}): write columns, as in since='begin', on=['sensor']"
        )
    if everyone is not None and (names or since is not None):
        raise QueryError(
            f"punctuated(everyone={everyone!r}): with on= or since=, a row with null in all columns of on= speaks "
            "for all; leave everyone= out"
        )
    return Punctuated(column, read_timeout(timeout), everyone, since, names)


class Senders(SourceTable):
    """The sources of a stream, with what each has promised."""

    new: ClassVar[dict[str, int | float]] = {"beats": MIN_TICK}
    beats: Ints


class PunctuatedTracker(SilenceTracker):
    """Repeats what the senders promised."""

    STATE = (*SilenceTracker.STATE, "_of_all", "_senders")
    promised_by_sender = True

    def __init__(self, timeout: int | None, everyone: str | None) -> None:
        super().__init__(timeout)
        self._everyone = everyone
        self._of_all = MIN_TICK
        """The punctuation that holds for all sources."""
        self._senders = Senders()

    def by_source(self) -> SourceHeartbeats | None:
        """What each sender has promised."""
        if not len(self._senders):
            return None
        # A copy: who asks may keep it.
        return SourceHeartbeats(self._senders.names, self._senders.beats.copy(), self._of_all)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's punctuations."""
        self._saw(arrival)
        if arrival.sources is not None:
            self._arrive_from(arrival.sources)
            self._raise(int(self._senders.beats.min()) if len(self._senders) else self._of_all)
        elif arrival.punctuation is not None:
            self._raise(arrival.punctuation)

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen, for every sender."""
        wake = self.wake_at()
        super().tick(now)
        if wake is not None and now >= wake:
            self._senders.beats = np.maximum(self._senders.beats, self._highest)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if no sender is waited for."""
        lowest = int(self._senders.beats.min()) if len(self._senders) else self._heartbeat
        if self._timeout is None or min(lowest, self._heartbeat) >= self._highest:
            return None
        return self._last_arrival + self._timeout

    def _arrive_from(self, sources: SourceArrivals) -> None:
        own = np.array([name != self._everyone for name in sources.names], dtype=bool)
        numbers = self._senders.meet([name for name in sources.names if name != self._everyone])
        beats = self._senders.beats
        if sources.punctuation is not None:
            beats[numbers] = np.maximum(beats[numbers], sources.punctuation[own])
            self._of_all = max(self._of_all, int(sources.punctuation[~own].max(initial=MIN_TICK)))
        self._senders.beats = np.maximum(beats, self._of_all)

    def metrics(self) -> Figures:
        """The sources that hold time back."""
        return {
            "furthest_behind": SourceHeartbeats(self._senders.names, self._senders.beats, MIN_TICK).lowest(_SHOWN)
        }
