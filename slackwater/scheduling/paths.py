"""Operator paths (S2 sections 3 and 5.1): from a plan, and what its operators cost, to the ways of the rows.

Each stream's rows have a way of their own, from the source to the end. A join of two streams lies on both. An
operator that several others read feeds them all, and each of them has an equal share in the room that its rows
take; so what a page takes is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from slackwater.scheduling.chart import ProgressChart, Step, chart

#: Seconds a row of an operator that nothing is known of, if nothing is known of the others either.
_SOME = 1e-6


@dataclass(frozen=True, slots=True)
class Work:
    """An operator of the plan, as far as charts depend on it."""

    inputs: tuple[str, ...] = ()
    """The operators that feed it; a source has none."""
    cost: float | None = None
    """Seconds a row that comes in; None before it is measured."""
    selectivity: float | None = None
    """Rows out for each row in; None counts as 1."""
    growth: float | None = None
    """Bytes out for each byte in; None where bytes are not known, then rows count."""
    width: float | None = None
    """Bytes a row that comes in; None where they are not known."""
    longest: float = 0.0
    """Seconds of its longest run of late."""


#: The operators of all plans by label, feeders first. What feeds several is one operator.
Plan = Mapping[str, Work]


class Fed(Protocol):
    """An operator of a plan that says what feeds it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The labels of its feeders."""
        ...


def readers(plan: Mapping[str, Fed]) -> dict[str, list[str]]:
    """The operators that each one feeds."""
    fed: dict[str, list[str]] = {label: [] for label in plan}
    for label, work in plan.items():
        for below in dict.fromkeys(work.inputs):
            fed[below].append(label)
    return fed


def unit(plan: Plan) -> Literal["bytes", "rows"]:
    """What sizes are counted in: bytes if those of all streams' rows are known."""
    return "bytes" if all(work.width for work in plan.values() if not work.inputs) else "rows"


def trees(plan: Plan) -> dict[str, Step]:
    """For each source the way of its rows, which branches where several operators read the same."""
    known, fed = _filled(plan), readers(plan)
    in_bytes = unit(plan) == "bytes"
    made: dict[str, Step] = {}
    for source in (label for label, work in plan.items() if not work.inputs):
        width = (plan[source].width or 1.0) if in_bytes else 1.0
        first = made[source] = Step(source, 0.0, width)
        rows, reached = {source: 1.0}, [first]
        for step in reached:
            work, behind = known[step.label], fed[step.label]
            step.seconds = _cost(work) * rows[step.label]
            step.left = step.taken * _size(work, in_bytes) if behind else 0.0
            for label in behind:
                if label not in rows:
                    rows[label] = rows[step.label] * rows_out(work)
                    step.then.append(Step(label, 0.0, step.left / len(behind)))
            reached += step.then
    return made


def paths(plan: Plan) -> list[ProgressChart]:
    """A chart for each way from a source to an end of the plan, for a person; sizes are shares of what came in."""
    charts = []
    for first in trees(plan).values():
        begun = [([first.label], [(0.0, 1.0)], first, 1.0)]
        for labels, points, step, share in begun:
            left = step.left / (first.taken * share)
            points.append((points[-1][0] + step.seconds, left))
            if not step.then:
                charts.append(chart(labels, points))
            for behind in step.then:
                part = share * behind.taken / step.left if step.left else share
                begun.append(([*labels, behind.label], list(points), behind, part))
    return charts


def remaining(plan: Plan) -> dict[str, float]:
    """Seconds of work that a row before each operator brings with it, to the end of all its paths."""
    known, fed, seconds = _filled(plan), readers(plan), dict[str, float]()
    for label in reversed(list(plan)):
        work = known[label]
        seconds[label] = _cost(work) + rows_out(work) * sum(seconds[behind] for behind in fed[label])
    return seconds


def _filled(plan: Plan) -> dict[str, Work]:
    """The plan with the mean cost for the operators that nothing is known of."""
    costs = [work.cost for work in plan.values() if work.cost is not None]
    usual = sum(costs) / len(costs) if costs else _SOME
    return {
        label: work
        if work.cost is not None
        else Work(work.inputs, usual, work.selectivity, work.growth, work.width, work.longest)
        for label, work in plan.items()
    }


def _cost(work: Work) -> float:
    assert work.cost is not None
    return work.cost


def rows_out(work: Work) -> float:
    """Rows out for each in; what comes from a source goes to all its readers."""
    return 1.0 if work.selectivity is None or not work.inputs else work.selectivity


def _size(work: Work, in_bytes: bool) -> float:
    if in_bytes and work.growth is not None and work.inputs:
        return work.growth
    return rows_out(work)
