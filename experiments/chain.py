"""S2 section 6: queue sizes and latencies of Chain and its rivals, in virtual time, beside what the paper says.

    .venv/bin/python experiments/chain.py                  # five seeds: some minutes
    .venv/bin/python experiments/chain.py --pages 240      # a quick look

The paper's five settings with the engine's own executor: two operators, four operators, a join with a stored
relation, a join of windows, three queries at once. Pages come in bursts (Pareto on/off), by chance, or as in a real
trace. The text that we have of the paper has lost its digits. So costs and selectivities are ours, of the kinds
that it describes. What it says of other things than queues is measured, too: how often operators switch, what a
random mix of Chain and FIFO gives, and what wrong estimates cost.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from streams import SHARED, real

import slackwater as sw
from experiments.lab.bursty import Pattern, load, most_work, on_off, poisson, trace
from experiments.lab.operator_work import FactoredChain, MisledChain
from experiments.lab.simulation import Case, SimulationOutcome, Virtual, simulate
from slackwater.scheduling.strategy import Strategy

matplotlib.use("Agg")
from matplotlib import pyplot

_RESULTS = Path(__file__).parent / "results"
ROWS = 100
OURS = "chain, bounded"
RIVALS = ("greedy", "fifo", "round-robin")
MIX = "random mix"
#: Factors by which costs and selectivities are estimated wrongly.
WRONG = (2.0, 4.0)
COLOURS = {"chain": "#c8553d", OURS: "#e9a03b", "fifo": "#444444", "greedy": "#1f77b4", "round-robin": "#2ca02c"}
#: Student's t for 95 % with 1, 2, … degrees of freedom; from 9 on the last.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


def _path(name: str, stream: str, *steps: tuple[float, float]) -> tuple[Virtual, ...]:
    """Operators by their microseconds a row of their own, and the rows that they give for one."""
    made, below = [], stream
    for n, (cost, selectivity) in enumerate(steps, 1):
        made.append(Virtual(f"{name}{n}", (below,), cost, selectivity))
        below = f"{name}{n}"
    return tuple(made)


_TWO = ((1.0, 0.2), (20.0, 0.0))
#: The third is fast and selective, and stands between two that are neither.
_FOUR = ((1.0, 0.9), (3.0, 0.99), (0.3, 0.1), (60.0, 0.0))
#: The second gives two rows for one.
_STORED = ((1.0, 0.9), (2.0, 2.0), (0.5, 0.05), (60.0, 0.0))


def _join(name: str, r: str, s: str) -> tuple[Virtual, ...]:
    """A filter on R, the join, a selective filter behind it, and a slow one that keeps much."""
    return (
        Virtual(f"{name}1", (r,), 2.0, 0.9),
        Virtual(f"{name}join", (f"{name}1", s), 2.0, 1.0),
        Virtual(f"{name}2", (f"{name}join",), 0.5, 0.1),
        Virtual(f"{name}3", (f"{name}2",), 60.0, 0.0),
    )


CASES: dict[str, Case] = {
    "two operators": Case(("s",), _path("o", "s", *_TWO)),
    "four operators": Case(("s",), _path("o", "s", *_FOUR)),
    "stored relation": Case(("s",), _path("o", "s", *_STORED)),
    "window join": Case(("r", "s"), _join("j", "r", "s")),
    "three queries": Case(
        ("r", "s", "p", "q"), (*_join("j", "r", "s"), *_path("p", "p", *_FOUR), *_path("q", "q", *_TWO))
    ),
}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper about the peaks of a setting, and whether it holds."""

    case: str
    says: str
    holds: Callable[[dict[str, float]], bool]
    """Of the peaks, each as a multiple of Chain's."""
    arrivals: tuple[str, ...] = ()
    """Where it is said of some arrivals only."""


