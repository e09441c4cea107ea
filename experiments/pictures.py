"""Pictures of the experiments, as SVG: the same run gives the same file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import thesis

matplotlib.use("Agg")
from matplotlib import pyplot

_COLOURS = {"avg": "#1f77b4", "max": "#2ca02c", "sum": "#d62728", "count": "#9467bd"}
Points = list[dict[str, Any]]


def draw(curves: dict[str, Points], folder: Path) -> list[str]:
    """Draw what there are points for; gives the names of the files."""
    matplotlib.rcParams.update({"svg.hashsalt": "slackwater", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    made = []
    for name, needs, picture in (
        ("aggressiveness", "aggressiveness", _aggressiveness),
        ("gain", "aggressiveness", _gain),
        ("coverage", "estimates", _coverage),
        ("delays", "Q4-1", _latency),
        ("bursts", "Q4-2, on Spark" if "Q4-2, on Spark" in curves else "Q4-2", _latency),
    ):
        if curves.get(needs):
            figure = picture(curves[needs])
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            pyplot.close(figure)
            made.append(f"{name}.svg")
    if "sliding, no sideline" in curves:
        figure = _sideline(curves)
        figure.savefig(folder / "sideline.svg", metadata={"Date": None})
        pyplot.close(figure)
        made.append("sideline.svg")
    return made


def _chosen(points: Points, **equal: Any) -> Points:
    return [p for p in points if all(p[k] == v for k, v in equal.items())]


def _aggressiveness(points: Points) -> Any:
    """Figures 4.6 to 4.9: accuracy against aggressiveness, what has arrived and corrected."""
    distributions = list(dict.fromkeys(p["distribution"] for p in points))
    figure, grid = pyplot.subplots(
        2,
        len(distributions),
        figsize=(3.1 * len(distributions), 5.4),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for row, kind in zip(grid, ("sliding", "tumbling"), strict=True):
        for axis, distribution in zip(row, distributions, strict=True):
            for name, colour in _COLOURS.items():
                mine = _chosen(points, distribution=distribution, kind=kind, aggregate=name)
                x = [p["aggressiveness"] for p in mine]
                axis.plot(x, [p["whole_mean"] for p in mine], color=colour, marker="o", markersize=3, label=name)
                axis.plot(x, [p["corrected_mean"] for p in mine], color=colour, linestyle="--")
                if distribution == "uniform" and kind == "sliding":
                    said = thesis.UNIFORM[name]
                    axis.scatter(list(said), list(said.values()), color=colour, marker="x", zorder=3)
            axis.set_title(f"{distribution}, {kind}", fontsize=9)
        row[0].set_ylabel("average accuracy, %")
    for axis in grid[-1]:
        axis.set_xlabel("aggressiveness, % of the slide")
    grid[0][0].plot([], [], color="grey", linestyle="--", label="corrected")
    grid[0][0].scatter([], [], color="grey", marker="x", label="S5")
    grid[0][0].legend(fontsize=7)
    return figure


def _gain(points: Points) -> Any:
    """Latency gain against accuracy."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, kind in zip(axes, ("sliding", "tumbling"), strict=True):
        for name, colour in _COLOURS.items():
            mine = _chosen(points, distribution="uniform", kind=kind, aggregate=name)
            gains = [p["gain_seconds"] for p in mine]
            axis.plot(gains, [p["whole_mean"] for p in mine], color=colour, marker="o", markersize=3, label=name)
            axis.plot(gains, [p["corrected_mean"] for p in mine], color=colour, linestyle="--")
        slide = "10" if kind == "sliding" else "30"
        axis.set(title=f"30 s windows, one each {slide} s", xlabel="seconds before the final answer")
    axes[0].set_ylabel("average accuracy, %")
    axes[0].plot([], [], color="grey", linestyle="--", label="corrected")
    axes[0].legend(fontsize=8)
    return figure


def _coverage(points: Points) -> Any:
    """Share of final values within the 90 % intervals, by stream and aggregate."""
    cases = list(dict.fromkeys(p["case"] for p in points))
    figure, axis = pyplot.subplots(figsize=(7, 1.2 + 0.3 * len(cases)), layout="constrained")
    axis.axvspan(88, 94, color="grey", alpha=0.15)
    axis.axvline(90, color="grey", linewidth=0.8)
    for n, (name, colour) in enumerate(_COLOURS.items()):
        mine = [p for p in points if p["aggregate"] == name and not math.isnan(p["covered"])]
        y = [cases.index(p["case"]) + 0.16 * (n - 1.5) for p in mine]
        axis.scatter([p["covered"] for p in mine], y, color=colour, s=18, label=name)
    axis.set(yticks=range(len(cases)), yticklabels=cases, xlabel="final values within their interval, %")
    axis.invert_yaxis()
    axis.legend(fontsize=8, loc="upper left")
    return figure


def _latency(points: Points) -> Any:
    """Figures 4.2 and 4.5: how long after its end each window had its early and its final answer."""
    figure, axis = pyplot.subplots(figsize=(8, 3), layout="constrained")
    points = sorted(points, key=lambda p: p["end"])
    axis.plot([p["end"] for p in points], [p["final"] for p in points], color="#444444", marker="*", label="final")
    early = [p for p in points if p["early"] is not None]
    axis.scatter([p["end"] for p in early], [p["early"] for p in early], color="#d62728", marker="^", label="early")
    axis.set(xlabel="end of the window, s", ylabel="answered after its end, s")
    axis.legend()
    return figure


def _sideline(curves: dict[str, Points]) -> Any:
    """How long after its end each window was final, with a sideline and without."""
    kinds = {"no sideline": "#444444", "sideline(ratio=4)": "#1f77b4"}
    panels = {w: [f"{w}, {kind}" for kind in kinds] for w in ("sliding", "tumbling", "tumbling, large pages")}
    panels["tumbling, another burst, on Spark"] = [f"tumbling, {kind}, on Spark" for kind in kinds]
    panels = {title: names for title, names in panels.items() if all(name in curves for name in names)}
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(3.6 * len(panels), 3), sharey=True, layout="constrained"
    )
    for axis, (windows, names) in zip(axes, panels.items(), strict=True):
        for name, (kind, colour) in zip(names, kinds.items(), strict=True):
            points = sorted(curves[name], key=lambda p: p["end"])
            x, y = [p["end"] for p in points], [p["final"] for p in points]
            axis.plot(x, y, color=colour, marker=".", markersize=4, label=kind)
        axis.set(title=windows, xlabel="end of the window, s")
    axes[0].set_ylabel("final after its end, s")
    axes[0].legend()
    return figure
