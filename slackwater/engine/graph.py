"""The graph that runs: operators as nodes, queues as arcs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.queue import Entry, Queue
from slackwater.errors import RunError
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN, Operator


@dataclass
class Node:
    """An operator with its arcs."""

    operator: Operator
    inputs: list[Queue]
    """Arcs that come in, then the operator's own shelves."""
    feeds: list[str | None]
    """Label of the operator behind each arc that comes in; None for an inbox."""
    depth: int
    outputs: dict[str, list[tuple[str, Queue]]] = field(default_factory=dict)
    """Arcs that leave, by port, with the label of the operator that each leads to."""
    behind_answers: bool = False
    """Whether what waits here may have been an answer: it must not wait at a commit."""

    @property
    def label(self) -> str:
        """The operator's label."""
        return self.operator.label

    def ready(self) -> bool:
        """Whether the operator can run."""
        return self.operator.more(self.inputs)

    def oldest(self) -> int:
        """Admission of the oldest element that waits on an arc; what is set aside makes nobody hurry."""
        arcs = self.inputs[: len(self.feeds)]
        return min(q.oldest for q in (arcs if any(map(len, arcs)) else self.inputs) if len(q))

    def prodded(self) -> bool:
        """Whether a prod waits: it goes before what is older on other arcs."""
        return any(q.prods for q in self.inputs)

    def send(self, element: Element, admission: int, port: str = MAIN, saved: dict[str, Any] | None = None) -> None:
        """Put an element on every arc that leaves by a port."""
        for _, queue in self.outputs.get(port, ()):
            queue.push(Entry(element, admission, saved))


class Graph:
    """Operators by label, in the order they were added: feeders first."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __contains__(self, label: str) -> bool:
        return label in self.nodes

    def add(self, operator: Operator, feeds: Sequence[tuple[str, str]] = ()) -> Node:
        """Add an operator behind the ports of others; without any it gets an inbox for admitted pages."""
        if operator.label in self.nodes:
            raise RunError(f"there is already an operator {operator.label!r}")
        depth = 1 + max((self.nodes[label].depth for label, _ in feeds), default=-1)
        labels: list[str | None] = [label for label, _ in feeds] or [None]
        behind = operator.takes_answers or any(self.nodes[label].behind_answers for label, _ in feeds)
        queues = [Queue() for _ in range(len(labels) + operator.shelves)]
        node = Node(operator, queues, labels, depth, behind_answers=behind)
        for queue, (label, port) in zip(node.inputs, feeds, strict=False):
            self.nodes[label].outputs.setdefault(port, []).append((operator.label, queue))
        self.nodes[operator.label] = node
        return node

    def remove(self, label: str) -> None:
        """Take an operator out, with the arcs that lead to it."""
        del self.nodes[label]
        for node in self.nodes.values():
            for port, arcs in node.outputs.items():
                node.outputs[port] = [(to, queue) for to, queue in arcs if to != label]

    def sources_behind(self, node: Node, inputs: Sequence[int]) -> Iterator[Node]:
        """Backtrack (S3 section 3.2): the inboxes that feed these inputs."""
        for n in inputs:
            label = node.feeds[n]
            if label is None:
                yield node
            else:
                feeder = self.nodes[label]
                yield from self.sources_behind(feeder, range(len(feeder.feeds)))

    def behind(self, label: str) -> list[str]:
        """The operator and all that feed it, back to the sources."""
        feeds = [feed for feed in self.nodes[label].feeds if feed is not None]
        return [label, *(found for feed in feeds for found in self.behind(feed))]

    def arcs(self) -> Iterator[tuple[str, Queue]]:
        """Every queue with a name that is the same after a restart."""
        for node in self:
            for n, queue in enumerate(node.inputs):
                yield f"{node.label}#{n}", queue
