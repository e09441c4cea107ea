"""S5's experiments (chapter 4) on this engine: the thesis's figure beside ours, for each figure that it states.

The small ones run on Spark by replay, the long sweeps in this process; see experiments/README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pictures
import polars as pl
import thesis
from play import AGGREGATES, SECOND, Answers, Query, accuracy, behind_map, coverage, gain, in_process, on_spark
from rich.console import Console
from rich.table import Table
from streams import DISTRIBUTIONS, SHARED, real

import slackwater as sw
from slackwater.testing import prodded as make
from slackwater.testing.arrivals import none

_RESULTS = Path(__file__).parent / "results"
#: Microseconds that the expensive operator takes for a row.
COST = 10_000
TARGETS = {"corrected": 97.0, "coverage": (88.0, 94.0)}


@dataclass
class Bench:
    """How the experiments run, and what they have given so far."""

    console: Console
    fast: bool
    quick: bool
    seed: int
    data: Path
    figures: list[dict[str, Any]] = field(default_factory=list)
    curves: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Points for the pictures."""
    notes: list[str] = field(default_factory=list)

    def play(self, rows: pl.DataFrame, query: Query, small: bool = False) -> Answers:
        """On Spark what is small, unless it should be fast."""
        if self.fast or not small:
            return in_process(rows, query)
        with sw.Session() as session:
            return on_spark(session, rows, query)

    def where(self, small: bool) -> str:
        """Where `play` runs it."""
        return "Spark" if small and not self.fast else "in process"

    def add(self, experiment: str, case: str, figure: str, thesis: object, ours: float, **more: Any) -> None:
        """Keep a figure; `thesis` is None where S5 states none."""
        self.figures.append(
            {"experiment": experiment, "case": case, "figure": figure, "thesis": thesis, "ours": ours, **more}
        )

    def point(self, curve: str, **values: Any) -> None:
        """Keep a point of a curve."""
        self.curves.setdefault(curve, []).append(values)

    def series(self, curve: str, answers: Answers) -> None:
        """Keep the early and final latencies of each window."""
        # The last windows end with the stream, before their time.
        finals = answers.finals.filter(pl.col("final_at") >= pl.col("window_end"))
        for row in finals.join(answers.pairs, on="window_start", how="left").iter_rows(named=True):
            early = row["early_at"]
            self.point(
                curve,
                end=row["window_end"] / SECOND,
                final=(row["final_at"] - row["window_end"]) / SECOND,
                early=None if early is None else (early - row["window_end"]) / SECOND,
            )


# --- section 4.3.1: delays


def delays(bench: Bench) -> None:
    """Q4-1, and MAX over longer streams (Table 4.2)."""
    query = Query(
        "10 minutes", "2 minutes", {"sum": "sum(value)"}, sw.early(at="90 seconds"), sw.punctuated("upto")
    )
    rows = make.punctuated(make.reports(2_400 if bench.quick else 7_200, seed=bench.seed), 120 * SECOND)
    answers = bench.play(rows, query, small=True)
    name, case = "Q4-1: SUM, 10 min / 2 min, at 90 s", bench.where(small=True)
    _latency(bench, name, case, answers, "sum", thesis.Q4_1)
    bench.series("Q4-1", answers)
    bounded = Query(query.range, query.slide, query.aggregates, query.early, sw.bounded("20 seconds"))
    later = bench.play(rows, bounded).pairs.filter("inner")
    bench.add(name, "in process, bounded('20 seconds')", "seconds earlier", thesis.Q4_1[1], gain(later)["seconds"])
    for seconds, said in thesis.MAX.items():
        length = seconds // 5 if bench.quick else seconds
        small = seconds == 1000
        rows = make.punctuated(make.steady(length, seed=bench.seed), 10 * SECOND)
        query = Query(
            "30 seconds",
            "10 seconds",
            {"max": "max(value)"},
            sw.early(at="7 seconds"),
            sw.punctuated("upto"),
            "0.5 seconds",
        )
        case = f"{length} s, {bench.where(small)}"
        _latency(bench, "MAX, 30 s / 10 s, at 7 s", case, bench.play(rows, query, small), "max", said)


