"""How many waiting pages of a stream a source takes as one.

The fixed cost of a job is what small pages pay, and a page of one file keeps one core busy. So waiting pages go
through the plan together, as many as make the rows a second grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from slackwater.events import decision
from slackwater.operators.operator import Input
from slackwater.operators.page import Page, Pages
from slackwater.operators.prod import Prod
from slackwater.progress.punctuation import Punctuation


class Taking(Protocol):
    """Takes pages from the inbox of a source."""

    def take(self, inbox: Input) -> tuple[Page, int]:
        """What waits longest, and of how many pages it is made; a page is the first that waits."""
        ...

    def metrics(self) -> dict[str, Any]:
        """Figures for a person."""
        ...


class OneByOne:
    """Each page by itself."""

    def take(self, inbox: Input) -> tuple[Page, int]:
        """The first."""
        return _page(inbox), 1

    def metrics(self) -> dict[str, Any]:
        """There is nothing to say."""
        return {}


class Together:
    """As many pages as wait, up to a number that is learned.

    The first page goes alone; then groups have a page for each core. The number is made four times as large as
    long as the rows a second grow with it; now and then its double and its half are tried. What a group of pages
    costs is the time until the source is at work again, if others waited all the while.
    """

    MOST = 32
    LOOK_AGAIN = 16

    def __init__(
        self,
        pages: Pages,
        apart: Callable[[int, int], bool] = lambda first, last: False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`apart` says whether pages of two admissions are not for the same operators."""
        self._pages = pages
        self._apart = apart
        self._clock = clock
        self._cost: dict[int, float] = {}
        """Seconds a row, by the number of pages, cut down to a power of 2."""
        self._groups = 0
        self._last: tuple[float, Page, int] | None = None
        """When the last group was taken, if others waited behind it."""
        self.taken = 1
        """How many pages the last group had."""

    def take(self, inbox: Input) -> tuple[Page, int]:
        """Take some pages as one; only such as follow each other and are alike."""
        self._learn()
        self._groups += 1
        most, first, group = self._most(len(inbox)), inbox.oldest, [_page(inbox)]
        while len(group) < most and self._follows(inbox, group, first):
            group.append(_page(inbox))
        self.taken = len(group)
        if self.taken > 1:
            decision("pages.together", pages=self.taken, first=group[0].number, waiting=len(inbox))
        page = group[0] if len(group) == 1 else self._pages.together(group)
        self._last = (self._clock(), page, self.taken) if len(inbox) else None
        return page, self.taken

    def _follows(self, inbox: Input, group: list[Page], first: int) -> bool:
        """Whether what waits next can be taken with pages of earlier admissions."""
        if not len(inbox) or isinstance(inbox.peek(), (Punctuation, Prod)):
            return False
        return self._pages.joins(group, inbox.peek()) and not self._apart(first, inbox.oldest)

    def _learn(self) -> None:
        if self._last is None:
            return
        begun, page, pages = self._last
        arrival = page.arrival()
        if arrival is not None and arrival.rows:
            cost, size = (self._clock() - begun) / arrival.rows, 1 << (pages.bit_length() - 1)
            # The best so far, forgotten slowly: noise, and compiling the first time, only make it slower.
            self._cost[size] = min(cost, 1.05 * self._cost.get(size, float("inf")))

    def _most(self, waiting: int) -> int:
        """A number of pages that has proved best, or the next one that has not been tried."""
        if self._groups == 1:
            return 1  # what a page comes down to is not known yet
        if not self._cost:
            return min(waiting, self._pages.cores)
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
        return most - most % self._pages.cores if most > self._pages.cores else most

    def metrics(self) -> dict[str, Any]:
        """How many pages were last taken as one."""
        return {"pages_together": self.taken}


def _page(inbox: Input) -> Page:
    page = inbox.pop()
    assert not isinstance(page, (Punctuation, Prod))
    return page
