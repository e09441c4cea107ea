"""Nexmark: Slackwater beside native Structured Streaming on queries that others have thought up.

Both run in one Spark session, in turns, with recovery on, over the same files; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from auctions import native, ours
from auctions.events import House, write
from auctions.queries import NOT_SAID, QUERIES, READS
from auctions.truth import TRUTH, closed, differences
from marked import put
from measure import Clock
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from slackwater.spark.storage.embedded import embedded

_HERE = Path(__file__).parent
_NATIVE, _OURS = "native", "Slackwater"
_BEGIN, _END = "<!-- nexmark: begin (nexmark.py --readme) -->", "<!-- nexmark: end -->"

#: What answers are compared on: few events, of a hundred seconds. With a length of pages, they are replayed.
CHECKED: dict[str, tuple[House, str | None]] = {
    "in order": (House(20_000, 200), None),
    "disordered": (House(20_000, 200, delay=3.0), None),
    "no bids for 25 seconds": (House(20_000, 200, delay=3.0, quiet=(30.0, 55.0)), "5 seconds"),
}


@dataclass(frozen=True)
class Measured:
    """One run of a query on one side."""

    seconds: float
    """From `start()` to the end."""
    rows: int
    """Of the streams that it reads."""
    cpu_seconds: float | None
    other_cores: float | None
    """How many cores other processes kept busy meanwhile."""

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


@dataclass
class Bench:
    """The session, the figures so far, and what went wrong."""

    spark: SparkSession
    console: Console
    folder: Path
    figures: dict[str, dict[str, list[Measured]]] = field(default_factory=dict)
    agreement: dict[str, dict[str, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @contextmanager
    def work(self) -> Iterator[Path]:
        """A folder for one run: its checkpoint or journal."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as made:
            yield Path(made)

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Go on if it fails: the other figures are still worth having."""
        self.console.print(f"[dim]{what}[/dim]")
        try:
            yield
        except Exception as error:
            self.errors.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
            self.console.print(f"[red]{self.errors[-1]}[/red]")

    def check(self, names: list[str]) -> None:
        """Compare the answers of both sides with those of polars; Spark compiles its code meanwhile."""
        for kind, (house, page) in CHECKED.items():
            with self.work() as folder:
                events = house.make()
                write(events, folder, 10)
                for name in names:
                    expected = TRUTH[name](events)
                    with self.trying(f"{name}: comparing, {kind}"):
                        got = ours.answers(self.spark, house, [name], folder, page)[name]
                        self._agree(name, _OURS, kind, expected.height, differences(expected, got))
                    if page is None:
                        with self.trying(f"{name}: comparing native, {kind}"), self.work() as work:
                            got = native.answers(native.Rows(self.spark, house, folder), name, work)
                            wanted = closed(expected, got)
                            self._agree(name, _NATIVE, kind, wanted.height, differences(wanted, got))

    def _agree(self, name: str, side: str, kind: str, rows: int, wrong: str | None) -> None:
        if rows == 0:
            wrong = "nothing to compare"
        self.agreement.setdefault(name, {})[f"{side}, {kind}"] = f"{rows} equal" if wrong is None else wrong
        if wrong is not None:
            self.errors.append(f"{name}: {side}, {kind}: {wrong.splitlines()[0]}")
            self.console.print(f"[red]{self.errors[-1]}[/red]")

    def measure(self, names: list[str], house: House, pages: int, repeats: int) -> None:
        """All queries on both sides in turns, the other one first each time, and once before that to warm up."""
        events = house.make()
        rows = {name: frame.height for name, frame in events.items()}
        folder = self.folder / "events"
        write(events, folder, pages)
        del events
        for repeat in range(repeats + 1):
            for name in names:
                for side in (_NATIVE, _OURS) if repeat % 2 else (_OURS, _NATIVE):
                    what = f"{repeat} of {repeats}" if repeat else "to warm up"
                    with self.trying(f"{name}: {side}, {what}"), self.work() as work:
                        made = self._run(name, side, house, folder, work, sum(rows[of] for of in READS[name]))
                        self.console.print(
                            f"[dim]  {made.seconds:.1f} s, {made.rate / 1e3:,.1f} k rows a second[/dim]"
                        )
                        if repeat:
                            self.figures.setdefault(name, {}).setdefault(side, []).append(made)

    def _run(self, name: str, side: str, house: House, folder: Path, work: Path, rows: int) -> Measured:
        jvm: Any = self.spark.sparkContext._jvm
        clock = Clock(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getPid())
        jvm.java.lang.System.gc()
        before = clock.read()
        if side == _NATIVE:
            seconds = native.run(native.Rows(self.spark, house, folder), name, work)
        else:
            seconds = ours.run(self.spark, house, name, folder, work)
        now = clock.read()
        if None in (before.mine, before.all, now.mine, now.all):
            return Measured(seconds, rows, None, None)
        cpu, all_cores = now.mine - before.mine, now.all - before.all  # type: ignore[operator]
        return Measured(seconds, rows, cpu, max(0.0, all_cores - cpu) / (now.wall - before.wall))

    def about(self, house: House, pages: int, repeats: int) -> dict[str, Any]:
        """What two runs must have in common, so that their figures can stand in one table."""
        return {
            "house": asdict(house),
            "pages": pages,
            "repeats": repeats,
            "spark": self.spark.version,
            "cores": os.cpu_count(),
        }

    def add(self, earlier: Path, about: dict[str, Any], names: list[str]) -> None:
        """Take over what an earlier run has measured of other queries than these."""
        whole = json.loads(earlier.read_text())
        other = [key for key, value in about.items() if whole.get(key) != value]
        if other:
            sys.exit(f"{earlier} cannot be added to: it is of another run ({', '.join(other)})")
        for name, sides in whole["figures"].items():
            if name not in names:
                self.figures[name] = {side: [Measured(**run) for run in runs] for side, runs in sides.items()}

    def others(self) -> list[float]:
        """How many cores other processes kept busy, by run."""
        runs = [run for sides in self.figures.values() for runs in sides.values() for run in runs]
        return [run.other_cores for run in runs if run.other_cores is not None]


def _spread(values: list[float], show: str, line: str) -> str:
    if not values:
        return "–"
    told = [show.format(v) for v in (median(values), min(values), max(values))]
    return told[0] if len(values) == 1 else f"{told[0]}{line}({told[1]}–{told[2]})"


def rows_of(bench: Bench, names: list[str], line: str = " ") -> list[list[str]]:
    """The table: query, what it read, rows a second of both sides, and how many times native's."""
    table = []
    for name in names:
        sides = bench.figures.get(name, {})
        rates = {side: [run.rate / 1e3 for run in sides.get(side, [])] for side in (_NATIVE, _OURS)}
        times = [b / a for a, b in zip(rates[_NATIVE], rates[_OURS], strict=False)]
        cpu = {s: [r.cpu_seconds * 1e6 / r.rows for r in sides.get(s, []) if r.cpu_seconds] for s in rates}
        table.append(
            [
                name,
                f"{max((run.rows for runs in sides.values() for run in runs), default=0):,}",
                *(_spread(rates[side], "{:,.1f} k", line) for side in (_NATIVE, _OURS)),
                _spread(times, "{:.2f} ×", line),
                *(_spread(cpu[side], "{:,.1f}", line) for side in (_NATIVE, _OURS)),
            ]
        )
    return table


