"""Progress charts for people, as text or as an SVG picture: circles are operators, dashes the lower envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import QueryError
from slackwater.scheduling.chart import ProgressChart
from slackwater.scheduling.paths import PathWork, paths
from slackwater.svg import document, line, tag, text

_COLUMNS, _LINES = 60, 11
_WIDTH, _HEIGHT, _EDGE, _LINE = 560, 200, 44, 16


def explain_charts(operators: Mapping[str, Mapping[str, Any]], format: str = "text") -> str:
    """The charts of a running query, by the figures of its operators (as in `run.metrics()["operators"]`)."""
    drawn = {"text": charts_as_text, "svg": charts_as_svg}.get(format)
    if drawn is None:
        raise QueryError(f"format={format!r}: a progress chart is drawn as 'text' or 'svg'")
    charted = {label: figures for label, figures in operators.items() if figures["charted"]}
    plan = {
        label: PathWork(tuple(feed for feed in figures["feeds"] if feed in charted), **figures["charted"])
        for label, figures in charted.items()
    }
    return drawn(paths(plan))


def charts_as_text(charts: Sequence[ProgressChart]) -> str:
    """Each chart, and the operators of each segment."""
    return "\n\n".join("\n".join([_title(chart), *_plot(chart), *_segments(chart)]) for chart in charts)


def charts_as_svg(charts: Sequence[ProgressChart]) -> str:
    """The charts one below the other, as a document of its own."""
    parts, top = list[str](), 0
    for chart in charts:
        drawn, height = _drawn(chart, top)
        parts += drawn
        top += height
    return document(_WIDTH + 2 * _EDGE, top, parts)


def _title(chart: ProgressChart) -> str:
    return f"progress chart of {chart.labels[0]} to {chart.labels[-1]}"


def _segments(chart: ProgressChart) -> list[str]:
    """A line for each segment: where it ends, and how steep it is."""
    lines, begin = list[str](), 0
    for end, slope in zip(chart.ends, chart.slopes, strict=True):
        seconds, size = chart.points[end]
        chained = ", ".join(chart.labels[begin:end])
        lines.append(
            f"chain {len(lines) + 1}: {chained}; {100 * size:.3g} % left after {seconds * 1e6:.3g} µs a row; "
            f"frees {100 * slope / 1e6:.3g} % a µs"
        )
        begin = end
    return lines


def _ends(chart: ProgressChart) -> tuple[float, float]:
    """The longest time and the largest size, none of them 0."""
    return chart.points[-1][0] or 1.0, max(size for _, size in chart.points)


def _corners(chart: ProgressChart) -> list[tuple[float, float]]:
    """The progress line: a row keeps its size until an operator is done with it."""
    corners = [chart.points[0]]
    for (_, before), (time, size) in zip(chart.points, chart.points[1:], strict=False):
        corners += [(time, before), (time, size)]
    return corners


def _plot(chart: ProgressChart) -> list[str]:
    """Rows of characters: `─` the progress line, `·` the envelope, `o` an operator."""
    longest, largest = _ends(chart)
    cells = [[" "] * (_COLUMNS + 1) for _ in range(_LINES)]

    def place(time: float, size: float) -> tuple[int, int]:
        return round((1 - size / largest) * (_LINES - 1)), round(time / longest * _COLUMNS)

    for (begin, size), (end, left) in zip(chart.envelope, chart.envelope[1:], strict=False):
        first, last = place(begin, size)[1], place(end, left)[1]
        for column in range(first, last + 1):
            share = (column - first) / max(1, last - first)
            cells[place(0, size + (left - size) * share)[0]][column] = "·"
    for (begin, size), (end, _) in zip(chart.points, chart.points[1:], strict=False):
        line = place(begin, size)[0]
        for column in range(place(begin, size)[1], place(end, size)[1]):
            cells[line][column] = "─"
    for time, size in chart.points:
        line, column = place(time, size)
        cells[line][column] = "o"
    edges = [f"{100 * largest:5.3g} % │", *[" " * 7 + " │"] * (_LINES - 2), "    0 % │"]
    plotted = [f"{edge}{''.join(row).rstrip()}" for edge, row in zip(edges, cells, strict=True)]
    scale = f"{longest * 1e6:.3g} µs a row"
    return [*plotted, " " * 8 + "└" + "─" * _COLUMNS, " " * 9 + "0" + scale.rjust(_COLUMNS - 1)]


def _drawn(chart: ProgressChart, top: int) -> tuple[list[str], int]:
    longest, largest = _ends(chart)
    base = top + _EDGE + _HEIGHT

    def places(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(_EDGE + time / longest * _WIDTH, base - size / largest * _HEIGHT) for time, size in points]

    parts = [
        text(_EDGE, top + 20, _title(chart), class_="label"),
        line([(_EDGE, top + _EDGE), (_EDGE, base), (_EDGE + _WIDTH, base)]),
        line(places(_corners(chart))),
        line(places(chart.envelope), class_="envelope"),
        *(tag("circle", cx=x, cy=y, r=4) for x, y in places(chart.points)),
    ]
    lines = [f"{longest * 1e6:.3g} µs a row, {100 * largest:.3g} % at most", *_segments(chart)]
    parts += [text(_EDGE, base + _LINE * (n + 1) + 4, words) for n, words in enumerate(lines)]
    return parts, _EDGE + _HEIGHT + _LINE * (len(lines) + 2)