CLAIMS = (
    Claim("two operators", "Chain and Greedy are almost identical", lambda of: abs(of["greedy"] - 1) < 0.05),
    Claim("two operators", "Round-robin is almost as good", lambda of: of["round-robin"] < 1.25),
    Claim("two operators", "FIFO is bad", lambda of: of["fifo"] > 1.3),
    Claim("four operators", "Greedy is bad", lambda of: of["greedy"] > 1.3),
    Claim("four operators", "FIFO and Round-robin are nearly as bad as Greedy",
          lambda of: min(of["fifo"], of["round-robin"]) > 0.75 * of["greedy"] and of["fifo"] > 1.3),
    Claim("stored relation", "Chain is vastly better than Greedy", lambda of: of["greedy"] > 1.5),
    Claim("stored relation", "Round-robin is as bad as Greedy",
          lambda of: of["round-robin"] > 0.75 * of["greedy"]),
    Claim("window join", "Greedy and FIFO are much worse", lambda of: min(of["greedy"], of["fifo"]) > 1.3),
    Claim("window join", "Round-robin is really bad on synthetic data",
          lambda of: of["round-robin"] > 1.3, ("Pareto on/off",)),
    Claim("window join", "Round-robin compares well on real data",
          lambda of: of["round-robin"] < 1.25, ("http", "flights")),
    Claim("three queries", "Chain beats all others by a huge margin",
          lambda of: min(of["greedy"], of["fifo"], of["round-robin"]) > 1.5),
)  # fmt: skip


def patterns(folder: Path, console: Console) -> dict[str, Pattern]:
    """Those that can be made here."""
    flights = next(real(folder)).rows()["arrival"].to_numpy()
    made = {"Pareto on/off": on_off(), "Poisson": poisson(), "flights": trace(flights)}
    web = folder / "http.parquet"
    if web.exists():
        made["http"] = trace(pl.read_parquet(web)["time"].dt.timestamp("us").sort().to_numpy())
    else:
        console.print(f"[yellow]{web.name} is not there: the web trace is left out[/yellow]")
    return made


def strategies(case: Case, comes: list[Any], seed: int) -> dict[str, Strategy]:
    """All; the bound of ours is what the load fits into, and a quarter more."""
    bound = 1.25 * most_work(case, comes) / 1e6
    misled = {f"misled by {factor:g}": MisledChain(factor, seed) for factor in WRONG}
    return {
        "chain": sw.chain(),
        OURS: FactoredChain(bound),
        "greedy": sw.papers.greedy(),
        "fifo": sw.fifo(),
        "round-robin": sw.papers.round_robin(quantum="1 ms"),
        MIX: sw.papers.random_mix(fifo=0.5, seed=seed),
        **misled,
    }


def figures(out: SimulationOutcome) -> dict[str, float]:
    """Queues in pages, latencies in milliseconds."""
    waits = np.asarray(out.latencies) / 1e3
    return {
        "peak": out.peak / ROWS,
        "mean": out.mean / ROWS,
        "latency_mean": float(waits.mean()),
        "latency_p99": float(np.quantile(waits, 0.99)),
        "latency_max": float(waits.max()),
        "switches": out.switches / out.runs,
    }


def interval(values: list[float]) -> tuple[float, float]:
    """The mean over seeds, and half of its 95 % interval."""
    if len(values) < 2:
        return values[0], 0.0
    t = _T[min(len(values) - 2, len(_T) - 1)]
    return mean(values), t * stdev(values) / len(values) ** 0.5


