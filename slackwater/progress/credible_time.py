"""The reference of a stream: the largest time that can be believed, so that a corrupt timestamp moves nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np

from slackwater.progress.arrival import Arrival
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats

#: Usual advances (nine of ten are shorter): an advance of the reference that is longer than this many is a jump.
JUMP = 4.0
#: A jump is believed when this share of the rows since its first row lies beyond it. If this share of the rows was
#: held back by an outage, we see the outage.
SHARE = 0.05
#: Rows beyond a jump that must confirm it.
ROWS = 3
#: Pages that must confirm a jump. After an outage they suffice to see whether what was held back comes now.
PAGES = 3
#: Usual advances: the first rows after a silence lie no further than this behind the newest. Rows further back,
#: but not from before the silence, were held back.
NEWEST = 2.0
#: Advances before a silence: how far time may have gone on in it is counted from any of them.
LAST = 10
#: Rows after which a jump that was not believed is forgotten.
FORGET = 300
#: Pages without an advance after which the very first times are taken for corrupt.
STUCK = 20
#: Advances that are remembered.
ADVANCES = 100
#: Advances that are needed to know a jump: the first heartbeat may go out with the third page.
KNOWN = 2
#: Ticks: below this doubles are exact.
EXACT = 2**53


class Silence(Restorable):
    """Whether rows were held back in the last silence: the first pages behind it are watched."""

    STATE = ("trusted", "watched", "_from", "_to", "_rows", "_held_back")

    def __init__(self) -> None:
        self.trusted = False
        """Whether a silence has been watched, and no rows were held back in the last one."""
        self.watched = 0
        """Pages that are still to be watched."""
        self._from = self._to = self._rows = self._held_back = 0

    def end(self, begin: int, end: int) -> None:
        """A silence is over, between these times."""
        if self.watched and self._held_back:  # the one before was too short ago to have been watched to its end
            self.trusted = False
        self._from, self._to, self.watched = begin, end, PAGES
        self._rows = self._held_back = 0

    def held_back(self, times: Floats) -> float:
        """The share of these times that lies in the silence."""
        return float(((times > self._from) & (times < self._to)).mean())

    def watch(self, rows: int, times: Floats) -> None:
        """Take one of the first pages behind the silence."""
        self._rows += rows
        self._held_back += round(rows * self.held_back(times))
        self.watched -= 1
        if not self.watched:
            self.trusted = self._held_back < SHARE * self._rows


class CredibleTime(Restorable):
    """Follows the largest time. A jump must be confirmed by other rows; until then, times beyond it are ignored.

    If time had not advanced for as long as it jumps now, it was a silence, such as a night. The first rows behind
    it are believed at once, unless rows were held back in it or in the silence before. Only times that go on with
    the clock come with `at`: sequence numbers do not move in a silence.

    >>> r = CredibleTime()
    >>> for time in range(0, 70, 10):
    ...     _ = r.pass_page(time, rows=1)
    >>> r.pass_page(10**9, rows=1), r.time                 # one row far ahead: not believed
    (False, 60)
    >>> for time in range(70, 200, 10):
    ...     _ = r.pass_page(time, rows=1)
    >>> r.time
    190
    """

    STATE = ("time", "_advances", "_steps", "_arrived", "_silence", "_behind", "_rows", "_pages")

    def __init__(self) -> None:
        self.time: int | None = None
        self.after_silence = False
        """Whether the last page was the first one behind a silence, and was believed at once."""
        self.leapt = False
        """Whether the last jump was one of most rows: time went on, and not only some clocks are ahead."""
        self._advances: list[int] = []
        # How long after the one before each advance arrived, and when the last one did.
        self._steps: list[int] = []
        self._arrived: int | None = None
        self._silence = Silence()
        # Since a jump was first seen: rows behind it, all rows, pages.
        self._behind = self._rows = self._pages = 0

    @property
    def usual(self) -> int:
        """The advance that nine of ten pages stay below."""
        if not self._advances:
            return 0
        # This is np.quantile, which takes 30 times as long for so few numbers; it is asked for with every page.
        ordered, place = sorted(self._advances), (len(self._advances) - 1) * 0.9
        low = ordered[int(place)]
        apart, part = ordered[min(int(place) + 1, len(ordered) - 1)] - low, place - int(place)
        return int(low + apart * part if part < 0.5 else low + apart - apart * (1 - part))

    def pass_page(
        self, highest: int, rows: int, times: Callable[[], Floats] | None = None, at: int | None = None
    ) -> bool:
        """Take a page; `times` gives, if asked, increasing times that stand for equal shares of its rows.

        `at` is when the page arrives. True if a jump is believed now.
        """
        old, self.after_silence = self.time, False
        jumped = self._take(highest, rows, times, at)
        if self._silence.watched:
            self._silence.watch(rows, np.full(1, float(highest)) if times is None else times())
        if at is not None and self.time != old:
            self._arrived = at
        return jumped

    def _take(self, highest: int, rows: int, times: Callable[[], Floats] | None, at: int | None) -> bool:
        if self.time is None or len(self._advances) < KNOWN:
            self._begin(highest, rows, times, at)
            return False
        limit = self.time + int(JUMP * self.usual)
        if self._pages:
            self._rows += rows
        if highest <= limit:
            self._advance(highest, at)
        else:
            spread = np.full(1, float(highest)) if times is None else times()
            if self._pages == 0 and at is not None and self._went_on(highest, at):
                self._silence.end(self.time + self.usual, highest - int(NEWEST * self.usual))
                self.after_silence = self._silence.trusted and self._silence.held_back(spread) < SHARE
            if self.after_silence:
                self.time = highest
            elif self._jump(highest, rows, limit, spread, at):
                return True
        if self._rows > FORGET:
            self._behind = self._rows = self._pages = 0
        return False

    def pass_arrival(self, arrival: Arrival, at: int | None = None) -> bool:
        """Take a page by what it tells about time, its sketch of times if it has one; True as above.

        Without `at` no silence is known.
        """
        if arrival.highest is None:
            return False
        return self.pass_page(arrival.highest, arrival.timed, arrival.spread, at)

    def _begin(self, highest: int, rows: int, times: Callable[[], Floats] | None, at: int | None) -> None:
        """At the start a page of some rows is its own measure; a first time that nothing reaches is dropped."""
        if times is not None and rows >= 20:
            spread = times()
            low, high = np.quantile(spread, (0.05, 0.95))
            believed = spread[spread <= high + JUMP * (high - low)]
            if float(highest) > high + JUMP * (high - low):
                highest = _whole(float(believed[-1]))
        if self.time is not None and highest <= self.time:
            self._pages += 1
            self._behind = highest if self._pages == 1 else max(self._behind, highest)
            if self._pages < STUCK:
                return
            self.time = None
            highest = self._behind
        self._behind = self._pages = 0
        self._advance(highest, at)

    def _went_on(self, highest: int, at: int) -> bool:
        """Whether nothing came for so long that the clock, since one of the last advances, has come that far."""
        if self.time is None or self._arrived is None:
            return False
        # The last row before the silence may have come late; then time had been behind the clock.
        last = zip(self._advances[-LAST:], self._steps[-LAST:], strict=True)
        behind = max(accumulate((step - advance for advance, step in reversed([*last])), initial=0))
        return highest <= self.time + (at - self._arrived) + behind + JUMP * self.usual

    def _jump(self, highest: int, rows: int, limit: int, times: Floats, at: int | None) -> bool:
        inside = int(np.searchsorted(times, float(limit), side="right"))
        self._rows = self._rows if self._pages else rows
        self._behind += max(1, round(rows * (1 - inside / len(times))))
        self._pages += 1
        if self._behind < SHARE * self._rows:
            # A handful of rows: go on without them.
            if inside:
                self._advance(_whole(float(times[inside - 1])), at)
        elif self._pages >= PAGES and self._behind >= ROWS:
            self.leapt = 2 * self._behind > self._rows
            self.time, self._behind, self._rows, self._pages = highest, 0, 0, 0
            return True
        return False

    def _advance(self, time: int, at: int | None) -> None:
        if self.time is None:
            self.time = time
        elif time > self.time:
            self._advances.append(time - self.time)
            self._steps.append(0 if at is None or self._arrived is None else at - self._arrived)
            for kept in (self._advances, self._steps):
                del kept[:-ADVANCES]
            self.time = time


def _whole(time: float) -> int:
    """A time that a sketch gives, as a number that is not above the row's: larger ones may have been rounded up."""
    return int(time) if abs(time) < EXACT else int(np.nextafter(time, -np.inf))
