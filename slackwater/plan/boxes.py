"""A plan as boxes with lines of text and arrows between them, for pictures."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from slackwater.plan.node import PlanNode, walk


@dataclass(frozen=True)
class Box:
    """One operator: its label, its description, and the labels of the operators that feed it."""

    label: str
    lines: tuple[str, ...]
    feeds: tuple[str, ...]

    def wrapped(self, width: int) -> list[str]:
        """The lines, wrapped at this width."""
        return [part for text in self.lines for part in textwrap.wrap(text, width, subsequent_indent="  ")]


def boxes_of_plan(plan: PlanNode) -> list[Box]:
    """The nodes of a plan, inputs first, without steps that are not shown."""
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
