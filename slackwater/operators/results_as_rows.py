"""Between two aggregates (S5 section 3.3, Q3-4): what the lower one answers is what the upper one reads.

It holds time back by up to a slide of the lower aggregate: a heartbeat is passed on as the last tick of the last
window that it has closed there, for the results of later windows are still to come. So is a range punctuation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slackwater.operators.element import Answer, Payload, Provisional, Punctuation, Staged
from slackwater.operators.operator import Emit, Unary
from slackwater.operators.page import Page
from slackwater.operators.window_aggregate import Spill
from slackwater.plan.nodes import ResultsNode
from slackwater.progress.clock import Clock
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.sources import Ints
from slackwater.windows.closed import ends_reached
from slackwater.windows.results import row_columns, seen_rows


class PageOf(Protocol):
    """Makes a page of results: the columns of `row_columns`, the last tick of its window as a row's time."""

    def __call__(self, payload: Payload, node: ResultsNode, number: int, at: int) -> Page:
        """A page with this number, at this instant."""
        ...


@dataclass(frozen=True)
class Nesting:
    """What the pages at hand must offer for a query over the results of another."""

    page_of: PageOf
    drop_staged: Callable[[Staged], None] = lambda payload: None
    """Deletes results that were too many for the driver, once they are in the upper aggregate."""
    spill: Callable[[int], Spill | None] = lambda level: None
    """Where the aggregate of a level spills to, counted from the topmost (0)."""


class ResultsAsRows(Unary):
    """Final results become pages; early ones become rows that hold for one prod."""

    takes_answers = True

    def __init__(self, label: str, node: ResultsNode, clock: Clock, nesting: Nesting) -> None:
        super().__init__(label)
        self._node = node
        self._kernel = node.input.kernel
        self._clock = clock
        self._nesting = nesting
        self._pages = 0
        self._taken: list[Staged] = []

    def on_page(self, page: Page, emit: Emit) -> None:
        """Rows come as answers only."""
        raise TypeError(f"{self.label}: a page came where results are read")

    def on_answer(self, answer: Answer, emit: Emit) -> None:
        """Send results on as rows."""
        payload = answer.payload
        if isinstance(payload, Staged):
            self._taken.append(payload)
        elif answer.early:
            payload = seen_rows(self._kernel, payload)
        else:
            payload = payload.select(row_columns(self._kernel))
        page = self._nesting.page_of(payload, self._node, self._pages, self._clock.now())
        self._pages += 1
        emit(Provisional(page) if answer.early else page)

    def on_punctuation(self, punctuation: Punctuation, emit: Emit) -> None:
        """Say how far results have come, or which have."""
        if punctuation.after is not None:
            self._on_range(punctuation.after, punctuation.heartbeat, emit)
            return
        by = punctuation.sources
        if by is not None:
            # The windows of a source end by its own heartbeat only where the aggregate below does so.
            reached = self._reached(np.array([*by.ticks, by.others], dtype=np.int64))
            mine = self._kernel.source is not None
            by = SourceHeartbeats(by.names, reached[:-1], int(reached[-1])) if mine else None
        tick = int(self._reached(np.array([punctuation.heartbeat.tick], dtype=np.int64))[0])
        emit(Punctuation(Heartbeat(tick), by))

    def _on_range(self, after: int, heartbeat: Heartbeat, emit: Emit) -> None:
        """The windows that begin behind `after` and that the heartbeat closes have given their results."""
        spec = self._kernel.spec
        last_before = spec.bounds((after - spec.offset) // spec.slide)[1] - 1
        tick = int(self._reached(np.array([heartbeat.tick], dtype=np.int64))[0])
        if last_before < tick:
            emit(Punctuation(Heartbeat(tick), None, last_before))

    def _reached(self, ticks: Ints) -> Ints:
        return ends_reached(self._kernel.spec, ticks)

    def settle(self) -> None:
        """What was taken is in the upper aggregate, and that is durable."""
        for staged in self._taken:
            self._nesting.drop_staged(staged)
        self._taken = []
