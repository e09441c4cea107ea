"""Disorder policies beside the fixed bound that hindsight would have chosen: share lost, wait, rows buffered.

No Spark: pages go through a policy's tracker, windows are counted by arithmetic; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab import arrivals as make
from experiments.lab.early_streams import Case as EarlyCase
from experiments.lab.held_out_kinds import HELD_OUT
from experiments.lab.trial import (
    Case,
    Paged,
    figures,
    fixed,
    hindsight,
    hindsight_in_every_stretch,
    run,
)
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

P, STRETCH = 0.01, 100
#: Mean wait wanted, in parts of that of the fixed bound that hindsight chooses.
WANTED = {"steady": 1.05, "changing": 1.3, "real": 1.3}
SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
_RESULTS = Path(__file__).parent / "results"
_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
_FLIGHTS = Path(sw.__file__).parent / "data" / "flights.parquet"
#: Two months.
FLIGHTS = 60_000
HINDSIGHT, EVERY = "hindsight", "hindsight, every stretch"
RIVALS: dict[str, Any] = {
    "learned": sw.learned(),
    "max_delay": sw.papers.max_delay(),
    "disorder_control": sw.papers.disorder_control(P),
}


@dataclass(frozen=True)
class Stream:
    """A stream, how it is cut into pages, and the windows over it (range and slide in ticks)."""

    name: str
    kind: str
    """steady, changing or real."""
    load: Callable[[], pl.DataFrame]
    page: int
    windows: tuple[tuple[int, int], ...]


def synthetic(seconds: float, seed: int) -> Iterator[Stream]:
    """Eleven kinds of streams: pages of a second, 100 rows a second where nothing else is said.

    In the last one delays go over five orders of magnitude. It is longer, for its slack is up to a hundred pages.
    """
    e, wide = make.exponential, 10 / 3 * seconds
    parts = [(part * wide, make.lognormal(median, 2.3)) for part, median in ((0, 0.1), (0.35, 0.3), (0.7, 0.05))]
    kinds: dict[str, tuple[str, make.Delay, dict[str, Any]]] = {
        "steady": ("steady", e(2), {}),
        "Zipf sources": ("steady", e(1), {"zipf": 1.5}),
        "heavy tails": ("steady", make.pareto(1, 1.3), {}),
        "offsets": ("steady", e(0.3), {"sources": 8, "offset": 30}),
        "value and delay": ("steady", make.mixed(e(0.5), e(8), 0.1), {}),
        "walk": ("changing", make.walking(2), {}),
        "regime": ("changing", make.regimes((0, e(1)), (0.3 * seconds, e(5)), (0.6 * seconds, e(1.5))), {}),
        "gaps": ("changing", e(2), {"gaps": (120, 30)}),
        "season": ("changing", make.seasons(2, seconds / 4), {}),
        "bursts": ("changing", e(2), {"bursts": (50, 5)}),
        "five orders": ("changing", make.regimes(*parts), {"rate": 20, "seconds": wide}),
    }
    for name, (kind, delay, options) in kinds.items():
        load = lambda d=delay, o=options: make.arrivals(d, **{"seconds": seconds, "seed": seed, **o})  # noqa: E731
        yield Stream(name, kind, load, SECOND, ((10 * SECOND, 10 * SECOND), (20 * SECOND, 2 * SECOND)))


def held_out(seconds: float, seed: int) -> Iterator[Stream]:
    """Kinds of streams that were held out; those with days are twelve days long for 600 seconds."""
    minutes = ((30 * MINUTE, 30 * MINUTE), (60 * MINUTE, 5 * MINUTE))
    kinds = {
        "tunnels": (seconds / 10, SECOND, ((10 * SECOND, 10 * SECOND), (20 * SECOND, 2 * SECOND))),
        "two populations": (seconds, 150 * SECOND, minutes),
        "three populations": (seconds, 150 * SECOND, minutes),
    }
    for name, (length, page, windows) in kinds.items():
        load = lambda n=name, k=int(length): _until_the_end(HELD_OUT[n](k, np.random.default_rng(seed)))  # noqa: E731
        yield Stream(name, "changing", load, page, windows)


def _until_the_end(case: EarlyCase) -> pl.DataFrame:
    """Rows that come before the last one is made: what only brings stragglers is another stream."""
    rows = pl.DataFrame({"arrival": case.arrived, "time": case.rows["t"]})
    return rows.filter(pl.col("arrival") <= pl.col("time").max())


def real(folder: Path) -> Iterator[Stream]:
    """Real streams: flights is part of the package, the others lie in a folder or not at all."""
    sets = [
        ("flights", _FLIGHTS, "scheduled", "departed", HOUR, ((HOUR, HOUR), (6 * HOUR, HOUR))),
        ("phones 1", folder / "phones_1.parquet", "sent", "received", SECOND, ((SECOND, SECOND),)),
        ("phones 2", folder / "phones_2.parquet", "sent", "received", SECOND, ((SECOND, SECOND),)),
        ("http", folder / "http.parquet", "time", "time", MINUTE, ((MINUTE, MINUTE), (10 * MINUTE, MINUTE))),
        ("quakes", folder / "quakes.parquet", "time", "updated", HOUR // 2, ((6 * HOUR, 6 * HOUR),)),
    ]
    for name, path, event, arrival, page, windows in sets:

        def load(path: Path = path, event: str = event, arrival: str = arrival, name: str = name) -> pl.DataFrame:
            rows = pl.read_parquet(path).select(
                arrival=pl.col(arrival).dt.timestamp("us"), time=pl.col(event).dt.timestamp("us")
            )
            rows = rows.sort("arrival", maintain_order=True)
            return rows.head(FLIGHTS) if name == "flights" else rows

        if path.exists():
            yield Stream(name, "real", load, page, windows)


def policies(rivals: bool) -> dict[str, Any]:
    """What is compared: drop_ratio, and its rivals if so wished."""
    return {"drop_ratio": sw.drop_ratio(P), **(RIVALS if rivals else {})}


def measure(stream: Stream, rivals: bool) -> list[dict[str, Any]]:
    """All windows and policies over one stream; the start is counted."""
    rows = stream.load()
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), stream.page)
    measured = []
    for length, slide in stream.windows:
        case = Case.of(paged, WindowSpec(length, slide))
        best = fixed(case, hindsight(case, P))
        every = fixed(case, hindsight_in_every_stretch(case, P, STRETCH))
        outcomes = {HINDSIGHT: best, EVERY: every}
        for name, policy in policies(rivals).items():
            outcomes[name] = run(policy.tracker(TimeDomain.TIMESTAMP), case)
        for name, outcome in outcomes.items():
            about = {"stream": stream.name, "kind": stream.kind, "range": length, "slide": slide, "policy": name}
            measured.append({**about, "pages": len(paged), **figures(outcome, [best, every], STRETCH)})
    return measured


COLUMNS = {
    "lost": lambda m: f"{np.mean([x['share'] for x in m]):.2%}",
    "worst stretch": lambda m: f"{max(x['worst'] for x in m):.2%}",
    "mean wait": lambda m: f"{np.mean([x['wait_mean'] for x in m]) / SECOND:,.1f} s",
    "to hindsight": lambda m: f"{np.mean([x['mean_ratio_0'] for x in m]):.2f}",
    "most": lambda m: f"{max(x['mean_ratio_0'] for x in m):.2f}",
    "to hindsight, e.s.": lambda m: f"{np.mean([x['mean_ratio_1'] for x in m]):.2f}",
    "most, e.s.": lambda m: f"{max(x['mean_ratio_1'] for x in m):.2f}",
    "p95, e.s.": lambda m: f"{np.mean([x['p95_ratio_1'] for x in m]):.2f}",
    "buffer": lambda m: f"{np.mean([x['buffer_mean'] for x in m]):,.0f}",
}


def show(console: Console, measured: list[dict[str, Any]]) -> None:
    """A line for each stream and policy, over all seeds and windows; then how often what is wanted holds."""
    table = Table(title=f"Share lost and wait, the start included (p = {P:.0%}; e.s.: hindsight in every stretch)")
    for name in ("stream", "kind", "policy"):
        table.add_column(name)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for stream, kind, policy in dict.fromkeys((m["stream"], m["kind"], m["policy"]) for m in measured):
        mine = [m for m in measured if (m["stream"], m["policy"]) == (stream, policy)]
        table.add_row(stream, kind, policy, *(column(mine) for column in COLUMNS.values()))
    console.print(table)
    for kind, limit in WANTED.items():
        mine = [m for m in measured if m["kind"] == kind and m["policy"] == "drop_ratio"]
        kept = sum(m["worst"] <= P for m in mine)
        waits = [sum(m[f"mean_ratio_{n}"] <= limit for m in mine) for n in (0, 1)]
        console.print(
            f"drop_ratio, {kind}: of {len(mine)} every stretch within p in {kept}; mean wait within {limit} × "
            f"hindsight in {waits[0]}, of hindsight that holds in every stretch in {waits[1]}"
        )


def draw(measured: list[dict[str, Any]], path: Path) -> None:
    """One picture: wait against the share lost in the worst stretch, for each stream and policy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5), sharey=True, constrained_layout=True)
    names = list(dict.fromkeys(m["policy"] for m in measured))
    for axis, kind in zip(axes, ("steady", "changing", "real"), strict=True):
        for number, name in enumerate(names):
            mine = [m for m in measured if m["kind"] == kind and m["policy"] == name]
            x, y = [max(1e-4, m["worst"]) for m in mine], [m["mean_ratio_0"] for m in mine]
            axis.scatter(x, y, label=name, s=28, alpha=0.75, marker="osD^vP"[number % 6])
        axis.axvline(P, color="grey", linewidth=0.8)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set(xscale="log", yscale="log", title=kind, xlabel="share lost in the worst stretch of 100 pages")
    axes[0].set_ylabel("mean wait / that of the fixed bound chosen with hindsight")
    axes[0].legend()
    for ending in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{ending}"), dpi=120)


