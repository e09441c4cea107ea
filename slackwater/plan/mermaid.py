"""Boxes as a mermaid flowchart, which many viewers of Markdown draw."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.plan.boxes import Box

_WIDTH = 60


def mermaid(boxes: Sequence[Box]) -> str:
    """A flowchart from the streams down to the answers.

    >>> print(mermaid([Box("a", ("stream a",), ()), Box("b", ("where x > 1",), ("a",))]))
    flowchart TD
      n0["<b>a</b><br/>stream a"]
      n1["<b>b</b><br/>where x #gt; 1"]
      n0 --> n1
    """
    names = {box.label: f"n{n}" for n, box in enumerate(boxes)}
    nodes = [f'  {names[b.label]}["<b>{_escaped(b.label)}</b><br/>{_text(b)}"]' for b in boxes]
    arrows = [f"  {names[feed]} --> {names[b.label]}" for b in boxes for feed in b.feeds if feed in names]
    return "\n".join(["flowchart TD", *nodes, *arrows])


def _text(box: Box) -> str:
    return "<br/>".join(_escaped(part) for part in box.wrapped(_WIDTH))


def _escaped(text: str) -> str:
    """Text in which mermaid finds no marks of its own."""
    marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}
    return "".join(marks.get(c, c) for c in text)
