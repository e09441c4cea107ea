"""Round-robin (S2 section 4.2): every ready operator gets its turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.time import microseconds
from slackwater.scheduling.strategy import STRATEGIES, Ordered, Ready


class RoundRobin(Ordered):
    """A cycle over the operators: the next one that is ready. Its turn is a page, or some seconds of work.

    An operator joins the cycle when it is first ready, those nearer to the source first.

    >>> ready = [Ready("a"), Ready("b"), Ready("c")]
    >>> in_turn = RoundRobin()
    >>> [in_turn.first(ready).label for _ in range(4)]
    ['a', 'b', 'c', 'a']
    >>> patient = RoundRobin(quantum=1.0)
    >>> patient.first([Ready("a"), Ready("b")]).label
    'a'
    >>> patient.first([Ready("a", seconds=0.9), Ready("b")]).label
    'a'
    >>> patient.first([Ready("a", seconds=1.0), Ready("b")]).label
    'b'
    """

    name = "round-robin"

    def __init__(self, commit_every: int = 64, quantum: float = 0.0) -> None:
        super().__init__(commit_every)
        self.quantum = quantum
        """Seconds."""
        self._cycle: list[str] = []
        self._turn: tuple[str, float] | None = None
        """The operator whose turn it is, and the seconds that its runs had taken before."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        """The operator whose turn it still is, or the next one of the cycle."""
        by_label = {one.label: one for one in sorted(ready, key=lambda r: r.depth)}
        self._cycle += [label for label in by_label if label not in self._cycle]
        after = 0
        if self._turn is not None:
            label, before = self._turn
            if label in by_label and by_label[label].seconds - before < self.quantum:
                return by_label[label]
            after = self._cycle.index(label) + 1
        chosen = next(by_label[label] for label in self._cycle[after:] + self._cycle[:after] if label in by_label)
        self._turn = chosen.label, chosen.seconds
        return chosen

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """It is its turn."""
        return f"its turn: it last ran in run {picked.last_run}" if picked.last_run else "its turn: it never ran"


@called()
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
