"""Where in its last slide a window is prodded; moves by feedback to hold an accuracy (S5 section 4.4)."""

from __future__ import annotations

from math import log
from typing import Any

#: How much of the slide the offset moves at most for one window.
STEP = 0.03
#: How fast the running accuracy forgets.
FADE = 0.9
#: The latest prod, in slides: rows may come long after their window's end.
LATEST = 2.0
#: Final results came first: prod this much earlier, and try later again slowly.
BACK = 1 / 16
AGAIN = 1 / 512


class Aim:
    """How far into a window's last slide it is prodded, in ticks; None if prods do not go by windows.

    With an accuracy to hold, each window that becomes final moves it: earlier while the running accuracy is better,
    later while it is worse, between the slide's beginning and twice its length.

    >>> aim = Aim(offset=75, slide=100, accuracy=0.98)
    >>> for _ in range(10):
    ...     aim.learn(0.999)
    >>> aim.offset
    45
    >>> aim.metrics()["target_reachable"]
    True
    """

    def __init__(self, offset: int | None, slide: int, accuracy: float | None = None) -> None:
        self.offset = offset
        self._slide = slide
        self._target = accuracy
        self._place = 0.0 if offset is None else offset / slide
        self._limit = LATEST
        self._sum = self._weight = 0.0

    def learn(self, accuracy: float) -> None:
        """A window that was prodded has become final; early answers for it were so accurate."""
        if self._target is None or self.offset is None:
            return
        self._sum = FADE * self._sum + accuracy
        self._weight = FADE * self._weight + 1
        self._limit = min(self._limit + AGAIN, LATEST)
        off = max(1 - self._running, 1e-9) / (1 - self._target)
        self._move(self._place + STEP * min(max(log(off), -1.0), 1.0))

    def too_late(self) -> None:
        """A window was final before it was prodded."""
        if self._target is not None and self.offset is not None:
            self._limit = max(self._place - BACK, 0.0)
            self._move(self._place)

    def _move(self, place: float) -> None:
        self._place = min(max(place, 0.0), self._limit)
        self.offset = round(self._place * self._slide)

    @property
    def _running(self) -> float:
        return self._sum / self._weight if self._weight else 1.0

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {"offset": self.offset, "place": self._place, "limit": self._limit, "run": [self._sum, self._weight]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self.offset, self._place, self._limit = state["offset"], state["place"], state["limit"]
        self._sum, self._weight = state["run"]

    def metrics(self) -> dict[str, Any]:
        """Figures for a person; a target is out of reach when it is missed at the latest prod that is of use."""
        if self.offset is None:
            return {}
        figures: dict[str, Any] = {"prodded_at": self.offset / self._slide}
        if self._target is not None and self._weight:
            latest = self._place >= self._limit - BACK
            figures["running_accuracy"] = self._running
            figures["target_reachable"] = not (latest and self._running < self._target)
        return figures
