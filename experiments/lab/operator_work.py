"""S2's formulas for what the engine measures instead: the cost of a join, and the memory that a bound may cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random

from slackwater.scheduling.chain import BoundedChain, Chain
from slackwater.scheduling.chart import in_order
from slackwater.scheduling.paths import PathWork, Plan, remaining, rows_out, ways


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a join, as S2 section 5.1 has it."""

    rate: float
    """Rows that come in a second."""
    matches: float
    """Rows of the other side's window that a row meets; the paper's alpha."""
    cost: float
    """Seconds that a row of this side takes."""


def join(inputs: Sequence[str], sides: Sequence[Side]) -> PathWork:
    """The cost and the selectivity of a join of windows by its sides.

    >>> made = join(("r", "s"), (Side(30, 2, 1e-6), Side(10, 4, 3e-6)))
    >>> made.selectivity, f"{made.cost:.1e}"
    (2.5, '1.5e-06')
    """
    rate = sum(side.rate for side in sides)
    rows = sum(side.rate * side.matches for side in sides)
    seconds = sum(side.rate * side.cost for side in sides)
    return PathWork(tuple(inputs), seconds / rate, rows / rate)


def memory_factor(plan: Plan) -> float:
    """How much more room work takes at one operator than at another: the size that waits for a second of it.

    No strategy that never rests can need more than this times the memory of another: both have the same work
    before them.
    """
    seconds, dense = remaining(plan), list[float]()
    for first in ways(plan).values():
        rows = defaultdict[str, float](float, {first.label: 1.0})
        for step in in_order(first):
            for behind in step.then:
                rows[behind.label] += rows[step.label] * rows_out(plan[step.label])
            work = seconds[step.label] * rows[step.label]
            if work > 0 and step.taken > 0:
                dense.append(step.taken / work)
    return max(dense) / min(dense) if dense else 1.0


class FactoredChain(BoundedChain):
    """A bounded Chain that says how much more memory it may take than Chain."""

    factor = 1.0

    def learn(self, plan: Plan) -> None:
        """Chart the plan anew."""
        super().learn(plan)
        self.factor = memory_factor(plan)


class MisledChain(Chain):
    """Chain, when each cost and each selectivity is estimated wrongly, by up to a factor, up or down."""

    def __init__(self, factor: float, seed: int) -> None:
        super().__init__()
        self.name = f"chain, misled by {factor:g}"
        self._log, self._seed = log(factor), seed

    def learn(self, plan: Plan) -> None:
        """An operator is misjudged in the same way whenever the plan is charted."""
        super().learn({label: self._misjudged(label, work) for label, work in plan.items()})

    def _misjudged(self, label: str, work: PathWork) -> PathWork:
        random = Random(f"{self._seed} {label}")
        cost, left = (exp(random.uniform(-self._log, self._log)) for _ in range(2))
        return replace(
            work,
            cost=None if work.cost is None else work.cost * cost,
            selectivity=None if work.selectivity is None else work.selectivity * left,
            growth=None if work.growth is None else work.growth * left,
        )
