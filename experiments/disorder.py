"""S4's figures: buffer and drops over the size of the data, drops over DRATIO, and insertion beside sorting.

No Spark: rows go through the policies' trackers page by page, and through the buffers one by one.
"""

from __future__ import annotations

import argparse
import gc
import json
from bisect import insort
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from time import process_time_ns
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.disorder import Disorder
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import WindowLosses

matplotlib.use("Agg")
from matplotlib import pyplot

_RESULTS = Path(__file__).parent / "results"
SECOND, RATE, PAGE = 1_000_000, 1_000, 100
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
#: Delays in seconds; the first is S4's: a standard deviation and a maximum.
DELAYS: dict[str, Draw] = {
    "normal": lambda rng, n: np.minimum(np.abs(rng.normal(0, 0.5, n)), 2.0),
    "uniform": lambda rng, n: rng.uniform(0, 2, n),
    "exponential": lambda rng, n: rng.exponential(0.5, n),
    "log-normal": lambda rng, n: 0.3 * rng.lognormal(0, 1, n),
    "Pareto 1.5": lambda rng, n: 0.3 * rng.pareto(1.5, n),
}
METHODS: dict[str, Disorder] = {
    "max delay": sw.papers.max_delay(),
    "mean and distance (S4)": sw.papers.disorder_control(),
}
SHARES = (1, 2, 3, 5, 7, 10)
Points = list[dict[str, Any]]


def stream(delays: Draw, rows: int, seed: int) -> tuple[Ints, Ints]:
    """Times and instants of arrival, in the order of arrival, up to the last row that is made."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows * SECOND // RATE, rows))
    arrived = times + (delays(rng, rows) * SECOND).astype(np.int64)
    order = np.argsort(arrived, kind="stable")
    order = order[: int(np.searchsorted(arrived[order], times[-1]))]
    return times[order], arrived[order]


def play(policy: Disorder, times: Ints, arrived: Ints) -> tuple[Ints, Ints]:
    """Of each page: what was dropped of it, and the rows above the heartbeat after it."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    drops, slack, held = [], [], np.zeros(0, dtype=np.int64)
    for number, begin in enumerate(range(0, len(times), PAGE)):
        rows = times[begin : begin + PAGE]
        tracker.admit(number)
        last_ticks, pairs = np.unique(rows, return_counts=True)
        lost = int((rows <= tracker.heartbeat.tick).sum())
        tracker.hear(WindowLosses("q", number, last_ticks, pairs, lost))
        at, low, high = int(arrived[begin : begin + PAGE][-1]), int(rows.min()), int(rows.max())
        tracker.arrive(Arrival(len(rows), 0, low, high, at, int(rows.sum()), sketch_of(rows)))
        held = np.concatenate([held, rows])
        held = held[held > tracker.heartbeat.tick]
        drops.append(lost)
        slack.append(len(held))
    return np.array(drops), np.array(slack)


