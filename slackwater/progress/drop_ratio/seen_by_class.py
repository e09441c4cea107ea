"""What `drop_ratio` has seen of classes of like sources, whatever share may be lost: their rows, and their gaps.

Trackers of several shares that are told of the same rows may share it: then one of them takes the rows in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.events import decision, logs_decisions
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.drop_ratio.delay_classes import CLASSES, DelayClasses
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import RowsBySource

#: Times that stand for the rows of a class in a page, at most.
_TIMES = 8_192
#: Panes of a page up to which rows are counted pane by pane.
_PANES = 10_000
#: Pages of a class that say how far the stream gets ahead of it. So far behind it is carried along while it is
#: silent.
_GAPS = 100
#: Pages after a jump of the reference, which may be that of wrong clocks: it carries nobody along.
_JUMPED = 100


class SeenByClass(Restorable):
    """The class of each source, and of each class what the last page had of it."""

    STATE = ("classes", "_reference", "_jump", "_since_jump", "_tops", "_delays", "_gaps")

    def __init__(self, unit: int) -> None:
        self.classes = DelayClasses(unit)
        self.moved: Ints = np.zeros(0, np.int64)
        """The sources that the last page brought to another class, or for the first time."""
        self.came: dict[int, Arrival] = {}
        """The rows of the last page by class; of a page without times there are none."""
        self.nothing = Arrival(0, 0, None, None, MIN_TICK)
        """The last page, for a class of which it has no row."""
        self.heard: dict[str, tuple[Ints, list[tuple[int, Ints, Ints]]]] = {}
        """By query, of its last report: the class of each entry; the windows of each class, and their pairs."""
        self._reference = MIN_TICK
        """The stream's reference: the largest time that can be believed. Corrupt times and wrong clocks are not."""
        self._jump = self._since_jump = 0
        """How far it jumped the last time, and how many pages ago."""
        self._tops: Ints = np.full(CLASSES, MIN_TICK, dtype=np.int64)
        """The largest time of each class, at most that of the stream."""
        self._delays: Ints = np.zeros(CLASSES, dtype=np.int64)
        """The largest delay of each class: how far its smallest time in a page was behind the reference."""
        self._gaps: dict[int, list[int]] = {}
        """How far the stream was ahead of a class before each of the class's last pages."""

    def hear(self, query: str, told: RowsBySource) -> None:
        """Part a report by class.

        There is no tracker yet for sources whose first arrival has not been learned: these have class -1.
        """
        place = self.classes.of(told.names)
        parts = [(n, panes, rows) for n, panes, rows in _by_class(place, told) if self._had_rows(n)]
        self.heard[query] = place, [(n, *told.pairs_of(panes, rows)) for n, panes, rows in parts]

    def _had_rows(self, number: int) -> bool:
        return number >= 0 and bool(self._tops[number] > MIN_TICK)

    def arrive(self, arrival: Arrival, reference: int | None, jumped: bool) -> None:
        """Measure the sources' delays behind the stream's reference, and part the page by class."""
        came = arrival.sources
        self.came, self.nothing = {}, Arrival(arrival.rows, arrival.rows, None, None, arrival.at)
        if came is None or not arrival.timed or reference is None:
            return
        some = came.rows > 0
        names = came.names if some.all() else [n for n, any_ in zip(came.names, some, strict=True) if any_]
        rows, lowest, highest = (column[some] for column in (came.rows, came.lowest, came.highest))
        sources = self.classes.meet(names)
        before = np.where(self.classes.pages[sources] > 0, self.classes.place[sources], -1)
        top, self._reference = self._reference, reference
        if jumped and top > MIN_TICK:
            self._jump, self._since_jump = reference - top, 0
        self._since_jump += 1
        self.classes.measure(sources, lowest, highest, reference)
        place = self.classes.place[sources]
        self.moved = sources[place != before]
        if len(self.moved) and logs_decisions():
            self._log_moves(names, before, place)
        order = np.argsort(place.astype(np.int8), kind="stable")
        numbers, begins = np.unique(place[order], return_index=True)
        for number, mine in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            self._note_gap(number, top, int(highest[mine].max()))
            self._delays[number] = max(int(self._delays[number]), reference - int(lowest[mine].min()))
            of = rows[mine], lowest[mine], highest[mine]
            self.came[number] = arrival if len(numbers) == 1 else _of_class(arrival, *of)
        np.minimum(self._tops, reference, out=self._tops)

    def _log_moves(self, names: list[str], before: Ints, place: Ints) -> None:
        """One line for the page: sources by the classes that they leave and join; a new source leaves None."""
        moves: dict[str, tuple[int | None, int]] = {}
        for n in np.nonzero(place != before)[0].tolist():
            left, joined = int(before[n]), int(place[n])
            moves[names[n]] = (None if left < 0 else left), joined
        decision("delay_class.changed", sources=moves)

    def _note_gap(self, number: int, top: int, highest: int) -> None:
        if self._tops[number] > MIN_TICK:
            gaps = self._gaps.setdefault(number, [])
            gaps.append(max(0, top - int(self._tops[number])))
            del gaps[:-_GAPS]
        self._tops[number] = max(int(self._tops[number]), highest)

    def carried_to(self, number: int, beat: int) -> int:
        """How far the stream carries a class along that has come to this heartbeat.

        It is as far behind the stream as it has been at most: a class that has fallen silent goes on with it, not
        beyond the reference. One that has no heartbeat sent too little to have one. When it has been silent for
        longer than twice its largest delay, it goes on that far behind: with more delay a source would be in
        another class.
        """
        gaps, top = self._gaps.get(number), int(self._tops[number])
        reference = self._reference - (self._jump if self._since_jump <= _JUMPED else 0)
        if beat == MIN_TICK:
            carried = reference - 2 * int(self._delays[number])
            return carried if carried > top else beat
        return reference - max(max(gaps) + top - beat, 0) if gaps else beat


def _by_class(place: Ints, told: RowsBySource) -> Iterator[tuple[int, Ints, Ints]]:
    """Of each class its number, the panes it has rows in, and how many these are."""
    if not len(place):
        return
    low, high = int(told.panes.min()), int(told.panes.max())
    if high - low < _PANES:
        panes, which = np.arange(low, high + 1), told.panes - low
    else:
        panes, which = np.unique(told.panes, return_inverse=True)
    rows = np.bincount((place + 1) * len(panes) + which, told.rows)
    codes = np.flatnonzero(rows)
    numbers, which = np.divmod(codes, len(panes))
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        yield number - 1, panes[which[mine]], rows[codes[mine]].astype(np.int64)


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
