"""How many waiting pages of a stream a source takes as one.

Small pages cost little more than the fixed cost of a job, and a page of one file keeps only one core busy. So
waiting pages go through the plan together, as many as make the rows a second grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.element import page_of
from slackwater.operators.operator import Input
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation

#: The lateness of rows is measured on one of this many pages, or groups of pages taken as one.
SKETCH_EVERY = 16


def needs_at(asked: frozenset[str], place: int) -> frozenset[str]:
    """What is asked of the page at this place of a stream: for people, a glance at the times now and then."""
    return asked | {"glance"} if place % SKETCH_EVERY == 1 and "sketch" not in asked else asked


class Batching(Protocol):
    """Takes pages from the inbox of a source."""

    def take(self, inbox: Input, pages: Pages) -> tuple[Page, int]:
        """The pages that wait longest, taken as one, and their number; a page is the first that waits."""

    def metrics(self) -> Figures:
        """Figures for a person."""


class SinglePages:
    """Each page by itself."""

    def take(self, inbox: Input, pages: Pages) -> tuple[Page, int]:
        """The first."""
        return page_of(inbox.pop()), 1

    def metrics(self) -> Figures:
        """There is nothing to say."""
        return {}


class AdaptiveBatches:
    """As many pages as wait, up to a number that is learned.

    The first page goes alone; then groups have a page for each core. The number is made four times as large as
    long as the rows a second grow with it; now and then its double and its half are tried. What a group of pages
    costs is the time until the source is at work again, if others waited all the while.
    """

    MOST = 32
    LOOK_AGAIN = 16

    def __init__(
        self,
        apart: Callable[[int, int], bool] = lambda first, last: False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`apart` says whether pages of two admissions are not for the same operators."""
        self._apart = apart
        self._clock = clock
        self._cost: dict[int, float] = {}
        """Seconds a row, by the number of pages, cut down to a power of 2."""
        self._groups = 0
        self._last: tuple[float, Page, int] | None = None
        """When the last group was taken, if others waited behind it."""
        self.taken = 1
        """How many pages the last group had."""

    def take(self, inbox: Input, pages: Pages) -> tuple[Page, int]:
        """Take some pages as one, if they follow each other and are alike."""
        self._learn(pages)
        self._groups += 1
        most, first, page = self._most(len(inbox), pages.backend.cores), inbox.oldest, page_of(inbox.pop())
        number, self.taken = page.number, 1
        while self.taken < most and (merged := self._merged(inbox, page, first, pages)) is not None:
            page, self.taken = merged, self.taken + 1
            inbox.pop()
        if self.taken > 1:
            decision("pages.together", pages=self.taken, first=number, waiting=len(inbox))
        if len(inbox):
            pages.hold(page)
            self._last = self._clock(), page, self.taken
        return page, self.taken

    def _merged(self, inbox: Input, page: Page, first: int, pages: Pages) -> Page | None:
        """A page with what waits next, if they can be taken as one; `first` is its earliest admission."""
        following = inbox.peek() if len(inbox) else None
        if following is None or isinstance(following, (Punctuation, Prod)) or self._apart(first, inbox.oldest):
            return None
        return pages.merge(page, following)

    def _learn(self, known: Pages) -> None:
        if self._last is None:
            return
        (begun, page, pages), self._last = self._last, None
        arrival = known.arrival(page)
        known.release(page)
        if arrival is not None and arrival.rows:
            cost, size = (self._clock() - begun) / arrival.rows, 1 << (pages.bit_length() - 1)
            # The best so far, forgotten slowly: noise, and compiling the first time, only make it slower.
            self._cost[size] = min(cost, 1.05 * self._cost.get(size, float("inf")))

    def _most(self, waiting: int, cores: int) -> int:
        """A number of pages that has proved best, or the next one that has not been tried."""
        if self._groups == 1:
            return 1  # what a page comes down to is not known yet
        if not self._cost:
            return min(waiting, cores)
        best = min(self._cost, key=lambda pages: self._cost[pages])
        if max(self._cost) == best:
            best *= 4
        elif self._groups % self.LOOK_AGAIN == 0:
            best *= 2
        elif self._groups % self.LOOK_AGAIN == self.LOOK_AGAIN // 2:
            best = max(1, best // 2)
        # A few more are not worth a group of their own.
        most = min(waiting if waiting <= best + best // 2 else best, self.MOST)
        # With three pages one of two cores would idle for a third of the time: the third may wait for a fourth.
        return most - most % cores if most > cores else most

    def metrics(self) -> Figures:
        """How many pages were last taken as one."""
        return {"pages_together": self.taken}