def figure_3(rows: int, seeds: int) -> Points:
    """With DRATIO 0: rows in the slack buffer and rows dropped, as the data grow."""
    points = []
    for name, policy in METHODS.items():
        runs = [play(policy, *stream(DELAYS["normal"], rows, seed)) for seed in range(seeds)]
        for size in np.linspace(rows / 10, rows, 10).astype(int).tolist():
            pages = size // PAGE
            recent = slice(pages - rows // 10 // PAGE, pages)
            buffer = float(np.mean([slack[recent].mean() for _, slack in runs]))
            dropped = float(np.mean([drops[:pages].sum() for drops, _ in runs]))
            points.append({"method": name, "rows": size, "buffer": buffer, "dropped": dropped})
    return points


def figure_4(rows: int, seeds: int) -> Points:
    """The share that was dropped over the one that was asked for: S4's controller, and ours."""
    points = []
    for delay, draw in DELAYS.items():
        for percent in SHARES:
            for name, policy in (
                ("S4", sw.papers.disorder_control(f"{percent}%")),
                ("drop_ratio", sw.drop_ratio(percent / 100)),
            ):
                streams = [stream(draw, rows, seed) for seed in range(seeds)]
                runs = [play(policy, *each) for each in streams]
                shares = [100 * float(r[0].sum()) / len(each[0]) for r, each in zip(runs, streams, strict=True)]
                buffer = float(np.mean([slack[len(slack) // 2 :].mean() for _, slack in runs]))
                about = {"delays": delay, "method": name, "asked": percent, "buffer": buffer}
                points.append({**about, "least": min(shares), "most": max(shares)})
    return points


# --- insertion: S4's circular array, and what sorts


def circular(times: list[int], backlog: int) -> None:
    """An array indexed by time: a row goes to the others of its time, the oldest place goes out."""
    cells: list[Any] = [None] * (2 * backlog)
    for k, time in enumerate(times):
        cell = time % (2 * backlog)
        cells[cell] = (time, cells[cell])
        cells[(k - backlog) % (2 * backlog)] = None


def heap(times: list[int], backlog: int) -> None:
    """A priority queue."""
    kept: list[int] = []
    for time in times:
        heappush(kept, time)
        if len(kept) > backlog:
            heappop(kept)


def sorted_list(times: list[int], backlog: int) -> None:
    """A sorted list: the place is found by halving, what lies behind it moves."""
    kept: list[int] = []
    for time in times:
        insort(kept, time)
        if len(kept) > backlog:
            kept.pop(0)


def bubble(times: list[int], backlog: int) -> None:
    """Aurora's: a row changes places with its neighbours until it is in order."""
    kept: list[int] = []
    for time in times:
        kept.append(time)
        k = len(kept) - 1
        while k and kept[k - 1] > time:
            kept[k] = kept[k - 1]
            k -= 1
        kept[k] = time
        if len(kept) > backlog:
            kept.pop(0)


RIVALS = {"circular array (S4)": circular, "heap": heap, "sorted list": sorted_list, "bubble sort (Aurora)": bubble}


def _taken(insert: Callable[[list[int], int], None], times: list[int], backlog: int) -> int:
    gc.disable()  # Python's search for cycles would cost most where most objects are kept
    try:
        begin = process_time_ns()
        insert(times, backlog)
        return process_time_ns() - begin
    finally:
        gc.enable()


def insertion(rows: int) -> Points:
    """Nanoseconds a row, for as many rows in the buffer as given; rows are up to half of that behind."""
    points = []
    rng = np.random.default_rng(0)
    for backlog in (100, 1_000, 10_000, 100_000):
        n = max(rows, 2 * backlog)
        times = (np.arange(n) - rng.integers(0, backlog // 2, n)).tolist()
        for name, insert in RIVALS.items():
            some = times[: 2 * backlog if insert is bubble and backlog < 10_000 else n]
            if insert is bubble and backlog >= 10_000:
                continue
            # An empty buffer of that size is made once, however many rows pass it: it is no part of a row's cost.
            empty, full = _taken(insert, [], backlog), _taken(insert, some, backlog)
            points.append({"buffer": name, "backlog": backlog, "ns": (full - empty) / len(some)})
    return points


# --- what is shown


def show(console: Console, title: str, points: Points) -> None:
    """All points of a figure as a table."""
    table = Table(title=title)
    for name in points[0]:
        table.add_column(name, justify="left" if isinstance(points[0][name], str) else "right")
    for point in points:
        table.add_row(
            *(
                v if isinstance(v, str) else f"{v:,.2f}" if isinstance(v, float) else f"{v:,}"
                for v in point.values()
            )
        )
    console.print(table)


def draw(figures: dict[str, Points], path: Path) -> None:
    """Figure 3 (a) and (b), Figure 4, and the cost of insertion."""
    matplotlib.rcParams.update({"svg.hashsalt": "slackwater", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    figure, axes = pyplot.subplots(1, 4, figsize=(16, 4), layout="constrained")
    for axis, y in zip(axes, ("buffer", "dropped"), strict=False):
        _lines(axis, figures["figure 3"], "method", "rows", y)
        axis.set(title=f"Figure 3: rows {'in the buffer' if y == 'buffer' else 'dropped'}", xlabel="rows of data")
    ours = [p for p in figures["figure 4"] if p["method"] == "S4"]
    _lines(axes[2], ours, "delays", "asked", "most")
    axes[2].plot(SHARES, SHARES, color="black", linewidth=0.8)
    axes[2].set(title="Figure 4: dropped, the most of all seeds, %", xlabel="DRATIO, %")
    _lines(axes[3], figures["insertion"], "buffer", "backlog", "ns")
    axes[3].set(title="insertion: ns a row", xlabel="rows in the buffer", xscale="log", yscale="log")
    for axis in axes:
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _lines(axis: Any, points: Points, name: str, x: str, y: str) -> None:
    for label in dict.fromkeys(p[name] for p in points):
        mine = [p for p in points if p[name] == label]
        axis.plot([p[x] for p in mine], [p[y] for p in mine], marker="o", markersize=3, label=label)


def main() -> None:
    """Run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="of each stream")
    parser.add_argument("--seeds", type=int, default=3, help="how many streams of each kind")
    parser.add_argument("--out", type=Path, default=_RESULTS / "disorder.json", help="where to write the figures")
    options = parser.parse_args()
    console = Console(width=120)
    figures = {
        "figure 3": figure_3(options.rows, options.seeds),
        "figure 4": figure_4(options.rows, options.seeds),
        "insertion": insertion(options.rows),
    }
    for title, points in figures.items():
        show(console, title, points)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rows": options.rows, "seeds": options.seeds, **figures}, indent=1))
    draw(figures, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
