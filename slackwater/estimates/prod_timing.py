"""When to prod: how far into its last slide a window is prodded, to hold an accuracy (S5 section 4.4)."""

from __future__ import annotations

from collections.abc import Collection
from math import sqrt
from typing import Any

#: How much of the slide the offset moves for an answer without an error; for an error of n times the one allowed
#: it moves n - 1 times as far to the other side, so that errors are on average the one allowed. Where errors are
#: few and large both are smaller; no answer moves it further than this.
STEP, LEAP = 0.03, 0.25
#: The first answers move it so many times as far; when the recent past is full of answers, no more than that.
QUICK = 4.0
#: Of the windows that are prodded and not final: while there are more, moves are smaller, for what they bring is
#: seen that much later.
PATIENCE = 8
#: The latest prod that is of use comes this much of a slide before the final result,
BACK = 1 / 16
#: and when final results come later than they did, it follows so slowly.
FOLLOW = 0.02
#: How fast the recent past is forgotten.
FADE = 0.98
#: So many windows that were prodded are remembered.
MOST = 1_024
#: Where groups close on their own heartbeats, a window is over when one so much later has closed.
BEHIND = 16


class ProdTiming:
    """How far into a window's last slide it is prodded, in ticks; None if prods do not go by windows.

    With an accuracy to hold, each window that becomes final moves it: earlier while answers are better, later while
    they are worse, between the slide's beginning and the final result.

    >>> timing = ProdTiming(offset=75, slide=100, accuracy=0.98)
    >>> for window in range(4):
    ...     timing.asked(range(window, window + 1), {window}, now=window * 100 + 75)
    ...     timing.final(window, age=0.5, accuracy=0.999)
    >>> timing.offset
    31
    >>> timing.metrics()["target_reachable"]
    True
    """

    def __init__(self, offset: int | None, slide: int, accuracy: float | None = None) -> None:
        self.offset = offset
        self._slide = slide
        self._target = None if offset is None else accuracy
        self._place = 0.0 if offset is None else offset / slide
        self._limit: float | None = None
        """The latest place that is of use; None before a window was final."""
        self._asked: dict[int, int | None] = {}
        """When windows that it had prodded answered; None if they had nothing to say."""
        self._last: int | None = None
        """The last window that was prodded, or final before that."""
        self._recent = [0.0, 0.0, 0.0, 0.0]
        """Recent sums of accuracies, answers, prods as late as is of use, and windows; the last ones weigh most."""
        self._squares = 1.0
        """Mean square of what moves the offset."""

    def asked(self, windows: range, answered: Collection[int], now: int) -> None:
        """Its prod has come to the aggregate at this instant; these of the windows had something to say."""
        if self._target is None or not windows:
            return
        self._last = windows[-1] if self._last is None else max(self._last, windows[-1])
        room = MOST - len(self._asked)
        for window in windows[max(len(windows) - room, 0) :]:
            self._asked[window] = now if window in answered else None

    def asked_at(self, window: int) -> int | None:
        """When a window answered a prod of this timing, if it did. Prods of others say nothing about it."""
        return self._asked.get(window)

    def final(self, window: int, age: float, accuracy: float | None) -> None:
        """A window has become final so many slides after its end; its answer to the timed prod was so accurate.

        None: it had none. If it was prodded, that was too early to say anything; if not, the prod comes too late.
        """
        if self._target is None:
            return
        latest = age + 1 - BACK
        if self._limit is None or latest < self._limit:
            self._limit = latest
        self._limit += FOLLOW * (latest - self._limit)
        step = 0.0
        if window in self._asked and self._asked[window] is None:
            del self._asked[window]
            accuracy = 0.0
        elif accuracy is not None:
            self._squares = FADE * self._squares + (1 - FADE) * self._off(accuracy) ** 2
        if accuracy is not None:
            self._note(accuracy, self._place >= self._limit - STEP)
            step = self._step(window, accuracy)
        elif self._last is not None and window > self._last:
            self._last = window
            self._note(None, at_limit=True)
        self._place = max(min(self._place + step, self._limit), 0.0)
        self.offset = round(self._place * self._slide)
        while self._asked and (first := next(iter(self._asked))) <= window - BEHIND:
            del self._asked[first]

    def _off(self, accuracy: float) -> float:
        """How many times the error allowed, less one."""
        assert self._target is not None
        return (1 - accuracy) / (1 - self._target) - 1

    def _step(self, window: int, accuracy: float) -> float:
        ahead = 1 if self._last is None else max(self._last - window, 1)
        quick = QUICK - (QUICK - 1) * (1 - FADE) * self._recent[1]
        step = quick * STEP * self._off(accuracy) / max(sqrt(self._squares), 1.0)
        return min(step, LEAP) * min(PATIENCE / ahead, 1.0)

    def _note(self, accuracy: float | None, at_limit: bool) -> None:
        new = [accuracy or 0.0, float(accuracy is not None), float(at_limit), 1.0]
        self._recent = [FADE * old + more for old, more in zip(self._recent, new, strict=True)]

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "offset": self.offset,
            "place": self._place,
            "limit": self._limit,
            "asked": [[window, at] for window, at in self._asked.items()],
            "last": self._last,
            "recent": self._recent,
            "squares": self._squares,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self.offset, self._place, self._limit = state["offset"], state["place"], state["limit"]
        self._asked = {window: at for window, at in state["asked"]}
        self._last, self._recent, self._squares = state["last"], list(state["recent"]), state["squares"]

    def metrics(self) -> dict[str, Any]:
        """Figures for a person.

        A target is out of reach when the recent answers, some fifty, were worse than it though most of the prods
        were as late as is of use, or when there were few because final results came first.
        """
        if self.offset is None:
            return {}
        figures: dict[str, Any] = {"prodded_at": self.offset / self._slide}
        found, weight, limited, windows = self._recent
        if weight:
            figures["running_accuracy"] = found / weight
        if self._target is not None and windows:
            missed = weight < windows / 2 or found / weight < self._target
            figures["target_reachable"] = not (missed and limited > windows / 2)
        return figures
