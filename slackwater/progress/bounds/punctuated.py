"""Sources that send their own heartbeats: punctuated input (S4 section 2, S5 section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.source_numbers import SourceNumbers
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.silence import SilenceTracker, read_timeout
from slackwater.progress.sources import Ints
from slackwater.progress.time import MIN_TICK, TimeDomain

#: So many sources are named that hold time back.
_SHOWN = 5


@dataclass(frozen=True)
class Punctuated:
    """Rows carry punctuations; see `punctuated`."""

    column: str
    timeout: int | None = None
    everyone: str | None = None

    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def needs_sources(self) -> bool:
        """Only to tell the one that speaks for all from the others."""
        return self.everyone is not None

    def tracker(self, domain: TimeDomain) -> PunctuatedTracker:
        """A fresh tracker."""
        return PunctuatedTracker(self.timeout, self.everyone)

    def describe(self) -> str:
        """The policy as the user would write it."""
        timeout = "" if self.timeout is None else f", timeout='{self.timeout} microseconds'"
        everyone = "" if self.everyone is None else f", everyone={self.everyone!r}"
        return f"punctuated({self.column!r}{timeout}{everyone})"


def punctuated(column: str, timeout: str | timedelta | None = None, *, everyone: str | None = None) -> Punctuated:
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

    >>> t = punctuated("upto").tracker(TimeDomain.SEQUENCE)
    >>> t.arrive(Arrival(rows=3, missing=0, lowest=3, highest=50, at=0, punctuation=20))
    >>> t.heartbeat
    Heartbeat(tick=20)
    """
    if not isinstance(column, str) or not column.strip():
        raise QueryError(f"punctuated({column!r}): write the column of the punctuations, as in punctuated('upto')")
    if everyone is not None and not isinstance(everyone, str):
        raise QueryError(f"everyone={everyone!r} is no name of a source; write it as text, as in everyone='*'")
    return Punctuated(column, read_timeout(timeout), everyone)


class PunctuatedTracker(SilenceTracker):
    """Repeats what the senders promised."""

    promised_by_sender: ClassVar[bool] = True

    def __init__(self, timeout: int | None, everyone: str | None) -> None:
        super().__init__(timeout)
        self._everyone = everyone
        self._of_all = MIN_TICK
        """What was promised for everyone."""
        self._numbers = SourceNumbers([])
        self._beats: Ints = np.empty(0, dtype=np.int64)

    def by_source(self) -> SourceHeartbeats | None:
        """What each sender has promised."""
        if not len(self._numbers):
            return None
        return SourceHeartbeats(self._numbers.names, self._beats, self._of_all)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's punctuations."""
        self._saw(arrival)
        if arrival.sources is not None:
            self._arrive_from(arrival.sources)
            self._raise(int(self._beats.min()) if len(self._beats) else self._of_all)
        elif arrival.punctuation is not None:
            self._raise(arrival.punctuation)

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen, for every sender."""
        wake = self.wake_at()
        super().tick(now)
        if wake is not None and now >= wake:
            self._beats = np.maximum(self._beats, self._highest)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if no sender is waited for."""
        lowest = int(self._beats.min()) if len(self._beats) else self._heartbeat
        if self._timeout is None or min(lowest, self._heartbeat) >= self._highest:
            return None
        return self._last_arrival + self._timeout

    def _arrive_from(self, sources: SourceArrivals) -> None:
        senders = [name for name in sources.names if name != self._everyone]
        numbers = self._numbers.meet(senders, len(self._numbers) + len(senders))
        grown = np.full(len(self._numbers), MIN_TICK, dtype=np.int64)
        grown[: len(self._beats)] = self._beats
        if sources.punctuation is not None:
            own = np.array([name != self._everyone for name in sources.names], dtype=bool)
            grown[numbers] = np.maximum(grown[numbers], sources.punctuation[own])
            self._of_all = max(self._of_all, int(sources.punctuation[~own].max(initial=MIN_TICK)))
        self._beats = np.maximum(grown, self._of_all)

    def state(self) -> dict[str, Any]:
        """Promises by source."""
        return {
            "names": list(self._numbers.names),
            "beats": self._beats.copy(),
            "of_all": self._of_all,
            **super().state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._numbers = SourceNumbers(state["names"])
        self._beats = np.asarray(state["beats"], dtype=np.int64)
        self._of_all = int(state["of_all"])
        super().restore(state)

    def metrics(self) -> dict[str, Any]:
        """The sources that hold time back."""
        return {"furthest_behind": SourceHeartbeats(self._numbers.names, self._beats, MIN_TICK).lowest(_SHOWN)}
