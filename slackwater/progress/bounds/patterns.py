"""Punctuations as patterns over any attributes (S5 sections 1.3, 2.1: `[<= 10, 2, *]`), also of a range of time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.intervals import Intervals, united
from slackwater.progress.pattern import Pattern
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.time import MIN_TICK

#: Where the stretch of a pattern begins that names no `since`.
_BEGIN = MIN_TICK - 1


class PatternTracker(SilenceTracker):
    """Time by patterns: for all rows, and for the values of one attribute.

    A pattern that names other attributes helps nobody who goes by this one, and is passed by.
    """

    STATE = (*SilenceTracker.STATE, "_promised", "_counted")

    promised_by_sender = True

    def __init__(self, timeout: int | None, names: tuple[str, ...], by: str | None) -> None:
        super().__init__(timeout)
        self._place = None if by is None else names.index(by)
        """Of the attribute that a reader goes by, among those of a pattern."""
        self._promised: dict[str | None, Intervals] = {}
        """The stretches of time (after, until] that are complete, by value; None stands for `*`."""
        self._counted = (0, 0, 0)
        """Patterns that were read, those that helped nobody here, and those that say nothing."""
        self._sources: SourceHeartbeats | None = None

    def _times(self, value: str | None) -> Intervals:
        return tuple((after, until) for after, until in self._promised.get(value, ()))  # a journal has lists

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's patterns."""
        self._saw(arrival)
        if arrival.patterns:
            self._take(arrival.patterns)

    def _take(self, patterns: Iterable[Pattern]) -> None:
        read, passed_by, malformed = self._counted
        for pattern in patterns:
            read += 1
            named = [place for place, value in enumerate(pattern.values) if value is not None]
            after = _BEGIN if pattern.since is None else pattern.since
            if after >= pattern.until:
                malformed += 1
            elif named not in ([], [self._place]):
                passed_by += 1
            else:
                value = pattern.values[named[0]] if named else None
                self._promised[value] = united((*self._times(value), (after, pattern.until)))
        self._counted, self._sources = (read, passed_by, malformed), None
        self._raise(_reached(self._times(None)))

    @property
    def ranges(self) -> Intervals:
        """The stretches that patterns for all rows have, above the heartbeat."""
        tick = self._heartbeat
        return tuple((max(after, tick), until) for after, until in self._times(None) if until > tick)

    def by_source(self) -> SourceHeartbeats | None:
        """How far time has come for each value of the attribute."""
        if self._place is None:
            return None
        if self._sources is None or self._sources.others != self._heartbeat:
            of_all, beat, names = self._times(None), self._heartbeat, [v for v in self._promised if v is not None]
            ticks = {name: max(beat, _reached(united((*self._times(name), *of_all)))) for name in names}
            self._sources = SourceHeartbeats(list(ticks), np.array(list(ticks.values()), dtype=np.int64), beat)
        return self._sources

    def metrics(self) -> Figures:
        """How many patterns came, helped nobody who goes by this attribute, and said nothing."""
        read, passed_by, malformed = self._counted
        return {"patterns": read, "patterns_passed_by": passed_by, "malformed_patterns": malformed}


def _reached(times: Intervals) -> int:
    """Up to where time has passed without a gap."""
    return times[0][1] if times and times[0][0] == _BEGIN else MIN_TICK
