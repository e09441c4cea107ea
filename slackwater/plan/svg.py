"""Boxes as an SVG picture: layers from the streams down to the answers, each box below all that feed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.plan.boxes import Box
from slackwater.svg import document, line, tag, text

#: In pixels. The width of a character is that of common monospaced fonts.
_CHARACTER, _LINE, _PADDING, _GAP, _STEP = 7.3, 17, 10, 28, 46
_WIDTH = 64


@dataclass(frozen=True)
class _BoxPosition:
    box: Box
    lines: list[str]
    x: float
    y: float
    width: float
    height: float


def svg(boxes: Sequence[Box]) -> str:
    """The picture, as a document of its own."""
    placed = _placed(layers(boxes))
    width = max((p.x + p.width for p in placed.values()), default=0) + _GAP
    height = max((p.y + p.height for p in placed.values()), default=0) + _GAP
    arrows = [_arrow(placed[feed], p) for p in placed.values() for feed in p.box.feeds if feed in placed]
    return document(width, height, [*arrows, *map(_drawn, placed.values())])


def layers(boxes: Sequence[Box]) -> list[list[Box]]:
    """The boxes of each layer: below all that feed them, and in the order of those."""
    by_label = {box.label: box for box in boxes}
    depth: dict[str, int] = {}

    def depth_of(box: Box) -> int:
        if box.label not in depth:
            depth[box.label] = 1 + max((depth_of(by_label[f]) for f in box.feeds if f in by_label), default=-1)
        return depth[box.label]

    layers_of_boxes: list[list[Box]] = [[] for _ in range(1 + max((depth_of(b) for b in boxes), default=-1))]
    for box in boxes:
        layers_of_boxes[depth[box.label]].append(box)
    place: dict[str, float] = {}
    for layer in layers_of_boxes:
        layer.sort(key=lambda b: _mean([place[f] for f in b.feeds if f in place]))
        place.update({box.label: n / max(1, len(layer) - 1) for n, box in enumerate(layer)})
    return layers_of_boxes


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _placed(layers: list[list[Box]]) -> dict[str, _BoxPosition]:
    sizes = {box.label: _size(box) for layer in layers for box in layer}
    widths = [sum(sizes[b.label][1] for b in layer) + _GAP * (len(layer) - 1) for layer in layers]
    whole, y = max(widths, default=0.0), float(_GAP)
    placed: dict[str, _BoxPosition] = {}
    for layer, width in zip(layers, widths, strict=True):
        x = _GAP + (whole - width) / 2
        for box in layer:
            lines, own, height = sizes[box.label]
            placed[box.label] = _BoxPosition(box, lines, x, y, own, height)
            x += own + _GAP
        y += max(sizes[b.label][2] for b in layer) + _STEP
    return placed


def _size(box: Box) -> tuple[list[str], float, float]:
    lines = box.wrapped(_WIDTH)
    longest = max(len(text) for text in [box.label, *lines])
    return lines, longest * _CHARACTER + 2 * _PADDING, (1 + len(lines)) * _LINE + 2 * _PADDING


def _drawn(p: _BoxPosition) -> str:
    frame = tag("rect", x=p.x, y=p.y, width=p.width, height=p.height, rx=5)
    lines = [(p.box.label, {"class_": "label"}), *((words, {"xml:space": "preserve"}) for words in p.lines)]
    texts = [
        text(p.x + _PADDING, p.y + _PADDING + (n + 0.75) * _LINE, words, **style)
        for n, (words, style) in enumerate(lines)
    ]
    return "\n".join([frame, *texts])


def _arrow(above: _BoxPosition, below: _BoxPosition) -> str:
    x0, y0 = above.x + above.width / 2, above.y + above.height
    x1, y1 = below.x + below.width / 2, below.y
    middle = (y0 + y1) / 2
    shaft = f"M{x0:.1f},{y0:.1f} C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1 - 6:.1f}"
    return tag("path", d=shaft) + line([(x1 - 4, y1 - 8), (x1 + 4, y1 - 8), (x1, y1)], class_="head")
