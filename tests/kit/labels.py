"""The levels of heartbeats (S1 section 7), and labels at random: whatever pages wait for, results are the same."""

from __future__ import annotations

import random
from typing import ClassVar

import slackwater as sw
from slackwater.scheduling.heartbeats import Heartbeats, Plan, StreamLabel, streams_below


class AnyLabels:
    """Each operator waits for the streams below it and for some others; other ones in another plan."""

    name: ClassVar[str] = "any labels"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        below, chance = streams_below(plan), random.Random(f"{self._seed} {sorted(plan)} {_measured(plan)}")
        every = sorted(frozenset().union(*below.values()))
        some = {label: chance.sample(every, chance.randint(0, len(every))) for label in plan}
        return {
            label: StreamLabel(below[label] | frozenset(some[label]), bool(below[label]) and chance.random() < 0.7)
            for label in plan
        }


def _measured(plan: Plan) -> list[float | None]:
    return [step.selectivity for step in plan.values()]


LEVELS: list[Heartbeats] = [sw.operator_level(), sw.papers.query_level(), sw.memory_aware(), AnyLabels(1)]
