"""Makes the pictures of docs/progress.md: small streams through the policies' own trackers, one SVG each.

Run it as `python docs/pictures.py`; `--png FOLDER` gives PNG files to look at instead. One seed, one picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from picture_runs import SECOND, Followed, follow

import slackwater as sw
from experiments.lab import arrivals as make
from slackwater.papers.disorder_control import PARTS
from slackwater.progress.time import TimeDomain

ROWS, BEAT, LOST, SECOND_BEAT, THIRD_BEAT, OTHER = "#8a8a8a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#444444"
BEATS = (BEAT, SECOND_BEAT, THIRD_BEAT, "#e69f00")
matplotlib.use("svg")
plt.rcParams.update(
    {
        "svg.fonttype": "none",  # text stays text: small files
        "svg.hashsalt": "slackwater",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e6e6e6",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
    }
)


# --- how pictures look


def figure(panels: int = 1, height: float = 3.1, ratios: tuple[int, ...] = (1,)) -> tuple[Figure, Any]:
    """Axes side by side in time, one above the other."""
    made, axes = plt.subplots(
        panels, 1, figsize=(7.4, height), sharex=True, layout="constrained", height_ratios=ratios, squeeze=False
    )
    axes[-1][0].set_xlabel("arrival, seconds")
    return made, axes[0][0] if panels == 1 else [row[0] for row in axes]


def stair(axes: Axes, ats: list[float], beats: Any, color: str, label: str, lw: float = 1.5, z: int = 2) -> None:
    """A heartbeat: it holds until the next."""
    moved = [0, *(k for k in range(1, len(ats)) if beats[k] != beats[k - 1]), len(ats) - 1]
    x, y = ([values[k] for k in moved] for values in (ats, beats))
    axes.step(x, y, where="post", color=color, lw=lw, zorder=z, label=label)


def points(axes: Axes, rows: pl.DataFrame, behind: bool, most: int = 180) -> None:
    """Rows at their arrival: a sample and, where the clock is the measure, the slowest; lost ones are crossed."""
    y = (pl.col("at") - pl.col("time")) if behind else pl.col("time")
    rows = rows.with_columns(y=y)
    kept, lost = rows.filter(~pl.col("lost")), rows.filter("lost")
    if kept.height > most:
        slowest = kept.sort("y", maintain_order=True).tail(40 if behind else 0)
        kept = pl.concat([kept.sample(most - slowest.height, seed=1), slowest])
    lost = lost.sample(min(lost.height, 70), seed=1)
    axes.plot(kept["arrival"].round(2), kept["y"].round(2), ".", ms=3, color=ROWS, label="row", zorder=1)
    if lost.height:
        axes.plot(lost["arrival"], lost["y"], "x", ms=5, mew=1.3, color=LOST, label="lost to its window", zorder=3)


def lag(found: Followed) -> Any:
    """How far a heartbeat is behind the clock."""
    return np.round(np.array(found.ats) - np.array(found.beats), 3)


def behind_the_clock(axes: Axes, found: Followed, color: str, label: str, style: str = "-") -> None:
    """The lag of a heartbeat, page by page or, of many pages, now and then: while it stands, it falls behind."""
    every = -(-len(found.ats) // 150)
    axes.plot(found.ats[::every], lag(found)[::every], color=color, lw=1.5, ls=style, label=label)


def least(axes: Axes, found: Followed) -> None:
    """The heartbeat of the stream, under those of its sources."""
    stair(axes, found.ats, found.beats, "#c8c8c8", "of the stream: the least", lw=5, z=0)


def arrivals(delay: make.Delay, seconds: float, rate: float, seed: int, **options: Any) -> pl.DataFrame:
    """A stream without sources, unless it has a slow one."""
    made = make.arrivals(delay, seconds=seconds, rate=rate, seed=seed, **options)
    return made if "slow" in options else made.drop("source")


def regular(source: str, begin: float, end: float, every: float, delay: float, seed: int = 0) -> pl.DataFrame:
    """A source that sends now and then, its rows under way for up to `delay`."""
    rng = np.random.default_rng(seed)
    made = np.arange(begin, end, every)
    came = made + rng.uniform(0.2, 1, len(made)) * delay
    ticks = {"arrival": (came * SECOND).astype(np.int64), "time": (made * SECOND).astype(np.int64)}
    return pl.DataFrame({**ticks, "source": [source] * len(made)})


# --- the pictures


def heartbeat() -> Figure:
    """What is late, and what is lost."""
    rows = arrivals(make.mixed(make.exponential(1), make.uniform(16), 0.12), 60, 5, seed=21)
    found = follow(sw.bounded("6 seconds"), rows, 10 * SECOND)
    made, axes = figure(height=3.6)
    for end in range(10, 60, 10):
        axes.axhline(end, color="#bbbbbb", lw=0.9, ls=":")
        closed = next(at for at, beat in zip(found.ats, found.beats, strict=True) if beat >= end - 1e-6)
        axes.plot(
            closed,
            end,
            "s",
            ms=5,
            color=BEAT,
            mfc="white",
            zorder=4,
            label="window is final" if end == 10 else None,
        )
    points(axes, found.rows, behind=False)
    stair(axes, found.ats, found.beats, BEAT, "heartbeat")
    axes.set_ylabel("event time, seconds")
    axes.set_yticks(range(0, 61, 10))
    axes.set_ylim(-3, 62)
    axes.legend(loc="upper left")
    return made


def bounded() -> Figure:
    """A fixed distance, and a timeout."""
    rows = arrivals(make.exponential(1.2), 60, 6, seed=4)
    rows = rows.filter(~pl.col("arrival").is_between(25 * SECOND, 45 * SECOND))
    found = follow(sw.bounded("5 seconds", timeout="10 seconds"), rows, 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows, behind=False)
    stair(axes, found.ats, found.beats, BEAT, "bounded('5 seconds', timeout='10 seconds')")
    axes.annotate(
        "timeout: what was seen is all", (35, 24.6), (36.5, 12), fontsize=8, arrowprops={"arrowstyle": "-"}
    )
    axes.set_ylabel("event time, seconds")
    axes.legend(loc="upper left")
    return made


def drop_ratio() -> Figure:
    """Two regimes."""
    delay = make.regimes((0, make.exponential(1)), (200, make.exponential(5)))
    rows = arrivals(delay, 420, 60, seed=2)
    found, fixed = (follow(p, rows, 5 * SECOND) for p in (sw.drop_ratio("1%"), sw.bounded("3 seconds")))
    made, (axes, below) = figure(2, height=4.2, ratios=(5, 2))
    points(axes, found.rows, behind=True)
    behind_the_clock(axes, found, BEAT, "drop_ratio('1%')")
    behind_the_clock(axes, fixed, OTHER, "bounded('3 seconds')", ":")
    axes.axvline(200, color="#bbbbbb", lw=0.9)
    axes.text(198, 30, "delays grow:\ntime stands until it is\nknown how late rows come", fontsize=8, ha="right")
    axes.set_ylim(0, 40)
    axes.set_ylabel("behind the clock, seconds")
    axes.legend(loc="upper left")
    for each, color, style in ((found, BEAT, "-"), (fixed, OTHER, ":")):
        at, share = _share(each)
        below.plot(at, share, color=color, ls=style, lw=1.2)
    below.axhline(1, color=LOST, lw=0.9)
    below.set_ylim(0, 6)
    below.set_ylabel("% lost in the\nlast 100 pages")
    return made


def _share(found: Followed) -> tuple[Any, Any]:
    pages = found.rows.group_by("at", maintain_order=True).agg(pl.col("lost").sum(), n=pl.len())
    sums = pages.select(
        "at", share=100 * pl.col("lost").rolling_sum(100) / pl.col("n").rolling_sum(100)
    ).drop_nulls()
    sums = sums.gather_every(5)
    return sums["at"], sums["share"]


def learned() -> Figure:
    """Up at once, down after W."""
    delay = make.regimes((0, make.uniform(3)), (100, make.uniform(14)), (106, make.uniform(3)))
    rows = arrivals(delay, 500, 12, seed=6)
    found = follow(sw.learned(window="1 minute", alpha=0.5), rows, 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows, behind=True)
    behind_the_clock(axes, found, BEAT, "learned(window='1 minute', alpha=0.5)")
    axes.annotate("exceeded:\nraised at once", (112, 9), (20, 12), fontsize=8, arrowprops={"arrowstyle": "-"})
    axes.annotate("calm for W: lowered half-way", (181, 11), (200, 12), fontsize=8, arrowprops={"arrowstyle": "-"})
    axes.set_ylim(0, 20)
    axes.set_ylabel("behind the clock, seconds")
    axes.legend(loc="upper right")
    return made


def slow_source() -> Figure:
    """One source is a minute behind; it delays only itself."""
    rows = arrivals(
        make.exponential(1), 240, 4, 3, sources=3, slow=lambda rng, made: 60 + rng.exponential(1, len(made))
    )
    rows = rows.with_columns(pl.col("source").replace({"s0": "harbour", "s1": "hill", "s2": "island"}))
    found = follow(sw.learned(), rows, 10 * SECOND, page=5 * SECOND)
    made, axes = figure(height=3.4)
    points(axes, found.rows, behind=False)
    for name, color in zip(("harbour", "hill", "island"), BEATS, strict=False):
        stair(axes, found.ats, found.by_source[name], color, f"heartbeat of {name}")
    least(axes, found)
    axes.set_ylabel("event time, seconds")
    axes.legend(loc="upper left")
    return made


def disorder_control() -> Figure:
    """The mean, the distance, and the offset."""
    rows = arrivals(make.exponential(2), 300, 20, seed=8)
    plain, offset = (
        follow(p, rows, 5 * SECOND) for p in (sw.papers.disorder_control(), sw.papers.disorder_control("5%"))
    )
    made, axes = figure()
    points(axes, offset.rows, behind=True)
    mean = np.array(offset.ats) - [state["mean"] / PARTS / SECOND for state in offset.states]
    axes.plot(offset.ats[::3], mean[::3], color=SECOND_BEAT, lw=1, label="mean μ")
    behind_the_clock(axes, plain, OTHER, "disorder_control(): μ − d", ":")
    behind_the_clock(axes, offset, BEAT, "disorder_control('5%'): μ − d − offset")
    axes.annotate("", (240, lag(plain)[239]), (240, mean[239]), arrowprops={"arrowstyle": "<->", "color": OTHER})
    axes.text(243, lag(plain)[239] - 3, "d", fontsize=9)
    axes.set_ylim(0, 26)
    axes.set_ylabel("behind the clock, seconds")
    axes.legend(loc="upper left", ncols=2)
    return made


def max_delay() -> Figure:
    """Never down again."""
    delay = make.regimes((0, make.uniform(3)), (100, make.uniform(14)), (106, make.uniform(3)))
    rows = arrivals(delay, 500, 12, seed=6)
    found = follow(sw.papers.max_delay(), rows, 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows, behind=True)
    behind_the_clock(axes, found, BEAT, "max_delay()")
    axes.set_ylim(0, 20)
    axes.set_ylabel("behind the clock, seconds")
    axes.legend(loc="upper right")
    return made


def punctuated() -> Figure:
    """Stairs that the senders make."""
    a, b = regular("a", 0, 60, 0.5, 2, seed=1), regular("b", 0, 60, 0.7, 3, seed=2)
    rows = pl.concat([a.with_columns(every=pl.lit(5)), b.with_columns(every=pl.lit(12))]).sort("arrival")
    number = pl.int_range(pl.len()).over("source", pl.col("arrival") // (pl.col("every") * SECOND))
    past = (pl.col("arrival") // (pl.col("every") * SECOND) * pl.col("every") - 3) * SECOND
    rows = rows.with_columns(upto=pl.when((number == 0) & (past > 0)).then(past))
    broken = pl.DataFrame({"arrival": [40 * SECOND], "time": [27 * SECOND], "source": ["a"]})
    found = follow(sw.punctuated("upto"), pl.concat([rows, broken], how="diagonal"), 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows, behind=False, most=200)
    for name, color in zip("ab", BEATS, strict=False):
        stair(axes, found.ats, found.by_source[name], color, f"punctuations of {name}")
    least(axes, found)
    axes.annotate(
        "a breaks its promise: ungrammatical", (40, 27), (41.5, 12), fontsize=8, arrowprops={"arrowstyle": "-"}
    )
    axes.set_ylabel("event time, seconds")
    axes.legend(loc="upper left")
    return made


def skew() -> Figure:
    """A fast source speaks for a slow one."""
    rows = pl.concat([regular("fast", 0, 60, 0.8, 0.9, seed=1), regular("slow", 0.3, 60, 13, 0.9, seed=2)])
    bounds = {("fast", "fast"): (0, 0), ("fast", "slow"): ("2 seconds", "5 seconds")}
    found = follow(sw.skew(bounds, latency="1 second", timeout="1 minute"), rows, 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows.filter(pl.col("source") == "fast"), behind=False)
    slow = found.rows.filter(pl.col("source") == "slow")
    axes.plot(
        slow["arrival"], slow["time"], "D", ms=5, color=THIRD_BEAT, mfc="white", label="row of slow", zorder=4
    )
    stair(axes, found.ats, found.by_source["fast"], SECOND_BEAT, "heartbeat of fast")
    stair(axes, found.ats, found.by_source["slow"], BEAT, "heartbeat of slow, from fast's rows")
    axes.set_ylabel("event time, seconds")
    axes.legend(loc="upper left")
    return made


def sensors() -> Figure:
    """Deviations by source; a silent one is carried along, and a new one has its place."""
    parts = [regular("hall", 0, 60, 0.9, 0.9, seed=1), regular("roof", 0, 25, 0.7, 0.9, seed=2)]
    rows = pl.concat([*parts, regular("yard", 40, 60, 0.8, 0.9, seed=3)])
    policy = sw.sensors(
        {"hall": "1 second", "roof": "4 seconds", "yard": "8 seconds"}, latency="1 second", timeout="1 minute"
    )
    found = follow(policy, rows, 5 * SECOND)
    made, axes = figure()
    points(axes, found.rows, behind=False, most=120)
    for name, color in zip(("hall", "roof", "yard"), BEATS, strict=False):
        stair(axes, found.ats, found.by_source[name], color, f"heartbeat of {name}")
    for x, y, text in ((26, 10, "roof falls silent"), (41, 20, "yard begins")):
        axes.axvline(x - 1, color="#bbbbbb", lw=0.9)
        axes.text(x, y - 8, text, fontsize=8)
    axes.set_ylabel("event time, seconds")
    axes.legend(loc="upper left")
    return made


def global_counter() -> Figure:
    """Tokens of one counter."""
    rng = np.random.default_rng(5)
    spans = {"a": (0.1, 0.6), "b": (0.2, 2.0)}
    free, rows = dict.fromkeys(spans, 0.0), []
    for token in range(110):
        # Each asks for the next token when it has emitted the one before.
        source = min(free, key=lambda name: free[name])
        free[source] += rng.uniform(*spans[source])
        rows.append((int((free[source] + rng.uniform(0, 0.2)) * SECOND), token, source))
    times = {"a": ("100 ms", "600 ms"), "b": ("200 ms", "2 seconds")}
    policy = sw.papers.global_counter(times, latency="450 ms")
    found = follow(
        policy,
        pl.DataFrame(rows, ["arrival", "time", "source"], orient="row"),
        10,
        page=SECOND // 4,
        domain=TimeDomain.SEQUENCE,
    )
    made, axes = figure()
    points(axes, found.rows, behind=False)
    for name, color in zip("ab", BEATS, strict=False):
        stair(axes, found.ats, found.by_source[name], color, f"heartbeat of {name}, {' to '.join(times[name])}")
    axes.set_ylabel("token")
    axes.legend(loc="upper left")
    return made


PICTURES: tuple[Callable[[], Figure], ...] = (
    heartbeat,
    bounded,
    drop_ratio,
    learned,
    slow_source,
    disorder_control,
    max_delay,
    punctuated,
    skew,
    sensors,
    global_counter,
)


def main() -> None:
    """Write all pictures, or those that are named."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*")
    words.add_argument("--png", type=Path, help="a folder for PNG files")
    asked = words.parse_args()
    folder = asked.png or Path(__file__).parent / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        if asked.names and picture.__name__ not in asked.names:
            continue
        path = folder / f"{picture.__name__}.{'png' if asked.png else 'svg'}"
        made = picture()
        if asked.png:
            made.savefig(path, dpi=110)
        else:
            made.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(made)
        print(f"{path} {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
