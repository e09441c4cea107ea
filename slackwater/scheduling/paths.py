"""Operator paths (S2 sections 3 and 5.1): from a plan, and what its operators cost, to the ways of the rows.

Each stream's rows have a way of their own, from the source to the end. A join of two streams lies on both. An
operator that several others read feeds them all, and each of them has an equal share in the room that its rows
take; so what a page takes is counted once. What each makes of them takes room of its own. Where branches of one
stream meet again, rows come on each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from slackwater.scheduling.chart import PathStep, ProgressChart, chart

#: Seconds a row of an operator that nothing is known of, if nothing is known of the others either.
_SOME = 1e-6
#: Charts that a person can look at.
MOST_PATHS = 100


@dataclass(frozen=True, slots=True)
class PathWork:
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
    """Seconds of its longest recent run."""


#: The operators of all plans by label, feeders first. What feeds several is one operator.
Plan = Mapping[str, PathWork]


class PlanOperator(Protocol):
    """An operator of a plan that says what feeds it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The labels of its feeders."""


def readers(plan: Mapping[str, PlanOperator]) -> dict[str, list[str]]:
    """The operators that each one feeds."""
    fed: dict[str, list[str]] = {label: [] for label in plan}
    for label, work in plan.items():
        for below in dict.fromkeys(work.inputs):
            fed[below].append(label)
    return fed


def unit(plan: Plan) -> Literal["bytes", "rows"]:
    """What sizes are counted in: bytes if those of all streams' rows are known."""
    return "bytes" if all(work.width for work in plan.values() if not work.inputs) else "rows"


def ways(plan: Plan) -> dict[str, PathStep]:
    """For each source the way of its rows. It branches where several read the same; branches may meet again."""
    known, fed = _filled(plan), readers(plan)
    in_bytes = unit(plan) == "bytes"
    made: dict[str, PathStep] = {}
    for source in (label for label, work in plan.items() if not work.inputs):
        width = (plan[source].width or 1.0) if in_bytes else 1.0
        steps, rows, whole = {source: PathStep(source, 0.0, width)}, {source: 1.0}, {source: width}
        for label, work in known.items():
            before = [steps[feeder] for feeder in dict.fromkeys(work.inputs) if feeder in steps]
            if before:
                come = {step.label: rows[step.label] * rows_out(known[step.label]) for step in before}
                sizes = {step.label: step.left for step in before}
                rows[label], whole[label] = sum(come.values()), sum(sizes.values())
                room = {step.label: step.left / len(fed[step.label]) for step in before}
                taken = sum(room.values())
                steps[label] = behind = PathStep(label, 0.0, taken)
                for step in before:
                    step.then.append(behind)
                if len(before) > 1:
                    parts = zip(room, _shares(come.values()), _shares(sizes.values()), strict=True)
                    behind.shares = {
                        f: (of_rows, of_size, room[f] - taken * of_size) for f, of_rows, of_size in parts
                    }
            if label in steps:
                step = steps[label]
                step.seconds = _cost(work) * rows[label]
                # Whoever else reads the same rows, what it makes of them takes room of its own.
                step.left = whole[label] * _size(work, in_bytes) if fed[label] else 0.0
        made[source] = steps[source]
    return made


def _shares(parts: Collection[float]) -> list[float]:
    """What each part is of the whole; equal shares of nothing."""
    whole = sum(parts)
    return [part / whole if whole else 1 / len(parts) for part in parts]


def paths(plan: Plan) -> list[ProgressChart]:
    """A chart for each way from a source to an end of the plan, for a person; sizes are shares of what came in.

    Branches that meet again and again have very many ways: the first `MOST_PATHS` are drawn.
    """
    known, fed, in_bytes = _filled(plan), readers(plan), unit(plan) == "bytes"
    charts = list[ProgressChart]()
    begun = [([source], [(0.0, 1.0)], 1.0) for source in reversed([*plan]) if not plan[source].inputs]
    while begun and len(charts) < MOST_PATHS:
        labels, points, rows = begun.pop()
        work, behind = known[labels[-1]], fed[labels[-1]]
        (seconds, size) = points[-1]
        points = [*points, (seconds + _cost(work) * rows, size * _size(work, in_bytes) if behind else 0.0)]
        if not behind:
            charts.append(chart(labels, points))
        begun += [([*labels, label], points, rows * rows_out(work)) for label in reversed(behind)]
    return charts


def remaining(plan: Plan) -> dict[str, float]:
    """Seconds of work that a row before each operator brings with it, to the end of all its paths."""
    known, fed, seconds = _filled(plan), readers(plan), dict[str, float]()
    for label in reversed(list(plan)):
        work = known[label]
        seconds[label] = _cost(work) + rows_out(work) * sum(seconds[behind] for behind in fed[label])
    return seconds


def _filled(plan: Plan) -> dict[str, PathWork]:
    """The plan with the mean cost for the operators that nothing is known of."""
    costs = [work.cost for work in plan.values() if work.cost is not None]
    usual = sum(costs) / len(costs) if costs else _SOME
    return {
        label: work
        if work.cost is not None
        else PathWork(work.inputs, usual, work.selectivity, work.growth, work.width, work.longest)
        for label, work in plan.items()
    }


def _cost(work: PathWork) -> float:
    assert work.cost is not None
    return work.cost


def rows_out(work: PathWork) -> float:
    """Rows out for each in; what comes from a source goes to all its readers."""
    return 1.0 if work.selectivity is None or not work.inputs else work.selectivity


def _size(work: PathWork, in_bytes: bool) -> float:
    return work.growth if in_bytes and work.growth is not None and work.inputs else rows_out(work)
