"""Round-robin (S2 section 4.2): every ready operator gets its turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from slackwater.errors import QueryError
from slackwater.progress.time import microseconds
from slackwater.scheduling.strategy import STRATEGIES, Ordered, Ready


class RoundRobin(Ordered):
    """The operator that has not run for longest; its turn is a page, or lasts for some seconds of work.

    >>> RoundRobin().first([Ready("a", last_run=7), Ready("b", last_run=3)]).label
    'b'
    >>> patient = RoundRobin(quantum=1.0)
    >>> patient.first([Ready("a", last_run=7), Ready("b", last_run=3, seconds=5.0)]).label
    'b'
    >>> patient.first([Ready("a", last_run=7), Ready("b", last_run=8, seconds=5.9)]).label
    'b'
    >>> patient.first([Ready("a", last_run=7), Ready("b", last_run=9, seconds=6.0)]).label
    'a'
    """

    name = "round-robin"

    def __init__(self, commit_every: int = 64, quantum: float = 0.0) -> None:
        super().__init__(commit_every)
        self.quantum = quantum
        """Seconds."""
        self._turn: tuple[str, float] | None = None
        """The operator whose turn it is, and the seconds that its runs had taken before."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        """Of operators that never ran, the one nearest to the source."""
        if self._turn is not None:
            label, before = self._turn
            for one in ready:
                if one.label == label and one.seconds - before < self.quantum:
                    return one
        chosen = min(ready, key=lambda r: (r.last_run, r.depth))
        self._turn = chosen.label, chosen.seconds
        return chosen

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """It is its turn."""
        return f"its turn: it last ran in run {picked.last_run}" if picked.last_run else "its turn: it never ran"


def round_robin(quantum: str | timedelta | None = None) -> RoundRobin:
    """Every operator that has work gets its turn; to compare. For `Session(strategy=…)`.

    Args:
        quantum: a turn lasts for so much work, as in "10 ms", or until nothing is left to do there. Without it, a
            turn is a page.
    """
    seconds = 0.0 if quantum is None else microseconds(quantum) / 1e6
    if quantum is not None and seconds <= 0:
        raise QueryError(f"round_robin(quantum={quantum!r}) must be positive, as in quantum='10 ms'")
    return RoundRobin(quantum=seconds)


STRATEGIES["round_robin"] = round_robin