_HEAD = ["query", "rows", "native", "Slackwater", "over native", "µs a row, native", "µs a row, Slackwater"]


def show(bench: Bench, names: list[str]) -> None:
    """Print what was compared and what was measured."""
    if bench.agreement:
        table = Table("query", "side", "rows compared", title="Answers beside those of polars")
        for name, sides in bench.agreement.items():
            for side, said in sides.items():
                colour = "green" if said.endswith(" equal") else "red"
                table.add_row(name, side, f"[{colour}]{said.splitlines()[0]}[/{colour}]")
        bench.console.print(table)
    if bench.figures:
        table = Table(*_HEAD, title="Rows a second (median, min–max)")
        for row in rows_of(bench, names, "\n"):
            table.add_row(*row)
        bench.console.print(table)
    if others := bench.others():
        busy = f"Other processes kept {median(others):.2f} cores busy meanwhile (at most {max(others):.2f})"
        quiet = median(others) < 0.1
        bench.console.print(busy if quiet else f"[yellow]{busy}: the figures are indicative only[/yellow]")
    for error in bench.errors:
        bench.console.print(f"[red]{error}[/red]")


def rewrite(readme: Path, bench: Bench, house: House, pages: int, repeats: int) -> None:
    """Put the figures of all queries between the two marks of a README."""
    if without := [name for name in QUERIES if set(bench.figures.get(name, {})) != {_NATIVE, _OURS}]:
        sys.exit(f"{readme} stays as it is: it shows all queries, and there are no figures of {', '.join(without)}")
    others = bench.others()
    busy = f"; other processes kept {median(others):.2f} cores busy meanwhile" if others else ""
    head = (
        f"{house.events:,} events at {house.rate:,} a second, {pages} files a stream, repeats: {repeats}, "
        f"two cores, Spark {bench.spark.version}{busy}. Medians of the repeats, least and largest in brackets:"
    )
    lines = [_HEAD, ["---"] * len(_HEAD), *rows_of(bench, list(QUERIES))]
    put(readme, _BEGIN, _END, "\n".join([head, "", *(f"| {' | '.join(line)} |" for line in lines)]))


