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

#: The begin of the stretch of a pattern without `since`.
_BEGIN = MIN_TICK - 1


class PatternTracker(SilenceTracker):
    """Heartbeats from patterns: one for all rows, and one for each value of one attribute.

    A pattern with a value of another attribute has no effect here. It is only counted.
    """

    STATE = (*SilenceTracker.STATE, "_promised", "_counted")

    promised_by_sender = True

    def __init__(self, timeout: int | None, names: tuple[str, ...], by: str | None) -> None:
        super().__init__(timeout)
        self._place = None if by is None else names.index(by)
        """The place of the query's attribute among those of a pattern; None: the query uses none."""
        self._promised: dict[str | None, Intervals] = {}
        """The complete stretches of time (after, until], by value of the attribute; None stands for `*`."""
        self._counted = (0, 0, 0)
        """The numbers of patterns read, of those without effect, and of malformed ones."""
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
        """The complete stretches of all rows above the heartbeat."""
        tick = self._heartbeat
        return tuple((max(after, tick), until) for after, until in self._times(None) if until > tick)

    def by_source(self) -> SourceHeartbeats | None:
        """The heartbeat of each value of the attribute."""
        if self._place is None:
            return None
        if self._sources is None or self._sources.others != self._heartbeat:
            of_all, beat, names = self._times(None), self._heartbeat, [v for v in self._promised if v is not None]
            ticks = {name: max(beat, _reached(united((*self._times(name), *of_all)))) for name in names}
            self._sources = SourceHeartbeats(list(ticks), np.array(list(ticks.values()), dtype=np.int64), beat)
        return self._sources

    def metrics(self) -> Figures:
        """The numbers of patterns read, of those without effect, and of malformed ones."""
        read, passed_by, malformed = self._counted
        return {"patterns": read, "patterns_passed_by": passed_by, "malformed_patterns": malformed}


def _reached(times: Intervals) -> int:
    """The end of the complete stretches before the first gap."""
    return times[0][1] if times and times[0][0] == _BEGIN else MIN_TICK
