"""A policy by source: each class of like sources is a stream of its own, with the slack that it needs.

If every class keeps to a share of its (row, window) pairs, or of its results, then so do all together. So each
class has a tracker for itself, and sources that are quick do not wait for those that are slow.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.events import decision, logs_decisions
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.disorder import SourceHeartbeats, Tracker
from slackwater.progress.drop_ratio.delay_classes import CLASSES, DelayClasses
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.restorable import Restorable, prefixed, restore_each, state_of_each, under
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.source_beats import SourceBeats
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import ResultParts, WindowLosses

_log = logging.getLogger(__name__)
#: Times that stand for the rows of a class in a page, at most.
_TIMES = 8_192


class ReferenceTracker(SilenceTracker):
    """Keeps its heartbeat behind a reference: the largest time that can be believed."""

    @property
    @abstractmethod
    def reference(self) -> int | None:
        """The largest time that can be believed, as of the last page."""

    @property
    @abstractmethod
    def ahead(self) -> int:
        """How far clocks that are ahead carried the reference away from other rows, with the last page."""

    @property
    def warning(self) -> str | None:
        """What the user should know of the stream; it is logged once."""
        return None


class DelayClassTracker(Tracker):
    """One tracker for the stream; a tracker for each class of sources as soon as a query asks for these."""

    STATE = ("_stream", "_asked", "_has_sources", "_warned")

    def __init__(self, build: Callable[[], ReferenceTracker], unit: int) -> None:
        self._build, self._unit = build, unit
        self._stream = build()
        self._classes: ClassTrackers | None = None
        self._asked = self._has_sources = self._warned = False

    @property
    def heartbeat(self) -> Heartbeat:
        """That of the stream, by one slack for all."""
        return self._stream.heartbeat

    @property
    def silence(self) -> int | None:
        """That of the stream."""
        return self._stream.silence

    def by_source(self) -> SourceHeartbeats | None:
        """Of each source, by the slack of its class; what this costs is spent from the first time it is asked."""
        self._asked = True
        return self._needed().heartbeats() if self._has_sources else None

    def _needed(self) -> ClassTrackers:
        if self._classes is None:
            self._classes = ClassTrackers(self._build, self._unit)
        return self._classes

    def _both(self) -> list[Tracker | ClassTrackers]:
        return [self._stream] if self._classes is None else [self._stream, self._classes]

    def admit(self, page: int) -> None:
        """Note what the page meets."""
        for tracker in self._both():
            tracker.admit(page)

    def hear(self, report: WindowLosses) -> None:
        """Learn from a report."""
        for tracker in self._both():
            tracker.hear(report)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times."""
        self._has_sources = self._has_sources or arrival.sources is not None
        if self._asked and self._has_sources:
            self._needed()
        self._stream.arrive(arrival)
        if not self._warned and (warning := self._stream.warning):
            self._warned = True
            _log.warning(warning)
        if self._classes is not None:
            self._classes.arrive(arrival, self._stream.reference, self._stream.ahead)

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        for tracker in self._both():
            tracker.tick(now)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`."""
        wakes = [wake for tracker in self._both() if (wake := tracker.wake_at()) is not None]
        return min(wakes, default=None)

    def state(self) -> dict[str, Any]:
        """The stream's state, and that of the classes."""
        classes = {} if self._classes is None else prefixed("classes", self._classes.state())
        return {**super().state(), "by_class": self._classes is not None, **classes}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        if state["by_class"]:
            self._needed().restore(under("classes", state))

    def metrics(self) -> Figures:
        """Those of the stream, and the slack of each class of sources."""
        found = self._stream.metrics()
        return found if self._classes is None else {**found, "slack_by_delay": self._classes.metrics()}


class ClassTrackers(Restorable):
    """A tracker for each class of sources; `build` makes one."""

    STATE = ("_classes", "_sources", "_beats", "_tops", "_delays", "_reference")

    def __init__(self, build: Callable[[], ReferenceTracker], unit: int) -> None:
        self._build = build
        self._trackers: dict[int, ReferenceTracker] = {}
        self._classes, self._sources = DelayClasses(unit), SourceBeats()
        self._beats: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        self._tops: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        """The largest time of each class, at most that of the stream."""
        self._delays: Ints = np.zeros(CLASSES, dtype=np.int64)
        """The largest delay of each class: how far its smallest time in a page was behind the reference."""
        self._reference = MIN_TICK
        """The stream's reference: the largest time that can be believed. Corrupt times are not."""

    def heartbeats(self) -> SourceHeartbeats:
        """Of each source; of one that nobody has seen nothing is promised (D10)."""
        return SourceHeartbeats(self._classes.names, self._sources.beats.copy(), MIN_TICK)

    def admit(self, page: int) -> None:
        """The page goes down the plan: all classes note what it meets."""
        for tracker in self._trackers.values():
            tracker.admit(page)

    def hear(self, report: WindowLosses) -> None:
        """Part a report by class. Sources whose first arrival has not been learned have no tracker yet."""
        if report.by_source is None:
            return
        rows = report.by_source()
        place = self._classes.of(rows.names)
        for number in np.unique(place).tolist():
            if number in self._trackers:
                mine = place == number
                panes, which = np.unique(rows.panes[mine], return_inverse=True)
                counts = np.bincount(which, rows.rows[mine]).astype(np.int64)
                pairs, lost = rows.pairs_of(panes, counts), int(rows.lost[mine].sum())
                told = WindowLosses(report.query, report.page, *pairs, lost)
                if report.results is not None:
                    told = replace(told, results=partial(self._results, report, number))
                self._trackers[number].hear(told)

    def _results(self, report: WindowLosses, number: int) -> ResultParts:
        """What the sources of a class add to results."""
        parts = report.parts()
        return parts.where(self._classes.of(parts.sources or []) == number)

    def arrive(self, arrival: Arrival, reference: int | None, jumped: int) -> None:
        """Measure the sources' delays, and let each class learn from its rows.

        The reference is the stream's; `jumped` says how far clocks that are ahead have carried it.
        """
        some = None if arrival.sources is None else arrival.sources.rows > 0
        came: dict[int, Arrival] = {}
        if some is not None and some.any() and reference is not None:
            came = self._parts(arrival, some, max(reference, self._reference), jumped)
        nothing = Arrival(arrival.rows, arrival.rows, None, None, arrival.at)
        for number in came:
            if number not in self._trackers:
                self._trackers[number] = self._build()
        for number, tracker in self._trackers.items():
            # A page may have no time of a class; the reference that it met is that of no row.
            tracker.arrive(came.get(number, nothing))
        if came:
            self._follow()

    def _parts(self, arrival: Arrival, some: NDArray[np.bool_], reference: int, jumped: int) -> dict[int, Arrival]:
        """The rows of a page by class."""
        assert arrival.sources is not None
        page, classes = arrival.sources, self._classes
        names = page.names if some.all() else [n for n, any_ in zip(page.names, some, strict=True) if any_]
        rows, lowest, highest = (column[some] for column in (page.rows, page.lowest, page.highest))
        sources = classes.meet(names)
        before = np.where(classes.pages[sources] > 0, classes.place[sources], -1)
        classes.measure(sources, lowest, highest, reference)
        place = classes.place[sources]
        moved = np.flatnonzero(place != before)
        if len(moved) and logs_decisions():
            steps = zip(moved.tolist(), before[moved].tolist(), place[moved].tolist(), strict=True)
            decision("delay_class.changed", sources={names[n]: (None if a < 0 else a, b) for n, a, b in steps})
        self._sources.join(classes.place, sources[moved], self._beats)
        self._reference = reference
        self._delays[self._delays > 0] += jumped
        order = np.argsort(place.astype(np.int8), kind="stable")
        numbers, begins = np.unique(place[order], return_index=True)
        found = {}
        for number, mine in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            self._tops[number] = min(max(int(self._tops[number]), int(highest[mine].max())), reference)
            self._delays[number] = max(int(self._delays[number]), reference - int(lowest[mine].min()))
            part = rows[mine], lowest[mine], highest[mine]
            found[number] = arrival if len(numbers) == 1 else _of_class(arrival, *part)
        return found

    def _follow(self) -> None:
        """Raise the classes' heartbeats, and those of their sources.

        A class that has been silent for longer than twice its largest delay goes on that far behind the stream:
        with more delay a source would be in another class.
        """
        for number, tracker in self._trackers.items():
            carried = self._reference - 2 * int(self._delays[number])
            beat = tracker.heartbeat.tick
            self._beats[number] = max(
                int(self._beats[number]), beat, carried if carried > self._tops[number] else beat
            )
        self._sources.follow(self._classes.place, self._beats)

    def tick(self, now: int) -> None:
        """After a silence of the whole stream, promise all that was seen."""
        for tracker in self._trackers.values():
            tracker.tick(now)
        self._follow()

    def wake_at(self) -> int | None:
        """When the first class takes its silence for the end."""
        wakes = [wake for t in self._trackers.values() if (wake := t.wake_at()) is not None]
        return min(wakes, default=None)

    def state(self) -> dict[str, Any]:
        """The classes, and the states of their trackers."""
        return {**super().state(), **state_of_each("trackers", self._trackers)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._trackers = restore_each("trackers", state, lambda number: self._build())

    def metrics(self) -> Figures:
        """How many sources are in each class, and the slack of the class."""
        members = np.bincount(self._classes.place, minlength=CLASSES)
        slacks = {n: t.metrics()["slack"] for n, t in sorted(self._trackers.items())}
        return {f"class {n} of {members[n]}": slack for n, slack in slacks.items() if members[n]}


def _of_class(arrival: Arrival, rows: Ints, lowest: Ints, highest: Ints) -> Arrival:
    """The arrival of some sources' rows. Between a source's smallest and largest time they are taken as even.

    This overestimates the number of late rows, so the slack is rather too long. Reports give exact numbers of lost
    rows.
    """
    total, low, high = int(rows.sum()), int(lowest.min()), int(highest.max())
    if len(rows) > _TIMES:
        every = -(-len(rows) // _TIMES)
        rows, lowest, highest = rows[::every], lowest[::every], highest[::every]
    shown = np.maximum(1, rows * _TIMES // max(int(rows.sum()), _TIMES))
    place = np.arange(int(shown.sum())) - np.repeat(np.cumsum(shown) - shown, shown)
    # A single time stands for the middle of its source.
    share = np.where(np.repeat(shown, shown) > 1, place / np.repeat(np.maximum(shown - 1, 1), shown), 0.5)
    begin, end = lowest.astype(np.float64), highest.astype(np.float64)
    times = np.repeat(begin, shown) + share * np.repeat(end - begin, shown)
    return Arrival(total, 0, low, high, arrival.at, sketch=sketch_of(times))