def main() -> None:
    """Read the options, compare, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="how many events are measured (1,000,000)")
    parser.add_argument("--rate", type=int, help="events a second of the stream's time (a hundredth of all)")
    parser.add_argument("--delay", type=float, default=3.0, help="events come at most so many seconds late (3)")
    parser.add_argument("--pages", type=int, default=10, help="files of each stream, read one at a time (10)")
    parser.add_argument("--seed", type=int, default=1, help="other events")
    parser.add_argument("--repeats", type=int, default=3, help="how often each side runs a query (3)")
    parser.add_argument("--only", help="run only these queries, as in --only q3,q5")
    parser.add_argument("--check", action="store_true", help="compare answers only; measure nothing")
    parser.add_argument("--no-check", action="store_true", help="measure only")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "nexmark.json", help="figures as JSON")
    parser.add_argument("--add", action="store_true", help="to the figures of other queries in the JSON file")
    parser.add_argument("--readme", action="store_true", help="put the figures into benchmarks/README.md")
    options = parser.parse_args()
    names = list(QUERIES) if options.only is None else options.only.split(",")
    for name in names:
        if name in NOT_SAID:
            sys.exit(f"{name} cannot be said: {NOT_SAID[name]}")
        if name not in QUERIES:
            sys.exit(f"there is no query {name}; there are: {', '.join(QUERIES)}")
    if options.check and options.no_check:
        parser.error("--check and --no-check together leave nothing to do")
    if options.readme and (options.check or (options.only is not None and not options.add)):
        parser.error("--readme shows the figures of all queries; leave out --check, and --only without --add")
    house = House(options.events, options.rate or max(1, options.events // 100), options.seed, options.delay)

    console, begun = Console() if Console().is_terminal else Console(width=160), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slackwater-nexmark-", ignore_cleanup_errors=True) as made:
        spark = embedded(master="local[2]", driver_memory="4g")
        try:
            bench = Bench(spark, console, Path(made))
            about = bench.about(house, options.pages, options.repeats)
            if options.add:
                bench.add(options.out, about, names)
            if not options.no_check:
                bench.check(names)
            if not options.check:
                bench.measure(names, house, options.pages, options.repeats)
            show(bench, [name for name in QUERIES if name in bench.figures])
            whole = {
                **about,
                "agreement": bench.agreement,
                "figures": {
                    n: {s: [asdict(r) for r in rs] for s, rs in f.items()} for n, f in bench.figures.items()
                },
                "errors": bench.errors,
                "total_seconds": time.monotonic() - begun,
            }
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(whole, indent=1) + "\n")
            console.print(f"It took {(time.monotonic() - begun) / 60:.1f} minutes.")
            if options.readme:
                rewrite(_HERE / "README.md", bench, house, options.pages, options.repeats)
        finally:
            spark.stop()
    if bench.errors:
        sys.exit(1)


if __name__ == "__main__":
    main()