def over_seeds(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each arrivals, setting and strategy: means over the seeds, and the interval of the ratio."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault((row["arrivals"], row["case"], row["strategy"]), []).append(row)
    rows = []
    for (arrivals, case, strategy), of in groups.items():
        figures_of = [key for key in of[0] if key not in ("arrivals", "case", "strategy", "seed")]
        means = {key: mean(row[key] for row in of) for key in figures_of}
        means["times_chain"], means["plus_minus"] = interval([row["times_chain"] for row in of])
        rows.append({"arrivals": arrivals, "case": case, "strategy": strategy, **means})
    return rows


def show(console: Console, name: str, rows: list[dict[str, Any]]) -> None:
    """A table of one kind of arrivals."""
    table = Table(title=f"arrivals: {name}")
    columns = (
        "setting",
        "strategy",
        "peak queue",
        "× Chain",
        "±",
        "mean queue",
        "latency, ms",
        "99 %",
        "longest",
        "bound",
        "switches",
    )
    for column in columns:
        table.add_column(column, justify="left" if column in ("setting", "strategy") else "right")
    for row in rows:
        bound = f"{row['bound']:,.1f}" if "bound" in row else ""
        table.add_row(
            row["case"] if row["strategy"] == "chain" else "",
            row["strategy"],
            *(f"{row[key]:,.1f}" for key in ("peak",)),
            f"{row['times_chain']:.2f}",
            f"{row['plus_minus']:.2f}",
            *(f"{row[key]:,.1f}" for key in ("mean", "latency_mean", "latency_p99", "latency_max")),
            bound,
            f"{100 * row['switches']:.0f} %",
        )
    console.print(table)


def judge(console: Console, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the paper claims, beside what came out with each seed."""
    judged = []
    table = Table(title="S2's claims (peak queues, as multiples of Chain's: mean and 95 % interval over seeds)")
    for column in ("setting", "arrivals", "S2 says", "here", "holds with"):
        table.add_column(column)
    for claim in CLAIMS:
        for arrivals in claim.arrivals or dict.fromkeys(row["arrivals"] for row in found):
            by_seed: dict[int, dict[str, float]] = {}
            for row in found:
                if row["case"] == claim.case and row["arrivals"] == arrivals:
                    by_seed.setdefault(row["seed"], {})[row["strategy"]] = row["times_chain"]
            if not by_seed:
                continue
            of = {name: interval([peaks[name] for peaks in by_seed.values()]) for name in RIVALS}
            here = ", ".join(f"{name} {middle:.2f} ± {half:.2f}" for name, (middle, half) in of.items())
            holds, seeds = sum(map(claim.holds, by_seed.values())), len(by_seed)
            means = {name: middle for name, (middle, _) in of.items()}
            intervals = {f"{name} ±": half for name, (_, half) in of.items()}
            verdict = "yes" if holds == seeds else "no" if not holds else f"{holds} of {seeds} seeds"
            judged.append(
                {
                    "case": claim.case,
                    "arrivals": arrivals,
                    "claim": claim.says,
                    **means,
                    **intervals,
                    "holds": verdict,
                }
            )
            table.add_row(claim.case, arrivals, claim.says, here, verdict if holds else "[red]no[/red]")
    console.print(table)
    return judged


def draw(case: str, arrivals: str, outs: dict[str, SimulationOutcome], folder: Path) -> str:
    """Queue size over time, as in the paper's figures."""
    matplotlib.rcParams.update({"svg.hashsalt": "slackwater", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    figure, axis = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for name, out in outs.items():
        # A picture has no more places than this.
        grid = np.linspace(0, out.times[-1], 800)
        places = np.searchsorted(out.times, grid, side="right") - 1
        y = np.asarray(out.memory)[np.maximum(places, 0)] / ROWS
        axis.plot(grid / 1e6, y, color=COLOURS[name], linewidth=1, label=name)
    axis.set(title=f"{case}, {arrivals}", xlabel="time, s", ylabel="pages in all queues")
    axis.legend(fontsize=8)
    name = f"chain_{case}_{arrivals}".replace(" ", "_").replace("/", "_").lower() + ".svg"
    figure.savefig(folder / name, metadata={"Date": None})
    pyplot.close(figure)
    return name


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_200, help="pages of each stream")
    parser.add_argument("--load", type=float, default=0.9, help="share of the time that the work takes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="of the arrivals")
    parser.add_argument("--only", action="append", choices=list(CASES), help="settings; may be repeated")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder of real traces")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures and pictures")
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
    options.out.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, Any]] = []
    pictures: list[str] = []
    for arrivals, pattern in patterns(options.data, console).items():
        for name in options.only or CASES:
            case = CASES[name]
            for seed in options.seeds:
                comes = load(case, pattern, options.pages // len(case.streams), options.load, seed, ROWS)
                played = strategies(case, comes, seed)
                outs = {label: simulate(case, comes, strategy) for label, strategy in played.items()}
                for label, out in outs.items():
                    row = {"arrivals": arrivals, "case": name, "strategy": label, "seed": seed, **figures(out)}
                    row["times_chain"] = row["peak"] / (outs["chain"].peak / ROWS)
                    strategy = played[label]
                    if isinstance(strategy, FactoredChain):
                        row |= {"bound": 1e3 * strategy.max_wait, "factor": strategy.factor}
                    found.append(row)
                if seed == options.seeds[0]:
                    drawn = {label: out for label, out in outs.items() if label in COLOURS}
                    pictures.append(draw(name, arrivals, drawn, options.out))
        show(console, arrivals, over_seeds([row for row in found if row["arrivals"] == arrivals]))
    judged = judge(console, found)
    settings = {"pages": options.pages, "load": options.load, "seeds": options.seeds}
    written = {**settings, "figures": over_seeds(found), "by_seed": found, "claims": judged, "pictures": pictures}
    (options.out / "chain.json").write_text(json.dumps(written, indent=1))
    console.print(f"[dim]Written: {options.out / 'chain.json'} and {len(pictures)} pictures[/dim]")


if __name__ == "__main__":
    main()
