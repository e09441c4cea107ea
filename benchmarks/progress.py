"""Disorder policies beside the fixed bound that hindsight would have chosen: share lost, wait, rows buffered.

No Spark: pages go through a policy's tracker, windows are counted by arithmetic; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater
from slackwater.progress.time import TimeDomain
from slackwater.testing import arrivals as make
from slackwater.testing.trial import (
    Case,
    Outcome,
    Paged,
    figures,
    fixed,
    hindsight,
    hindsight_in_every_stretch,
    run,
)
from slackwater.windows.spec import WindowSpec

P, STRETCH, WARM_UP = 0.01, 100, 100
SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
_RESULTS = Path(__file__).parent / "results"
_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
_FLIGHTS = Path(slackwater.__file__).parent / "data" / "flights.parquet"
HINDSIGHT, EVERY = "hindsight", "hindsight, every stretch"
#: Policies under their constructors' names; those that are not there are left out.
RIVALS = ("drop_ratio.max_delay", "learned.learned", "drop_ratio.disorder_control")


@dataclass(frozen=True)
class Stream:
    """A stream, how it is cut into pages, and the windows over it (range and slide in ticks)."""

    name: str
    kind: str
    """steady, changing or real."""
    load: Callable[[], pl.DataFrame]
    page: int
    windows: tuple[tuple[int, int], ...]


def synthetic(seconds: float, seed: int, windows: tuple[tuple[int, int], ...]) -> Iterator[Stream]:
    """Generated streams, pages of a second, 100 rows a second where nothing else is said."""
    e, half, tenth = make.exponential, seconds / 2, seconds / 10
    steady: dict[str, tuple[make.Delay, dict[str, Any]]] = {
        "in order": (make.none(), {}),
        "exponential 0.3 s": (e(0.3), {}),
        "exponential 2 s": (e(2), {}),
        "exponential 10 s": (e(10), {}),
        "uniform 5 s": (make.uniform(5), {}),
        "Pareto 2.5": (make.pareto(2, 2.5), {}),
        "log-normal": (make.lognormal(1), {}),
        "one slow source in 50": (e(1), {"slow": e(10)}),
        "bursts": (e(2), {"bursts": (50, 5)}),
        "5 rows a page": (e(2), {"rate": 5}),
        "1,000 rows a page": (e(2), {"rate": 1000}),
    }
    back = make.regimes((0, e(1)), *((tenth * 2.5 * n, e(6 if n % 2 else 1)) for n in (1, 2, 3)))
    changing: dict[str, tuple[make.Delay, dict[str, Any]]] = {
        "worse 1 to 5 s": (make.regimes((0, e(1)), (half, e(5))), {}),
        "worse 1 to 20 s": (make.regimes((0, e(1)), (half, e(20))), {}),
        "worse, uniform 2 to 10 s": (make.regimes((0, make.uniform(2)), (half, make.uniform(10))), {}),
        "better 5 to 1 s": (make.regimes((0, e(5)), (half, e(1))), {}),
        "back and forth 1, 6 s": (back, {}),
        "outages": (make.outages(e(1), 200, 20), {}),
    }
    for kind, group in (("steady", steady), ("changing", changing)):
        for name, (delay, options) in group.items():
            load = lambda d=delay, o=options: make.arrivals(d, seconds=seconds, seed=seed, **o)  # noqa: E731
            yield Stream(name, kind, load, SECOND, windows)


def real(folder: Path, quick: bool) -> Iterator[Stream]:
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
            return rows.head(60_000) if quick and name == "flights" else rows

        if path.exists():
            yield Stream(name, "real", load, page, windows)


def policies() -> dict[str, Any]:
    """What is compared: drop_ratio, and those of the others that this version has."""
    found: dict[str, Any] = {"drop_ratio": slackwater.drop_ratio(P)}
    for place in RIVALS:
        name = place.rpartition(".")[2]
        try:
            found[name] = getattr(importlib.import_module(f"slackwater.progress.{place}"), name)()
        except (ImportError, AttributeError, TypeError):
            continue
    return found


def measure(stream: Stream, console: Console, errors: list[str]) -> list[dict[str, Any]]:
    """All windows and policies over one stream."""
    rows = stream.load()
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), stream.page)
    measured = []
    for length, slide in stream.windows:
        case = Case.of(paged, WindowSpec(length, slide))
        best = fixed(case, hindsight(case, P))
        every = fixed(case, hindsight_in_every_stretch(case, P, STRETCH, WARM_UP))
        outcomes: dict[str, tuple[Outcome, float]] = {HINDSIGHT: (best, 0.0), EVERY: (every, 0.0)}
        for name, policy in policies().items():
            began = time.perf_counter()
            try:
                outcomes[name] = run(policy.tracker(TimeDomain.TIMESTAMP), case), 0.0
            except Exception as error:
                errors.append(f"{stream.name}, {name}: {type(error).__name__}: {error}")
                continue
            outcomes[name] = outcomes[name][0], (time.perf_counter() - began) / len(paged)
        for name, (outcome, cost) in outcomes.items():
            values = figures(outcome, [best, every], STRETCH, WARM_UP)
            about = {"stream": stream.name, "kind": stream.kind, "range": length, "slide": slide, "policy": name}
            measured.append({**about, "pages": len(paged), "rows": len(rows), "seconds_a_page": cost, **values})
    console.print(f"[dim]{stream.name}[/dim]")
    return measured


def show(console: Console, measured: list[dict[str, Any]]) -> None:
    """The table, and in how many cases what is asked for holds."""
    table = Table(title=f"Share lost and wait (p = {P:.0%}; waits as ratios to the two fixed bounds)")
    left = ("stream", "windows", "policy")
    for name in (
        *left,
        "lost",
        "worst stretch",
        "mean wait",
        "mean",
        "p95",
        "mean, e.s.",
        "p95, e.s.",
        "buffer",
        "max",
    ):
        table.add_column(name, justify="left" if name in left else "right")
    for m in measured:
        spec = f"{m['range'] / SECOND:g} s" + ("" if m["range"] == m["slide"] else f" / {m['slide'] / SECOND:g} s")
        worst = f"{m['worst']:.2%}"
        ratios = (f"{m[k]:.2f}" for k in ("mean_ratio_0", "p95_ratio_0", "mean_ratio_1", "p95_ratio_1"))
        table.add_row(
            m["stream"],
            spec,
            m["policy"],
            f"{m['share']:.2%}",
            worst if m["worst"] <= P else f"[red]{worst}[/red]",
            f"{m['wait_mean'] / SECOND:,.1f} s",
            *ratios,
            f"{m['buffer_mean']:,.0f}",
            f"{m['buffer_max']:,}",
        )
    console.print(table)
    for line in summary(measured):
        console.print(line)


def summary(measured: list[dict[str, Any]]) -> list[str]:
    """How often each policy keeps to what drop_ratio promises."""
    lines = []
    for name in dict.fromkeys(m["policy"] for m in measured):
        for kind, limit in (("steady", 1.15), ("changing", 1.0), ("real", 1.15)):
            mine = [m for m in measured if m["policy"] == name and m["kind"] == kind]
            if mine:
                kept = sum(m["worst"] <= P for m in mine)
                waits = [sum(m[f"mean_ratio_{n}"] <= limit for m in mine) for n in (0, 1)]
                lines.append(
                    f"{name}, {kind}: of {len(mine)} every stretch within p in {kept}; mean wait within {limit} × "
                    f"hindsight in {waits[0]}, of hindsight that holds in every stretch in {waits[1]}"
                )
    return lines


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
    parser.add_argument("--quick", action="store_true", help="shorter streams, two window shapes")
    parser.add_argument("--seed", type=int, default=2024, help="of the generated streams")
    parser.add_argument("--only", help="run only the streams with this text in their names")
    parser.add_argument("--out", type=Path, default=_RESULTS / "progress.json", help="where to write the figures")
    parser.add_argument("--data", type=Path, default=_SHARED, help="the folder of the real streams")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    shapes = ((SECOND, SECOND), (20 * SECOND, SECOND))
    if not options.quick:
        shapes += ((10 * SECOND, 10 * SECOND), (60 * SECOND, 60 * SECOND))
    streams = [*synthetic(500 if options.quick else 1000, options.seed, shapes), *real(options.data, options.quick)]
    if not options.data.exists():
        console.print("[yellow]Of the real streams only flights is here.[/yellow]")
    errors: list[str] = []
    measured = [
        values
        for stream in streams
        if options.only is None or options.only in stream.name
        for values in measure(stream, console, errors)
    ]
    show(console, measured)
    for error in errors:
        console.print(f"[red]{error}[/red]")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"p": P, "stretch": STRETCH, "warm_up": WARM_UP, "seed": options.seed, "quick": options.quick}
    options.out.write_text(json.dumps({**about, "errors": errors, "measured": measured}, indent=1))
    draw(measured, options.out)
    console.print("[dim]All figures are in the JSON file, the picture beside it.[/dim]")


if __name__ == "__main__":
    main()