def _latency(
    bench: Bench, name: str, case: str, answers: Answers, aggregate: str, said: tuple[float, float]
) -> None:
    pairs, inner = answers.pairs, answers.pairs.filter("inner")
    bench.add(name, case, "accuracy", said[0], accuracy(pairs, aggregate)["mean"], windows=len(pairs))
    bench.add(name, case, "accuracy, whole windows", None, accuracy(inner, aggregate)["mean"], windows=len(inner))
    bench.add(name, case, "the same, corrected", None, accuracy(inner, aggregate, aggregate)["mean"])
    bench.add(name, case, "seconds earlier", said[1], gain(inner)["seconds"])


# --- section 4.3.2: bursts


def bursts(bench: Bench) -> None:
    """Q4-2 behind an operator that takes 10 ms for a row; prods overtake what waits before it (Table 4.3)."""
    query = Query(
        "5 seconds",
        "1 second",
        {"max": "max(value)"},
        sw.early(at="1.2 seconds"),
        sw.punctuated("upto"),
        "0.1 seconds",
    )
    for times, said in thesis.BURSTS.items():
        if bench.quick and times > 1:
            continue
        made = make.bursty(160 * times, values=make.rising_values(), seed=bench.seed)
        answers = behind_map(make.punctuated(made, SECOND), query, COST, None)
        _burst(bench, f"{len(made):,} rows", answers, said)
        if times == 1:
            bench.series("Q4-2", answers)
    sidelined(bench, query)


def sidelined(bench: Bench, query: Query) -> None:
    """A large burst, with a sideline and without; pages of a burst as large as others, and larger."""
    # A page is set aside when all its windows have been prodded: one that waits for less than that is not.
    large = make.bursty(160, rate=60, bursts=((20, 25, 400),), values=make.rising_values(), seed=bench.seed)
    rows = make.punctuated(large, SECOND)
    tumbling = replace(query, slide=query.range, early=sw.early(at="5.2 seconds"), most=6)
    for windows, asked in (
        ("sliding", replace(query, most=6)),
        ("tumbling", tumbling),
        ("tumbling, large pages", replace(tumbling, most=None)),
    ):
        for kind, sideline in (("no sideline", None), ("sideline(ratio=4)", sw.sideline(ratio=4))):
            answers = behind_map(rows, asked, COST, sideline)
            _burst(bench, f"large, {windows}, {kind}", answers, (None, None))
            bench.series(f"{windows}, {kind}", answers)


def _burst(bench: Bench, case: str, answers: Answers, said: tuple[float | None, float | None]) -> None:
    name, pairs, finals = "Q4-2: MAX, 5 s / 1 s, bursts", answers.pairs, answers.finals
    waits = (finals["final_at"] - finals["window_end"]).to_numpy() / SECOND
    waits = waits[waits >= 0]
    bench.add(name, case, "accuracy", said[0], accuracy(pairs, "max")["mean"], windows=len(pairs))
    bench.add(name, case, "the same, worst", None, accuracy(pairs, "max")["worst"])
    bench.add(name, case, "seconds earlier", said[1], gain(pairs)["seconds"])
    bench.add(name, case, "windows with an early answer, %", None, 100 * len(pairs) / len(finals))
    bench.add(name, case, "final answers after the end, mean s", None, float(waits.mean()))
    bench.add(name, case, "final answers within 0.5 s, %", None, float(100 * (waits <= 0.5).mean()))


# --- section 4.4: aggressiveness


def aggressiveness(bench: Bench) -> None:
    """Accuracy against aggressiveness: four aggregates, four distributions, sliding and tumbling windows."""
    steps = (10, 50) if bench.quick else (10, 20, 30, 40, 50)
    for distribution, values in DISTRIBUTIONS.items():
        if bench.quick and distribution not in ("uniform", "normal, SD 400"):
            continue
        for kind, slide in (("sliding", 10), ("tumbling", 30)):
            rows = make.dense(500 if bench.quick else 2_000, values=values, seed=bench.seed)
            rows = make.punctuated(rows, slide * SECOND)
            for step in steps:
                at = sw.early(at=(100 - step) / 100)
                query = Query("30 seconds", f"{slide} seconds", AGGREGATES, at, sw.punctuated("upto"))
                _aggressive(bench, distribution, kind, step, bench.play(rows, query))


