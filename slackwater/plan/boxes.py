"""A plan as boxes with lines of text and arrows between them, for pictures."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from slackwater.plan.node import PlanNode, walk


@dataclass(frozen=True)
class Box:
    """One operator: its label, what is said of it, and the labels of those that feed it."""

    label: str
    lines: tuple[str, ...]
    feeds: tuple[str, ...]

    def wrapped(self, width: int) -> list[str]:
        """The lines, none longer than this; nothing is left out."""
        return [part for text in self.lines for part in textwrap.wrap(text, width, subsequent_indent="  ")]


def boxes_of_plan(plan: PlanNode) -> list[Box]:
    """The nodes of a plan, inputs first; results as rows are no step of their own."""
    labels: dict[int, str] = {}
    boxes = list[Box]()
    for node in walk(plan):
        feeds = tuple(labels[id(below)] for below in node.inputs)
        if not node.shown:
            labels[id(node)] = feeds[0]
            continue
        text = node.describe()
        labels[id(node)] = f"{len(boxes) + 1} {text.split(maxsplit=1)[0]}"
        boxes.append(Box(labels[id(node)], tuple(text.splitlines()), feeds))
    return boxes
