"""Chain and its rivals on Spark with real pages, under a burst that comes faster than it can be worked on.

    .venv/bin/python experiments/chain_on_spark.py                              # all of it: about 20 minutes
    .venv/bin/python experiments/chain_on_spark.py --case "two operators" --strategy fifo --strategy chain

Pages come by the clock: three slowly, then a burst. A cheap filter keeps a fifth of the rows, and a slow Python
function works on what is left. What is measured: the bytes that wait, over time, and how old the oldest page is.
Native Structured Streaming does the same work on files that come at the same pace (`chain_native.py`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
from chain_native import native
from chain_pages import EVERY, KEPT, SCHEMA, Burst, StrategyOutcome, after_collection, at_rest
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.engine.graph import Graph
from slackwater.operators.page import Location
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.storage.embedded import embedded

matplotlib.use("Agg")
from matplotlib import pyplot

_RESULTS = Path(__file__).parent / "results"
NATIVE = "native"
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "fifo": sw.fifo,
    "chain": sw.chain,
    "greedy": sw.papers.greedy,
    "round-robin": sw.papers.round_robin,
    "chain, 30 s": lambda: sw.chain(max_wait="30 seconds"),
}
#: They are measured in the first setting only.
EXTRA = ("chain, 30 s",)
Function = Callable[[pa.RecordBatch], pa.RecordBatch]
Streams = Mapping[str, sw.Stream]


def slowly(seconds: float) -> Function:
    """What takes so many seconds a row and no processor, such as asking another machine."""

    def slow(rows: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(seconds * rows.num_rows)
        return rows

    return slow


def two(s: sw.Session, streams: Streams, slow: Function) -> list[sw.Query]:
    """A filter that keeps a fifth, then the slow function."""
    return [_counted(streams["rows"].where("k % 5 = 0"), slow)]


def four(s: sw.Session, streams: Streams, slow: Function) -> list[sw.Query]:
    """Two filters that keep nine tenths each, the one that keeps a fifth, and the slow function."""
    kept = streams["rows"].where("k % 10 <> 9").where("k % 10 <> 8")
    return [_counted(kept.where("k % 5 = 0"), slow)]


def stored(s: sw.Session, streams: Streams, slow: Function) -> list[sw.Query]:
    """A stored relation with two rows for each key, a filter behind it, and the slow function."""
    codes = s.spark.range(2_000).selectExpr("id % 1000 AS code", "id AS v")
    both = streams["rows"].join(codes, on="k = code").where("v % 10 = 0")
    return [_counted(both.select("t", "k", "payload"), slow)]


def joined(s: sw.Session, streams: Streams, slow: Function) -> list[sw.Query]:
    """The filter, a window join with another stream in which each key has one partner, and the slow function."""
    kept = streams["rows"].where("k % 5 = 0").rolling(range="1 second")
    pairs = kept.join(streams["others"].rolling(range="1 second"), on="k = o")
    return [_counted(pairs.select("t", "k", "payload"), slow)]


def three(s: sw.Session, streams: Streams, slow: Function) -> list[sw.Query]:
    """The first, a window over all rows, and a filter that keeps half before another window."""
    plain = streams["rows"].window("10 seconds", slide="2 seconds").group_by("k").agg(n="count(*)")
    half = streams["rows"].where("k % 2 = 0").window("1 second").agg(n="count(*)")
    return [*two(s, streams, slow), plain, half]


def _counted(rows: sw.Query, slow: Function) -> sw.Query:
    return rows.map(slow, schema=SCHEMA).window("1 second").agg(n="count(*)")


@dataclass(frozen=True)
class Case:
    """A setting."""

    queries: Callable[[sw.Session, Streams, Function], list[sw.Query]]
    tasks: int = 2
    """Of which each has a share of the rows that the slow function gets: of pairs, one has them all."""
    number: int = 1
    """Of queries."""
    streams: tuple[str, ...] = ("rows",)


FIRST = "two operators"
CASES = {
    FIRST: Case(two),
    "four operators": Case(four),
    "stored relation": Case(stored),
    "window join": Case(joined, tasks=1, streams=("rows", "others")),
    "three queries": Case(three, number=3),
}


def waiting(graph: Graph) -> dict[Location, int]:
    """Bytes of all rows that wait, each once: several operators may read them, and a lazy page frees none."""
    held: dict[Location, int] = {}
    for _, queue in graph.queues():
        for entry in queue:
            if entry.is_page:
                held[entry.page.location] = entry.page.size or 0
    return held


def _declared(s: sw.Session, burst: Burst, name: str) -> sw.Stream:
    frame, page = burst.frame(s.spark, name), f"{round(1e3 * EVERY)} milliseconds"
    time = "t" if name == "rows" else "u"
    return s.stream(name, frame, time=time, arrival=f"{name}_arrival", page=page, disorder=sw.bounded("0 seconds"))


def run(spark: SparkSession, burst: Burst, case: Case, strategy: Strategy, work: float) -> StrategyOutcome:
    """Play the burst by the clock; after each run of an operator, note what waits."""
    out, slow = StrategyOutcome(), slowly(work * case.tasks / KEPT)
    base = at_rest(spark)
    with sw.Session(spark, strategy=strategy) as s:
        streams = {name: _declared(s, burst, name) for name in case.streams}
        runs = [query.start() for query in case.queries(s, streams, slow)]
        executor, s._running.pages.counts_pairs = s._running.loop.executor, True  # so that pairs have a size
        admit, serve = executor.admit, executor.between
        came: dict[int, float] = {}
        first: list[tuple[float, int]] = []
        oldest: list[float] = []

        def admitted(source: str, page: Any) -> Any:
            if not first:
                first.append((time.monotonic(), page.number))
            ticket = admit(source, page)
            came[ticket.admission] = (page.number - first[0][1]) * EVERY
            return ticket

        def note() -> None:
            serve()
            if not first:
                return
            now = time.monotonic() - first[0][0]
            # The page that has just been worked on waited until now.
            lag = now - oldest[0] if oldest else 0.0
            entries = [e.admission for _, queue in executor.graph.queues() for e in queue if e.is_page]
            oldest[:] = [came[min(entries)]] if entries else []
            out.note(now, sum(waiting(executor.graph).values()), lag)
            out.memory = max(out.memory, s._running.pages.room.held)
            if out.heap is None and now >= burst.ends:
                out.heap = after_collection(spark) - base

        executor.admit, executor.between = admitted, note  # type: ignore[method-assign]
        s.run_available(speed=1.0)
        out.seconds = time.monotonic() - first[0][0]
        out.results = sum(sum(run.results()["n"].to_pylist()) for run in runs)
        out.chains = _chains(runs[0].metrics()["operators"])
    return out


def _chains(operators: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """The chains at the end, the steepest first."""
    slopes = {tuple(f["chain"]): f["slope"] for f in operators.values() if f["chain"]}
    return [list(chain) for chain in sorted(slopes, key=lambda chain: -slopes[chain])]


def checks(name: str, outs: Mapping[str, StrategyOutcome], page: int) -> dict[str, bool]:
    """What is wanted of Chain, and whether it held."""
    if "chain" not in outs:
        return {}
    chain, rivals = outs["chain"], {n: o for n, o in outs.items() if n not in ("chain", NATIVE, *EXTRA)}
    above, number, found = CASES[name].number * page, CASES[name].number, dict[str, bool]()
    for rival, out in rivals.items():
        found[f"Chain's peak at most {number} page(s) above that of {rival}"] = chain.peak <= out.peak + above
    if fifo := rivals.get("fifo"):
        share, longer = chain.peak / fifo.peak, chain.seconds / fifo.seconds
        if name == FIRST:
            found[f"Chain's peak at most 0.5 × that of fifo ({share:.2f})"] = share <= 0.5
        found[f"Chain within 5 % of the time of fifo ({longer:.3f})"] = longer <= 1.05
    found["All count the same"] = len({o.results for o in (chain, *rivals.values())}) == 1
    return found


def draw(name: str, outs: Mapping[str, StrategyOutcome], burst: Burst, folder: Path) -> None:
    """Bytes that wait, over time."""
    figure, axis = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    axis.axvspan(burst.begins, burst.ends, color="0.93")
    for strategy, out in outs.items():
        axis.step(out.times, np.asarray(out.held) / 2**20, where="post", linewidth=1, label=strategy)
    axis.set(title=f"{name}, on Spark; the burst is grey", xlabel="time, s", ylabel="MiB that wait")
    axis.legend(fontsize=8)
    figure.savefig(folder / f"chain_on_spark_{name.replace(' ', '_')}.svg", metadata={"Date": None})
    pyplot.close(figure)


_COLUMNS = {
    "peak, MiB": lambda out, fifo: f"{out.peak / 2**20:.1f}",
    "× fifo": lambda out, fifo: f"{out.peak / fifo.peak:.2f}" if fifo else "",
    "mean, MiB": lambda out, fifo: f"{out.mean / 2**20:.1f}",
    "Spark's memory, MiB": lambda out, fifo: f"{out.memory / 2**20:.1f}",
    "heap at the end of the burst, MiB": lambda out, fifo: "" if out.heap is None else f"{out.heap / 2**20:+.1f}",
    "longest lag, s": lambda out, fifo: f"{out.lag:.1f}",
    "seconds": lambda out, fifo: f"{out.seconds:.1f}",
    "time × fifo": lambda out, fifo: f"{out.seconds / fifo.seconds:.3f}" if fifo else "",
    "counted": lambda out, fifo: f"{out.results:,}" if out.results else "",
}


def show(console: Console, name: str, outs: Mapping[str, StrategyOutcome], found: Mapping[str, bool]) -> None:
    """A table of one setting, and what held."""
    table = Table(title=name)
    for column in ("strategy", *_COLUMNS):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for strategy, out in outs.items():
        table.add_row(strategy, *(cell(out, outs.get("fifo")) for cell in _COLUMNS.values()))
    console.print(table)
    for what, held in found.items():
        console.print(f"{'held' if held else 'NOT held'}: {what}")


def measure(
    spark: SparkSession, console: Console, name: str, burst: Burst, options: Any
) -> dict[str, StrategyOutcome]:
    """All strategies in one setting."""
    asked: Sequence[str] = options.strategy or [s for s in STRATEGIES if name == FIRST or s not in EXTRA]
    run(spark, burst.calm(), CASES[name], sw.chain(), options.work)  # code is compiled, Python's workers start
    outs: dict[str, StrategyOutcome] = {}
    for strategy in asked:
        outs[strategy] = out = run(spark, burst, CASES[name], STRATEGIES[strategy](), options.work)
        told = f"{name}, {strategy}: peak {out.peak / 2**20:.1f} MiB, {out.seconds:.1f} s"
        console.print(f"[dim]{told}{f'; chains at the end: {out.chains}' if out.chains else ''}[/dim]")
    if name == FIRST and not options.no_native:
        native(spark, burst.calm(), options.work)
        outs[NATIVE] = native(spark, burst, options.work)
    return outs


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the burst in the first setting")
    parser.add_argument("--others", type=float, help="length of it in the other settings; half of it if not given")
    parser.add_argument("--work", type=float, default=1.3, help="seconds of the slow function for a page")
    parser.add_argument("--case", action="append", choices=list(CASES), help="settings; may be repeated")
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES), help="may be repeated")
    parser.add_argument("--no-native", action="store_true", help="leave native Structured Streaming out")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures and pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console() if Console().is_terminal else Console(width=160)
    spark = embedded(master="local[2]", driver_memory="2g")
    figures, wanted = list[dict[str, Any]](), list[dict[str, Any]]()
    others = options.seconds / 2 if options.others is None else options.others
    for name in options.case or CASES:
        with tempfile.TemporaryDirectory(prefix="slackwater-chain-", ignore_cleanup_errors=True) as made:
            burst = Burst(Path(made), options.seconds if name == FIRST else others)
            console.print(f"[bold]{name}[/bold]: {burst.pages} pages in {burst.ends - burst.begins:.0f} s, "
                          f"{options.work} s of the slow function for each")  # fmt: skip
            outs = measure(spark, console, name, burst, options)
            held = checks(name, outs, burst.page_bytes)
            show(console, name, outs, held)
            draw(name, outs, burst, options.out)
            asked = {"case": name, "burst": burst.seconds, "work": options.work}
            figures += [{**asked, "strategy": strategy, **out.as_json()} for strategy, out in outs.items()]
            wanted += [{"case": name, "wanted": what, "held": kept} for what, kept in held.items()]
            written = json.dumps({"figures": figures, "wanted": wanted}, indent=1)
            (options.out / "chain_on_spark.json").write_text(written)
    console.print("[dim]Written: chain_on_spark.json and pictures[/dim]")
    spark.stop()


if __name__ == "__main__":
    main()