def _aggressive(bench: Bench, distribution: str, kind: str, step: int, answers: Answers) -> None:
    pairs, inner = answers.pairs, answers.pairs.filter("inner")
    for name in AGGREGATES:
        seen, whole = accuracy(pairs, name), accuracy(inner, name)
        corrected = accuracy(inner, name, name)
        bench.point(
            "aggressiveness",
            distribution=distribution,
            kind=kind,
            aggressiveness=step,
            aggregate=name,
            **{f"all_{k}": v for k, v in seen.items()},
            **{f"whole_{k}": v for k, v in whole.items()},
            **{f"corrected_{k}": v for k, v in corrected.items()},
            **{f"gain_{k}": v for k, v in gain(inner).items()},
            covered=coverage(inner, name)["covered"],
            windows=len(inner),
        )
        case = f"{distribution}, {kind}, {name}"
        more = {"whole": whole["mean"], "corrected": corrected["mean"]}
        if distribution == "uniform" and kind == "sliding":
            said = thesis.UNIFORM[name].get(step)
            bench.add(f"average accuracy at P = {step} %", case, "accuracy", said, seen["mean"], **more)
        if distribution == "normal, SD 400":
            table = thesis.WORST_SLIDING if kind == "sliding" else thesis.WORST_TUMBLING
            worst = {"whole": whole["worst"], "corrected": corrected["worst"]}
            said = table.get(name, {}).get(step)
            bench.add(f"worst accuracy at P = {step} %", case, "accuracy", said, seen["worst"], **worst)


# --- what S5 holds for difficult: estimates and intervals


def estimates(bench: Bench) -> None:
    """Corrected estimates and 90 % intervals at P = 50 %, over at least 1,000 windows where there are so many."""
    windows = 100 if bench.quick else 1_050
    for distribution, values in DISTRIBUTIONS.items():
        for kind, slide, page in (("sliding", 10, "2.5 seconds"), ("tumbling", 30, "5 seconds")):
            rows = make.dense(windows * slide, values=values, seed=bench.seed + 1)
            _at_half(bench, f"dense, {distribution}, {kind}", rows, slide, page)
            if distribution == "uniform":
                rows = make.steady(windows * slide, rate=20, values=values, delay=none(), seed=bench.seed + 1)
                _at_half(bench, f"even, {distribution}, {kind}", rows, slide, page)


def _at_half(bench: Bench, case: str, rows: pl.DataFrame, slide: int, page: str) -> None:
    early, disorder = sw.early(at=0.5), sw.punctuated("upto")
    query = Query("30 seconds", f"{slide} seconds", AGGREGATES, early, disorder, page)
    # 20 rows a second, values of this mean, half of the slide missing: no more can be known of independent rows.
    mean = 499.5 if "uniform" in case else 500.0
    known = {"count": 20 * slide / 2, "sum": 20 * mean * slide / 2}
    _estimated(bench, case, bench.play(make.punctuated(rows, slide * SECOND), query), known)


def data_sets(bench: Bench) -> None:
    """The same on real streams."""
    for stream in real(bench.data):
        if not stream.path.exists():
            bench.notes.append(f"{stream.name} is not here: left out")
            continue
        rows = stream.rows()
        rows = rows.head(20_000) if bench.quick else rows
        query = Query(
            stream.range, stream.slide, AGGREGATES, sw.early(at=0.5), sw.bounded(stream.slack), stream.page
        )
        _estimated(bench, f"{stream.name}, {stream.range} / {stream.slide}", bench.play(rows, query))


def _estimated(bench: Bench, case: str, answers: Answers, known: dict[str, float] | None = None) -> None:
    """Keep the figures; `known` is the rest that one would expect who knows how the stream was made."""
    pairs = answers.pairs.filter("inner")
    for name in AGGREGATES:
        inside = coverage(pairs, name)
        bench.point(
            "estimates",
            case=case,
            aggregate=name,
            windows=len(pairs),
            seen=accuracy(pairs, name)["mean"],
            corrected=accuracy(pairs, name, name)["mean"],
            best=_with_rest(pairs, name, (known or {}).get(name)),
            covered=inside["covered"],
            with_interval=inside["windows"],
            width=inside["width"],
            seconds=gain(pairs)["seconds"],
        )


def _with_rest(pairs: pl.DataFrame, name: str, rest: float | None) -> float | None:
    if rest is None:
        return None
    return accuracy(pairs.with_columns((pl.col(f"{name}_seen") + rest).alias("best")), name, "best")["mean"]


