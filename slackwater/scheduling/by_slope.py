"""What Chain and Greedy have in common: operators in segments, and the steepest segment goes first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from math import inf

from slackwater.events import decision
from slackwater.scheduling.chart import PathStep, Segment
from slackwater.scheduling.paths import Plan, readers, unit, ways
from slackwater.scheduling.strategy import Ordered, Ready


class BySlope(Ordered):
    """Runs the steepest segment. Of equal ones the oldest page goes first, and of that the last operator."""

    charts = True

    def __init__(self, commit_every: int = 64) -> None:
        super().__init__(commit_every)
        self._segments: dict[str, Segment] = {}
        self._slopes: dict[str, float] = {}
        self._ends: set[str] = set()
        self._unit = "rows"

    @abstractmethod
    def cut(self, first: PathStep) -> Iterable[Segment]:
        """The way of a stream's rows in segments."""

    def learn(self, plan: Plan) -> None:
        """Chart the plan anew. An operator on the paths of several streams has the steepest of its segments."""
        before = {label: segment.labels for label, segment in self._segments.items()}
        self._segments, self._unit = {}, unit(plan)
        for first in ways(plan).values():
            for segment in self.cut(first):
                for label in segment.labels:
                    if label not in self._segments or segment.slope > self._segments[label].slope:
                        self._segments[label] = segment
        self._slopes = {label: _measured(segment.slope) for label, segment in self._segments.items()}
        chains = {label: segment.labels for label, segment in self._segments.items()}
        if chains != before:
            decision("chains.changed", strategy=self.name, chains=list(dict.fromkeys(chains.values())))
        self._ends = {
            label
            for label, behind in readers(plan).items()
            if any(reader not in self._segments[label].labels for reader in behind)
        }

    def segment(self, label: str) -> Segment | None:
        """The operator's segment; None for one that is on no path, such as a sink of late rows."""
        return self._segments.get(label)

    def ends_segment(self, label: str) -> bool:
        """Whether another segment reads what it puts out."""
        return label in self._ends

    def first(self, ready: Sequence[Ready]) -> Ready:
        """The steepest; what stands on no path costs next to nothing and frees what it takes."""
        return min(ready, key=self.rank)

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """How steep its segment is."""
        if picked.label not in self._slopes:
            return "it is on no path"
        return f"its chain frees {self._slopes[picked.label]:.3g} {self._unit} a second"

    def rank(self, ready: Ready) -> tuple[float, int, int]:
        """The lowest goes first."""
        return -self._slopes.get(ready.label, inf), ready.oldest, -ready.depth


def _measured(slope: float) -> float:
    """The digits of a slope that are not chance: else two branches that are alike would not go by the older page.

    >>> _measured(322580.6451612904) == _measured(322580.6451612903)
    True
    """
    return float(f"{slope:.6g}")
