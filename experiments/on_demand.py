"""S3's experiment (section 6): what timestamps on demand are worth, the paper's figure beside ours.

In virtual time at the paper's scale (default), and with --spark on Spark by the machine's clock.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import matplotlib
from chain import interval
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab.idle_waiting import Case, IdleOutcome, simulate

_RESULTS = Path(__file__).parent / "results"
#: Line, case, the seconds that it runs for as a share of all, and what S3 says of it: waiting, latency, queue.
LINES: list[tuple[str, Case, float, tuple[str, str, str]]] = [
    ("A none", Case(sw.papers.no_enabling()), 1.0, ("99 %", "four orders above C", "thousands")),
    *(
        (f"B periodic, {rate:g} a second", Case(sw.papers.no_enabling(), punctuations=rate), share, said)
        for rate, share, said in (
            (0.1, 1.0, ("", "falls with the rate", "")),
            (1.0, 0.5, ("", "", "falls at first")),
            (10.0, 0.25, ("", "", "")),
            (100.0, 0.1, ("15 %", "", "")),
            (1000.0, 0.02, ("", "never as low as C", "grows again")),
        )
    ),
    ("C on demand", Case(), 0.5, ("< 0.1 %", "0.1 ms above D", "two orders below A")),
    ("D latent", Case(latent=True), 0.5, ("0 %", "the optimum", "")),
]


def simulated(console: Console, seconds: float, seed: int, seeds: int = 1) -> list[dict[str, Any]]:
    """All lines in virtual time: means over some seeds, with half the width of their 95 % intervals."""
    figures = []
    for line, case, share, said in LINES:
        length = max(10.0, seconds * share)
        each = [_figures(simulate(case, length, n)) for n in range(seed, seed + seeds)]
        # A seed may have no tuple of the slow stream: then nothing comes out without enabling timestamps.
        known = {name: [float(of[name]) for of in each if not math.isnan(of[name])] for name in each[0]}
        pairs = {name: interval(values or [math.nan]) for name, values in known.items()}
        means, spread = ({name: pair[part] for name, pair in pairs.items()} for part in (0, 1))
        rate = case.punctuations if line.startswith("B") else None
        figures.append({"line": line, "rate": rate, "seconds": length, "said": said, **means, "spread": spread})
        console.print(f"[dim]{line}: done[/dim]")
    return figures


def draw(figures: list[dict[str, Any]], file: Path) -> None:
    """Figures 7 and 8: latency and the largest queue by how often the slow stream is punctuated."""
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "slackwater", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    picture, panels = pyplot.subplots(1, 2, figsize=(9, 3.6))
    shown = (("mean_ms", "mean latency, ms (Figure 7)"), ("peak_queue", "largest queue, tuples (Figure 8)"))
    for panel, (name, title) in zip(panels, shown, strict=True):
        periodic = [f for f in figures if f["rate"] is not None]
        rates, values = [f["rate"] for f in periodic], [f[name] for f in periodic]
        panel.errorbar(rates, values, [f["spread"][name] for f in periodic], marker="o", label="B periodic")
        for number, f in enumerate(f for f in figures if f["rate"] is None):
            panel.axhline(f[name], linestyle=("--", "-.", ":")[number], color=f"C{number + 1}", label=f["line"])
        panel.set(xscale="log", yscale="log", xlabel="punctuations a second", title=title)
    panels[0].legend()
    picture.tight_layout()
    picture.savefig(file, metadata={"Date": None})


def _figures(outcome: IdleOutcome) -> dict[str, Any]:
    return {
        "tuples": len(outcome.latencies),
        "mean_ms": outcome.mean / 1e3,
        "median_ms": outcome.median / 1e3,
        "idle_waiting_percent": 100 * outcome.idle_waiting,
        "peak_queue": outcome.peak_queue,
        "enabling_timestamps": outcome.enabled,
    }


def show(console: Console, figures: list[dict[str, Any]]) -> None:
    """The lines beside what S3 says."""
    table = Table(title="S3's experiment in virtual time: 50 and 0.05 tuples a second, 95 % pass, ordered union")
    columns = ("line", "mean, ms", "median, ms", "S3", "waiting, %", "S3", "peak queue", "S3", "ETS")
    for name in columns:
        table.add_column(name, justify="left" if name in ("line", "S3") else "right")
    for f in figures:
        waiting, latency, queue = f["said"]
        table.add_row(
            f["line"],
            _number(f["mean_ms"], 3),
            _number(f["median_ms"], 3),
            latency,
            _number(f["idle_waiting_percent"], 3),
            waiting,
            _number(f["peak_queue"], 0),
            queue,
            _number(f["enabling_timestamps"], 0),
        )
    console.print(table)
    of = {f["line"]: f for f in figures}
    a, c, d = of["A none"], of["C on demand"], of["D latent"]
    console.print(
        f"C is {c['mean_ms'] - d['mean_ms']:.3f} ms above D; A is {a['mean_ms'] / c['mean_ms']:,.0f} times C; "
        f"peak queue A / C: {a['peak_queue'] / c['peak_queue']:.0f}"
    )


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--virtual", type=float, default=200.0, help="seconds of virtual time; 0 leaves it out")
    parser.add_argument("--spark", action="store_true", help="also on Spark, by the machine's clock")
    parser.add_argument("--seconds", type=float, default=45.0, help="seconds of each case on Spark")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, for intervals")
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures")
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"seed": options.seed}
    if options.virtual:
        found["virtual"] = simulated(console, options.virtual, options.seed, options.seeds)
        draw(found["virtual"], options.out / "on_demand.svg")
        show(console, found["virtual"])
    if options.spark:
        from on_demand_on_spark import on_spark

        found["spark"] = on_spark(console, options.seconds)
    (options.out / "on_demand.json").write_text(json.dumps(found, indent=1))
    console.print(f"[dim]Written: {options.out / 'on_demand.json'}[/dim]")


if __name__ == "__main__":
    main()
