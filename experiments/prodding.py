"""S5's experiments (chapter 4) on this engine: the thesis's figure beside ours, for each figure that it states.

The small ones run on Spark by replay, the long sweeps in this process; see experiments/README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pictures
import polars as pl
import thesis
from asking import asking
from bench import Bench, show
from bursts import bursts
from overhead import overhead
from play import AGGREGATES, SECOND, Answers, Query, accuracy, coverage, gain
from rich.console import Console
from streams import DIFFICULT, DISTRIBUTIONS, SHARED, real
from substreams import substreams

import slackwater as sw
from experiments.lab import prodded as make
from experiments.lab.arrivals import none

_RESULTS = Path(__file__).parent / "results"
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


def difficult(bench: Bench) -> None:
    """The same on streams that change, or whose final answers come many windows later."""
    for stream in DIFFICULT:
        seconds = (200 if bench.quick else 1_600) * int(stream.slide.split()[0])
        early, disorder = sw.early(at=0.5), sw.bounded(stream.slack)
        query = Query(stream.range, stream.slide, AGGREGATES, early, disorder, stream.page)
        _estimated(bench, stream.name, bench.play(stream.rows(seconds, bench.seed), query))


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
    "overhead": overhead,
    "asking": asking,
    "substreams": substreams,
    "aggressiveness": aggressiveness,
    "estimates": estimates,
    "difficult": difficult,
    "data": data_sets,
}


@contextmanager
def _timed(console: Console, what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    console.print(f"[dim]{what}: {time.perf_counter() - began:.0f} s[/dim]")


def main() -> None:
    """Read the options, run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="everything in this process, nothing on Spark")
    parser.add_argument("--quick", action="store_true", help="shorter streams, fewer steps: to see that it works")
    parser.add_argument("--seed", type=int, default=2024, help="of the generated streams")
    parser.add_argument("--only", choices=sorted(EXPERIMENTS), action="append", help="run only this experiment")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder of the real streams")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures and pictures")
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
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