def main() -> None:
    """Read the options, run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="length of the generated streams")
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23], help="of the generated streams")
    parser.add_argument("--only", help="run only the streams with this text in their names")
    parser.add_argument("--held-out", action="store_true", help="only two kinds that nothing was chosen with")
    parser.add_argument("--rivals", action="store_true", help="also learned, max_delay and disorder_control")
    parser.add_argument("--out", type=Path, help="where to write the figures, if not to results/")
    parser.add_argument("--data", type=Path, default=_SHARED, help="the folder of the real streams")
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=170)
    kinds = held_out if options.held_out else synthetic
    streams = [stream for seed in options.seeds for stream in kinds(options.seconds, seed)]
    if not options.held_out:
        streams += real(options.data)
    if not options.data.exists() and not options.held_out:
        console.print("[yellow]Of the real streams only flights is here.[/yellow]")
    measured = [
        values
        for stream in streams
        if options.only is None or options.only in stream.name
        for values in measure(stream, options.rivals)
    ]
    show(console, measured)
    out = options.out or _RESULTS / ("progress_held_out.json" if options.held_out else "progress.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    about = {"p": P, "stretch": STRETCH, "seeds": options.seeds, "seconds": options.seconds}
    out.write_text(json.dumps({**about, "measured": measured}, indent=1))
    draw(measured, out)
    console.print("[dim]All figures are in the JSON file, the picture beside it.[/dim]")


if __name__ == "__main__":
    main()
