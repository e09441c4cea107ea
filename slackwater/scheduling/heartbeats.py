"""Heartbeats in query plans (S1 section 7): the streams whose heartbeats an operator waits for.

Each operator has a label, a set of streams. A page may wait before it until the least of their heartbeats reaches
the page's rows. Labels are assigned for the whole plan now and then. Each operator looks at its own label alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol

from slackwater.calls import called
from slackwater.choices import Choices
from slackwater.scheduling.paths import readers

#: A stream as a query reads it: its source, and the port of the disorder policy.
Stream = tuple[str, str]
Streams = frozenset[Stream]

#: A chain that gives hardly more rows than it takes is not worth waiting for; measured selectivities are a bit off.
_ONE = 1.02


@dataclass(frozen=True, slots=True)
class PlanStep:
    """An operator of the plan, as far as labels depend on it."""

    inputs: tuple[str, ...] = ()
    """The operators that feed it; sources are none."""
    streams: Streams = frozenset()
    """The streams that it reads itself."""
    ordered: bool = True
    """Whether its rows wait until time has reached them. Others take rows in any order (S1 section 7.5)."""
    selectivity: float | None = None
    """Rows out for each row in; None, which counts as 1, before it is measured."""


#: The operators of all plans by label, feeders first. What feeds several is one operator.
Plan = Mapping[str, PlanStep]


@dataclass(frozen=True, slots=True)
class StreamLabel:
    """The streams of an operator, and whether its pages wait for all of them.

    If they do not, the operator looks at its own inputs alone.
    """

    streams: Streams = frozenset()
    waits: bool = False


class Heartbeats(Protocol):
    """Assigns labels."""

    name: ClassVar[str]

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        """A label for each operator; it has the streams below the operator, and perhaps more."""


#: The levels that users can name; each adds itself.
HEARTBEATS = Choices[Heartbeats]("heartbeat_scope", "level of heartbeats")


class OperatorLevel:
    """Section 7.2: each operator looks at the heartbeats of its own inputs, and no page waits for more."""

    name: ClassVar[str] = "operator level"

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        """The streams below each operator.

        >>> a, b = ("a", "main"), ("b", "main")
        >>> plan = {"below": PlanStep((), frozenset({a})), "top": PlanStep(("below",), frozenset({b}))}
        >>> {label: len(of.streams) for label, of in OperatorLevel().labels(plan).items()}
        {'below': 1, 'top': 2}
        """
        return {label: StreamLabel(streams) for label, streams in streams_below(plan).items()}


class MemoryAware:
    """Sections 7.3 and 7.4: an operator that multiplies rows waits until they can go on to where they get fewer.

    AssignLabels of Figure 6. A memory link leads from each operator to its lowest ancestor such that the chain of
    both, and all between, gives no more rows than it takes. Nothing is gained where no operator on the way lets
    rows wait (section 7.5): so a link ends at the last one that does, and without one there is no link. An operator
    that feeds several has the streams that the labels for all of them have in common.
    """

    name: ClassVar[str] = "memory-aware"

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        """The label of what an operator feeds if a memory link leads there from it or from below it; else its own.

        >>> s1, s2, s3 = ((name, "main") for name in ("S1", "S2", "S3"))
        >>> def figure_5(selectivity):
        ...     o1 = PlanStep((), frozenset({s1, s2}), selectivity=selectivity)
        ...     return {"O1": o1, "O2": PlanStep(("O1",), frozenset({s3}))}
        >>> sorted(name for name, _ in MemoryAware().labels(figure_5(4.0))["O1"].streams)
        ['S1', 'S2', 'S3']
        >>> sorted(name for name, _ in MemoryAware().labels(figure_5(0.5))["O1"].streams)
        ['S1', 'S2']
        """
        below, above, streams = streams_below(plan), readers(plan), dict[str, Streams]()
        rising, needed = _rising(plan), _needed(plan, above)
        for label in reversed(list(plan)):
            linked = (streams[r] if rising[label] > needed[r] else below[label] for r in above[label])
            streams[label] = common_streams(list(linked) or [below[label]])
        return {label: StreamLabel(names, names != below[label]) for label, names in streams.items()}


def streams_below(plan: Plan) -> dict[str, Streams]:
    """The streams that each operator's rows come from."""
    streams: dict[str, Streams] = {}
    for label, step in plan.items():
        streams[label] = step.streams.union(*(streams[i] for i in step.inputs))
    return streams


def _rising(plan: Plan) -> dict[str, float]:
    """The most rows that a chain gives for each that it takes, of the chains that rise all the way to an operator.

    A chain begins anywhere below. It rises as long as its selectivity, multiplied up to there, is above 1.
    """
    most: dict[str, float] = {}
    for label, step in plan.items():
        open_chains = (most[i] for i in step.inputs if most[i] > _ONE)
        most[label] = _selectivity(step) * max(open_chains, default=1.0)
    return most


def _needed(plan: Plan, above: Mapping[str, list[str]]) -> dict[str, float]:
    """What a chain must have come to before an operator, to meet one that lets rows wait before it ends."""
    needed: dict[str, float] = {}
    for label in reversed(list(plan)):
        step, further = plan[label], max((needed[r] for r in above[label]), default=inf)
        selectivity = _selectivity(step)
        if step.ordered:
            needed[label] = _ONE
        else:
            needed[label] = max(_ONE, further / selectivity) if selectivity else inf
    return needed


def _selectivity(step: PlanStep) -> float:
    return 1.0 if step.selectivity is None else step.selectivity


def common_streams(labels: Iterable[Streams]) -> Streams:
    """The streams that all of them have."""
    first, *rest = labels
    return first.intersection(*rest)


@called()
def operator_level() -> OperatorLevel:
    """No page waits: each operator looks at its own inputs. The default of `Session(heartbeat_scope=…)`."""
    return OperatorLevel()


@called()
def memory_aware() -> MemoryAware:
    """Less memory: pages wait before operators that multiply rows. For `Session(heartbeat_scope=…)`."""
    return MemoryAware()


HEARTBEATS["operator_level"] = operator_level
HEARTBEATS["memory_aware"] = memory_aware
