"""Elements of SVG pictures as text."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

#: The style of pictures that are documents of their own.
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b2733}.label{font-weight:bold}"
    "rect{fill:#eef4f8;stroke:#5b7f95}path{fill:none;stroke:#5b7f95}.head{fill:#5b7f95;stroke:none}"
    ".envelope{stroke:#c8553d;stroke-dasharray:5 4}circle{fill:#5b7f95}"
)


def tag(name: str, *inside: str, **attributes: str | float) -> str:
    """An element; `class_` is class, and `text_anchor` is text-anchor.

    >>> tag("text", "a", x=1.25, class_="label")
    '<text x="1.2" class="label">a</text>'
    >>> tag("rect", width=5)
    '<rect width="5"/>'
    """
    written = "".join(f" {key.strip('_').replace('_', '-')}={_value(v)}" for key, v in attributes.items())
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def text(x: float, y: float, words: str, **attributes: str | float) -> str:
    """Words that begin at a place, end there, or are centred on it."""
    return tag("text", escape(words), x=x, y=y, **attributes)


def line(points: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    """A line through all points."""
    return tag("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), **attributes)


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """A picture that is a document of its own."""
    inside = "\n".join(["", tag("style", _STYLE), *parts, ""])
    xmlns, box = "http://www.w3.org/2000/svg", f"0 0 {width:.0f} {height:.0f}"
    return tag("svg", inside, xmlns=xmlns, width=round(width), height=round(height), viewBox=box)


def _value(value: str | float) -> str:
    return quoteattr(f"{value:.1f}" if isinstance(value, float) else str(value))
