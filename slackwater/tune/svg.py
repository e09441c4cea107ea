"""Plots as SVG, by a few small functions: bars, lines, dots and marks over linear or logarithmic axes.

Colours are classes, so that the page says what they are by day and by night.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from slackwater.svg import line, tag, text

_WIDTH, _HEIGHT = 680, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 16, 14, 48
#: Texts below the x axis are so far apart at least.
_APART = 74


@dataclass(frozen=True)
class Axis:
    """From the least value to the most; `show` gives the text of a value."""

    least: float
    most: float
    label: str
    show: Callable[[float], str]
    log: bool = False
    marks: tuple[float, ...] = ()
    """Where the marks are; where there are none, some are chosen."""
    steps: tuple[float, ...] = ()
    """Distances of marks that read well, where tens do not."""

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1; what is outside lies at the edge.

        >>> Axis(1, 100, "", str, log=True).place(10)
        0.5
        """
        low, high, at = self.least, self.most, min(max(value, self.least), self.most)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (at - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """The marks that lie inside."""
        if self.marks:
            return [m for m in self.marks if self.least <= m <= self.most]
        if self.log:
            first, last = math.ceil(math.log10(self.least) - 1e-9), math.floor(math.log10(self.most) + 1e-9)
            return [10.0**k for k in range(first, last + 1, max(1, (last - first) // 6))]
        span = self.most - self.least
        tens = 10.0 ** math.floor(math.log10(span / 3 or 1))
        step = next((s for s in (*self.steps, *(tens * f for f in (1, 2, 5, 10))) if span / s <= 6), span)
        first = math.ceil(self.least / step)
        return [k * step for k in range(first, math.floor(self.most / step) + 1)]


@dataclass
class Plot:
    """A plot in the making."""

    x: Axis
    y: Axis
    title: str
    height: int = _HEIGHT
    _parts: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str]] = field(default_factory=list)
    _marks: list[float] = field(default_factory=list)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        inner = self.height - _TOP - _BOTTOM
        across = _LEFT + self.x.place(x) * (_WIDTH - _LEFT - _RIGHT)
        return across, _TOP + (1 - self.y.place(y)) * inner

    def bars(self, bars: Sequence[tuple[float, float, float]], kind: str) -> None:
        """Each from one x to another, so high."""
        floor = self.height - _BOTTOM
        for left, right, value in bars:
            if value > 0:
                (x0, y), (x1, _) = self._at(left, value), self._at(right, value)
                wide = max(0.8, x1 - x0 - 0.8)
                self._parts.append(tag("rect", class_=kind, x=x0, y=y, width=wide, height=floor - y))

    def line(self, points: Sequence[tuple[float, float | None]], kind: str, name: str = "") -> None:
        """Through all points; it is broken where a value is missing."""
        path, pen = [], "M"
        for x, y in points:
            if y is None:
                pen = "M"
                continue
            across, down = self._at(x, y)
            path.append(f"{pen}{across:.1f} {down:.1f}")
            pen = "L"
        self._parts.append(tag("path", class_=f"{kind} line", d=" ".join(path)))
        self.named(name, kind)

    def dot(self, x: float, y: float, kind: str, words: str = "") -> None:
        """A point, and what it is."""
        across, down = self._at(x, y)
        title = tag("title", escape(words))
        self._parts.append(tag("circle", title, class_=kind, cx=across, cy=down, r=4.5))

    def mark(self, x: float, words: str) -> None:
        """A line from top to bottom; its text is on the left near the right edge, and below those near to it."""
        across, _ = self._at(x, self.y.least)
        below = 20 * sum(abs(across - other) < 2 * _APART for other in self._marks)
        self._marks.append(across)
        side, anchor = (1, "start") if across < _WIDTH * 0.8 else (-1, "end")
        self._parts.append(line([(across, _TOP), (across, self.height - _BOTTOM)], class_="mark"))
        self._parts.append(text(across + 3 * side, _TOP + 9 + below, words, text_anchor=anchor))

    def named(self, name: str, kind: str) -> None:
        """An entry of the legend."""
        if name and (name, kind) not in self._legend:
            self._legend.append((name, kind))

    def svg(self) -> str:
        """The plot as an element of a page."""
        legend = "".join(
            f'<span class="key"><i class="{kind}"></i>{escape(name)}</span>' for name, kind in self._legend
        )
        return (
            f"<figure><figcaption>{escape(self.title)}</figcaption>"
            f'<svg viewBox="0 0 {_WIDTH} {self.height}" role="img" aria-label="{escape(self.title)}">'
            f"{self._axes()}{''.join(self._parts)}</svg>{f'<p>{legend}</p>' if legend else ''}</figure>"
        )

    def _axes(self) -> str:
        floor, parts = self.height - _BOTTOM, []
        before = -math.inf
        for value in self.x.ticks():
            across, _ = self._at(value, self.y.least)
            if across - before < _APART:
                continue
            before = across
            # At the right edge half of the text would be cut off.
            at, anchor = (_WIDTH, "end") if across > _WIDTH - _APART / 2 else (across, "middle")
            parts.append(line([(across, _TOP), (across, floor)], class_="grid"))
            parts.append(text(at, floor + 19, self.x.show(value), text_anchor=anchor))
        for value in self.y.ticks():
            _, down = self._at(self.x.least, value)
            parts.append(line([(_LEFT, down), (_WIDTH - _RIGHT, down)], class_="grid"))
            parts.append(text(_LEFT - 6, down + 4, self.y.show(value), text_anchor="end"))
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        turned = f"translate(12 {(_TOP + floor) / 2:.0f}) rotate(-90)"
        parts.append(text(middle, self.height - 6, self.x.label, text_anchor="middle"))
        parts.append(text(0, 0, self.y.label, transform=turned, text_anchor="middle"))
        return "".join(parts)
