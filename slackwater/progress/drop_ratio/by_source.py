"""The drop ratio by source: each class of like sources is a stream of its own, with the slack that it needs.

If every class loses at most the share p of its (row, window) pairs, then so do all together. So each class has S4's
estimator for itself, and sources that are quick do not wait for those that are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.disorder import Found, SourceHeartbeats, Tracker, once
from slackwater.progress.drop_ratio.delay_classes import CLASSES, DelayClasses
from slackwater.progress.drop_ratio.tracker import DropRatioTracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.report import Report, RowsBySource
from slackwater.progress.sources import Ints
from slackwater.progress.time import MIN_TICK

#: Times that stand for the rows of a class in a page, at most about so many.
_TIMES = 8_192
#: Rows are counted pane by pane when a page lies in so many panes at most.
_PANES = 10_000
#: A class that is silent is carried along by the stream. For how far the stream got ahead of it, the last so many
#: pages of the class count.
_GAPS = 100


class DropRatioBySource(Tracker):
    """One tracker for the stream; a tracker for each class of sources as soon as a query asks for these."""

    def __init__(self, build: Callable[[], DropRatioTracker], unit: int) -> None:
        self._build, self._unit = build, unit
        self._stream = build()
        self._classes: ClassTrackers | None = None
        self._asked = self._has_sources = False
        self._found: Found | None = None

    def share(self, found: Found) -> None:
        """Share what does not depend on the ratio, of the stream and of each class."""
        self._found = found
        self._stream.share(found)

    @property
    def heartbeat(self) -> Heartbeat:
        """That of the stream, by one slack for all."""
        return self._stream.heartbeat

    def by_source(self) -> SourceHeartbeats | None:
        """Of each source, by the slack of its class; what this costs is spent from the first time it is asked."""
        self._asked = True
        return self._needed().heartbeats() if self._has_sources else None

    def _needed(self) -> ClassTrackers:
        if self._classes is None:
            self._classes = ClassTrackers(self._build, self._unit, self._found)
        return self._classes

    def _both(self) -> list[Tracker | ClassTrackers]:
        return [self._stream] if self._classes is None else [self._stream, self._classes]

    def admit(self, page: int) -> None:
        """Note what the page meets."""
        for tracker in self._both():
            tracker.admit(page)

    def hear(self, report: Report) -> None:
        """Learn from a report."""
        for tracker in self._both():
            tracker.hear(report)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times."""
        self._has_sources = self._has_sources or arrival.sources is not None
        if self._asked and self._has_sources:
            self._needed()
        for tracker in self._both():
            tracker.arrive(arrival)

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        for tracker in self._both():
            tracker.tick(now)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`."""
        wakes = [wake for tracker in self._both() if (wake := tracker.wake_at()) is not None]
        return min(wakes, default=None)

    def state(self) -> dict[str, Any]:
        """The stream's state, and that of the classes under names of their own."""
        found = {**self._stream.state(), "asked": [self._asked, self._has_sources, self._classes is not None]}
        if self._classes is not None:
            found |= {f"by_source_{name}": kept for name, kept in self._classes.state().items()}
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._stream.restore(state)
        self._asked, self._has_sources, by_source = state["asked"]
        if by_source:
            self._needed().restore(_under("by_source_", state))

    def metrics(self) -> dict[str, Any]:
        """Those of the stream, and the slack of each class of sources."""
        found = self._stream.metrics()
        return found if self._classes is None else {**found, "slack_by_delay": self._classes.metrics()}


class ClassTrackers:
    """A tracker for each class of sources; `build` makes one."""

    def __init__(self, build: Callable[[], DropRatioTracker], unit: int, found: Found | None = None) -> None:
        self._build, self._found = build, found
        self._classes = DelayClasses(unit)
        self._trackers: dict[int, DropRatioTracker] = {}
        self._beats: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        self._top = MIN_TICK
        self._tops: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        """The largest time of the stream, and of each class."""
        self._gaps: dict[int, list[int]] = {}
        """How far the stream was ahead of a class before each of the class's last pages."""

    def heartbeats(self) -> SourceHeartbeats:
        """Of each source; of one that nobody has seen nothing is promised (D10)."""
        return SourceHeartbeats(self._classes.names, self._classes.beats.copy(), MIN_TICK)

    def admit(self, page: int) -> None:
        """The page goes down the plan: all classes note what it meets."""
        for tracker in self._trackers.values():
            tracker.admit(page)

    def hear(self, report: Report) -> None:
        """Part a report by class."""
        if report.by_source is None:
            return
        told = report.by_source()
        place, parts = once(self._found, ("heard", report.query), partial(self._parted, told))
        if len(place):
            lost = np.bincount(place + 1, told.lost)
            for number, last_ticks, pairs in parts:
                mine = Report(report.query, report.page, last_ticks, pairs, int(lost[number + 1]))
                self._trackers[number].hear(mine)

    def _parted(self, told: RowsBySource) -> tuple[Ints, list[tuple[int, Ints, Ints]]]:
        """The class of each entry; of each class its number, and the last ticks and pairs of its windows.

        There is no tracker yet for sources whose first arrival has not been learned: these have class -1.
        """
        place = self._classes.of(told.names)
        parts = [(n, panes, rows) for n, panes, rows in _by_class(place, told) if n in self._trackers]
        return place, [(n, *told.pairs_of(panes, rows)) for n, panes, rows in parts]

    def arrive(self, arrival: Arrival) -> None:
        """Measure the sources' delays, and let each class learn from its own rows."""
        came = arrival.sources
        if came is None or not arrival.timed or arrival.highest is None:
            for tracker in self._trackers.values():
                tracker.arrive(Arrival(arrival.rows, arrival.rows, None, None, arrival.at))
            return
        some = came.rows > 0
        names = came.names if some.all() else [n for n, any_ in zip(came.names, some, strict=True) if any_]
        rows, lowest, highest = (column[some] for column in (came.rows, came.lowest, came.highest))
        sources = self._classes.meet(names)
        before = np.where(self._classes.pages[sources] > 0, self._classes.place[sources], -1)
        top, self._top = self._top, max(self._top, arrival.highest)
        self._classes.measure(sources, lowest, highest, self._top)
        self._classes.join(sources, before, self._beats)
        place = self._classes.place[sources]
        order = np.argsort(place.astype(np.int8), kind="stable")
        numbers, begins = np.unique(place[order], return_index=True)
        for number, mine in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            self._note_gap(number, top, int(highest[mine].max()))
            whole = arrival
            if len(numbers) > 1:
                of = rows[mine], lowest[mine], highest[mine]
                whole = once(self._found, ("class", number), partial(_of_class, arrival, *of))
            self._tracker(number).arrive(whole)
        for number in self._trackers.keys() - set(numbers.tolist()):
            # The page has rows, none with a time of this class; the reference that it met is that of no row.
            self._tracker(number).arrive(Arrival(arrival.rows, arrival.rows, None, None, arrival.at))
        self._follow()

    def _tracker(self, number: int) -> DropRatioTracker:
        if number not in self._trackers:
            self._trackers[number] = self._build()
            if self._found is not None:
                self._trackers[number].share(self._found, rows_of=number)
        return self._trackers[number]

    def _note_gap(self, number: int, top: int, highest: int) -> None:
        if self._tops[number] > MIN_TICK:
            gaps = self._gaps.setdefault(number, [])
            gaps.append(max(0, top - int(self._tops[number])))
            del gaps[:-_GAPS]
        self._tops[number] = max(int(self._tops[number]), highest)

    def _follow(self) -> None:
        """Raise the classes' heartbeats, and those of their sources."""
        for number, tracker in self._trackers.items():
            beat = tracker.heartbeat.tick
            gaps = self._gaps.get(number)
            if gaps and beat > MIN_TICK:
                # As far behind the stream as it has been at most: a class that has fallen silent goes on with it.
                beat = max(beat, self._top - max(gaps) - (int(self._tops[number]) - beat))
            self._beats[number] = max(int(self._beats[number]), beat)
        self._classes.follow(self._beats)

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
        found: dict[str, Any] = {f"source_{name}": kept for name, kept in self._classes.state().items()}
        found["class_beats"], found["class_tops"] = self._beats.copy(), self._tops.copy()
        found["classes"] = [self._top, [[n, gaps] for n, gaps in self._gaps.items()], sorted(self._trackers)]
        for number, tracker in self._trackers.items():
            found |= {f"class_{number}_{name}": kept for name, kept in tracker.state().items()}
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._classes.restore(_under("source_", state))
        self._beats, self._tops = (np.array(state[f"class_{k}"], dtype=np.int64) for k in ("beats", "tops"))
        self._top, gaps, numbers = state["classes"]
        self._gaps = {number: list(kept) for number, kept in gaps}
        self._trackers = {}
        for number in numbers:
            self._tracker(number).restore(_under(f"class_{number}_", state))

    def metrics(self) -> dict[str, Any]:
        """How many sources are in each class, and the slack of the class."""
        members = np.bincount(self._classes.place, minlength=CLASSES)
        slacks = {n: t.metrics()["slack"] for n, t in sorted(self._trackers.items())}
        return {f"class {n} of {members[n]}": slack for n, slack in slacks.items() if members[n]}


def _under(start: str, state: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(start): kept for name, kept in state.items() if name.startswith(start)}


def _by_class(place: Ints, told: RowsBySource) -> Iterator[tuple[int, Ints, Ints]]:
    """Of each class its number, the panes it has rows in, and how many these are."""
    if not len(place):
        return
    low = int(told.panes.min())
    span = int(told.panes.max()) - low + 1
    code = (place + 1) * span + (told.panes - low)
    if span > _PANES:
        codes, code = np.unique(code, return_inverse=True)
        rows = np.bincount(code, told.rows)
    else:
        rows = np.bincount(code, told.rows)
        codes = np.flatnonzero(rows)
        rows = rows[codes]
    numbers, panes = np.divmod(codes, span)
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        yield number - 1, panes[mine] + low, rows[mine].astype(np.int64)


def _of_class(arrival: Arrival, rows: Ints, lowest: Ints, highest: Ints) -> Arrival:
    """The arrival of some sources' rows. Between a source's smallest and largest time they are taken as even.

    That makes late rows more than they are, so the slack is rather too long; reports tell the rest exactly.
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