EXPERIMENTS: dict[str, Callable[[Bench], None]] = {
    "delays": delays,
    "bursts": bursts,
    "aggressiveness": aggressiveness,
    "estimates": estimates,
    "data": data_sets,
}


# --- tables


def show(bench: Bench) -> None:
    """All figures beside the thesis's, then estimates and intervals."""
    if bench.figures:
        bench.console.print(_beside(bench.figures))
    if "estimates" in bench.curves:
        bench.console.print(_intervals(bench.curves["estimates"]))
    for note in bench.notes:
        bench.console.print(f"[yellow]{note}[/yellow]")


def _beside(figures: list[dict[str, Any]]) -> Table:
    table = Table(title="S5's figures beside ours (accuracy in percent, early answers of what has arrived)")
    for name in ("experiment", "case", "figure", "S5", "ours", "whole windows", "corrected"):
        table.add_column(name, justify="left" if name in ("experiment", "case", "figure") else "right")
    last = ""
    for f in figures:
        table.add_row(
            f["experiment"] if f["experiment"] != last else "",
            f["case"],
            f["figure"],
            _number(f["thesis"]),
            _number(f["ours"]),
            _number(f.get("whole")),
            _number(f.get("corrected")),
        )
        last = f["experiment"]
    return table


def _intervals(points: list[dict[str, Any]]) -> Table:
    low, high = TARGETS["coverage"]  # type: ignore[misc]
    table = Table(
        title="Early answers at P = 50 %, whole windows "
        f"(targets: sum and count corrected ≥ {TARGETS['corrected']:g} %, 90 % intervals hold {low:g}–{high:g} %)"
    )
    for name in (
        "stream",
        "aggregate",
        "windows",
        "seen",
        "corrected",
        "best",
        "covered",
        "width, %",
        "s earlier",
    ):
        table.add_column(name, justify="left" if name in ("stream", "aggregate") else "right")
    last = ""
    for p in points:
        kept = low <= p["covered"] <= high or math.isnan(p["covered"])
        good = p["corrected"] >= TARGETS["corrected"] or p["aggregate"] in ("avg", "max")  # type: ignore[operator]
        table.add_row(
            p["case"] if p["case"] != last else "",
            p["aggregate"],
            f"{p['with_interval']:,} of {p['windows']:,}",
            _number(p["seen"]),
            _number(p["corrected"]) if good else f"[red]{_number(p['corrected'])}[/red]",
            _number(p["best"]),
            _number(p["covered"]) if kept else f"[red]{_number(p['covered'])}[/red]",
            _number(p["width"]),
            _number(p["seconds"]),
        )
        last = p["case"]
    return table


def _number(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.2f}"
    return "" if value is None else str(value)


@contextmanager
def _timed(console: Console, what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    console.print(f"[dim]{what}: {time.perf_counter() - began:.0f} s[/dim]")


def main() -> None:
    """Read the options, run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--spark", action="store_true", help="the small experiments on Spark (the default)")
    where.add_argument("--fast", action="store_true", help="everything in this process")
    parser.add_argument("--quick", action="store_true", help="shorter streams, fewer steps: to see that it works")
    parser.add_argument("--seed", type=int, default=2024, help="of the generated streams")
    parser.add_argument("--only", choices=sorted(EXPERIMENTS), action="append", help="run only this experiment")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder of the real streams")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures and pictures")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, experiment in EXPERIMENTS.items():
        if options.only is not None and name not in options.only:
            continue
        bench = Bench(console, options.fast, options.quick, options.seed, options.data)
        with _timed(console, name):
            experiment(bench)
        show(bench)
        about = {"seed": options.seed, "quick": options.quick, "fast": options.fast, "notes": bench.notes}
        figures = {**about, "figures": bench.figures, "curves": bench.curves}
        (options.out / f"{name}.json").write_text(json.dumps(figures, indent=1))
        drawn = pictures.draw(_all_curves(options.out), options.out)
        console.print(f"[dim]Written: {name}.json; drawn: {', '.join(drawn)}[/dim]")


def _all_curves(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The points of all experiments that have been run, so that each may be run by itself."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for name in EXPERIMENTS:
        path = folder / f"{name}.json"
        for curve, points in (json.loads(path.read_text())["curves"] if path.exists() else {}).items():
            curves.setdefault(curve, []).extend(points)
    return curves


if __name__ == "__main__":
    main()
