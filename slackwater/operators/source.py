"""The source: lets pages in, learns from each how far time has passed, and says so when asked (S1, S3).

It is what holds time back for a whole plan: no window closes before the source's punctuation has come by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.operators.element import Punctuation
from slackwater.operators.operator import Emit, State, Unary
from slackwater.operators.page import Page
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat


class Source(Unary):
    """Runs a stream's disorder policy.

    A page's arrival statistics come out of the job that does its work, so they are known only after the page
    has gone down the plan; the heartbeat that follows from them is sent behind it, on demand or with the next page.
    """

    def __init__(self, label: str, tracker: Tracker) -> None:
        super().__init__(label)
        self._tracker = tracker
        self._under_way: list[Page] = []
        self._said = Heartbeat.NONE
        self._pages = self._rows = self._missing = 0
        self._highest: int | None = None

    @property
    def heartbeat(self) -> Heartbeat:
        """The strongest promise made so far."""
        return self._said

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send a page on, behind what the pages before it have taught."""
        self._learn()
        self._say(emit)
        self._under_way.append(page)
        self._pages += 1
        emit(page)

    def answer(self, now: int, emit: Emit) -> None:
        """An enabling timestamp: all that arrivals and the clock allow now."""
        self._learn()
        self._tracker.tick(now)
        self._say(emit)

    def end(self, emit: Emit) -> None:
        """Close every window."""
        self._learn()
        self._said = Heartbeat.END
        emit(Punctuation(self._said))

    def wake_at(self) -> int | None:
        """When the policy's timeout, if any, runs out."""
        return self._tracker.wake_at()

    def _learn(self) -> None:
        waiting = []
        for page in self._under_way:
            arrival = page.arrival()
            if arrival is None:
                waiting.append(page)
                continue
            self._tracker.arrive(arrival)
            self._rows += arrival.rows
            self._missing += arrival.missing
            if arrival.highest is not None and (self._highest is None or arrival.highest > self._highest):
                self._highest = arrival.highest
        self._under_way = waiting

    def _say(self, emit: Emit) -> None:
        if self._tracker.heartbeat > self._said:
            self._said = self._tracker.heartbeat
            emit(Punctuation(self._said))

    def state(self, whole: bool) -> State:
        """Policy state and counts, all of it every time: it is small."""
        self._learn()
        return State(
            {
                "tracker": self._tracker.state(),
                "said": self._said.tick,
                "counts": [self._pages, self._rows, self._missing],
                "highest": self._highest,
            }
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        values = states[-1].values
        self._tracker.restore(values["tracker"])
        self._said = Heartbeat(values["said"])
        self._pages, self._rows, self._missing = values["counts"]
        self._highest = values["highest"]

    def metrics(self) -> dict[str, Any]:
        """Heartbeat and counts."""
        return {
            "heartbeat": self._said.tick,
            "highest": self._highest,
            "pages": self._pages,
            "rows": self._rows,
            "missing_time": self._missing,
        }
