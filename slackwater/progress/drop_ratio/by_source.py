"""The drop ratio by source: each class of like sources is a stream of its own, with the slack that it needs.

If every class loses at most the share p of its (row, window) pairs, then so do all together. So each class has S4's
estimator for itself, and sources that are quick do not wait for those that are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Known, SourceHeartbeats, Tracker
from slackwater.progress.drop_ratio.delay_classes import CLASSES
from slackwater.progress.drop_ratio.seen_by_class import SeenByClass
from slackwater.progress.drop_ratio.tracker import DropRatioTracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.restorable import Restorable, prefixed, restore_each, state_of_each, under
from slackwater.progress.source_beats import SourceBeats
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses


class DropRatioBySource(Tracker):
    """One tracker for the stream; a tracker for each class of sources as soon as a query asks for these."""

    STATE = ("_stream", "_asked", "_has_sources")

    def __init__(self, build: Callable[[], DropRatioTracker], unit: int) -> None:
        self._build, self._unit = build, unit
        self._stream = build()
        self._classes: ClassTrackers | None = None
        self._asked = self._has_sources = False
        self._known: Known | None = None

    def share(self, known: Known) -> None:
        """Share what does not depend on the ratio, of the stream and of each class.

        With a timeout the clock tells something between pages, when others may have taken in the next one already.
        """
        if self._stream.silence is None:
            self._known = known
            self._stream.share(known)

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
            self._classes = ClassTrackers(self._build, self._unit, self._known)
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
        if self._classes is not None:
            self._classes.arrive(arrival, self._stream.reference, self._stream.jumped)

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

    def metrics(self) -> dict[str, Any]:
        """Those of the stream, and the slack of each class of sources."""
        found = self._stream.metrics()
        return found if self._classes is None else {**found, "slack_by_delay": self._classes.metrics()}


class ClassTrackers(Restorable):
    """A tracker for each class of sources; `build` makes one."""

    STATE = ("_seen", "_sources", "_beats")

    def __init__(self, build: Callable[[], DropRatioTracker], unit: int, known: Known | None = None) -> None:
        self._build, self._known = build, known
        self._seen = SeenByClass(unit)
        self._takes_in = True
        """Whether it is the one that keeps what was seen up to date, also for those that share it."""
        if known is not None:
            first = known.setdefault("drop_ratio by class", self._seen)
            self._takes_in, self._seen = first is self._seen, first
        self._trackers: dict[int, DropRatioTracker] = {}
        self._beats: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        self._sources = SourceBeats()

    def heartbeats(self) -> SourceHeartbeats:
        """Of each source; of one that nobody has seen nothing is promised (D10)."""
        # Others that share the names may have met more of them already.
        beats, names = self._sources.beats, self._seen.classes.names
        return SourceHeartbeats(names if len(names) == len(beats) else names[: len(beats)], beats.copy(), MIN_TICK)

    def admit(self, page: int) -> None:
        """The page goes down the plan: all classes note what it meets."""
        for tracker in self._trackers.values():
            tracker.admit(page)

    def hear(self, report: WindowLosses) -> None:
        """Part a report by class."""
        if report.by_source is None:
            return
        told = report.by_source()
        if self._takes_in:
            self._seen.hear(report.query, told)
        place, parts = self._seen.heard[report.query]
        if len(place):
            lost = np.bincount(place + 1, told.lost, CLASSES + 1)
            for number, last_ticks, pairs in parts:
                mine = WindowLosses(report.query, report.page, last_ticks, pairs, int(lost[number + 1]))
                self._trackers[number].hear(mine)

    def arrive(self, arrival: Arrival, reference: int | None, jumped: bool) -> None:
        """Measure the sources' delays, and let each class learn from its rows; the reference is the stream's."""
        if self._takes_in:
            self._seen.arrive(arrival, reference, jumped)
        seen = self._seen
        if seen.came:
            self._sources.join(seen.classes.place, seen.moved, self._beats)
        for number, rows in seen.came.items():
            self._tracker(number).arrive(rows)
        for number, tracker in self._trackers.items():
            if number not in seen.came:
                # The page has rows, none with a time of this class; the reference that it met is that of no row.
                tracker.arrive(seen.nothing)
        if seen.came:
            self._follow()

    def _tracker(self, number: int) -> DropRatioTracker:
        if number not in self._trackers:
            self._trackers[number] = self._build()
            if self._known is not None:
                self._trackers[number].share(self._known, rows_of=number)
        return self._trackers[number]

    def _follow(self) -> None:
        """Raise the classes' heartbeats, and those of their sources."""
        for number, tracker in self._trackers.items():
            beat = tracker.heartbeat.tick
            beat = max(beat, self._seen.carried_to(number, beat))
            self._beats[number] = max(int(self._beats[number]), beat)
        self._sources.follow(self._seen.classes.place[: len(self._sources.beats)], self._beats)

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
        self._trackers = {}
        restore_each("trackers", state, self._tracker)

    def metrics(self) -> dict[str, Any]:
        """How many sources are in each class, and the slack of the class."""
        members = np.bincount(self._seen.classes.place, minlength=CLASSES)
        slacks = {n: t.metrics()["slack"] for n, t in sorted(self._trackers.items())}
        return {f"class {n} of {members[n]}": slack for n, slack in slacks.items() if members[n]}
