"""Catching up: sixty pages of a million rows wait. How fast are they worked off, one by one and together?

    .venv/bin/python benchmarks/catching_up.py

Native Structured Streaming beside it, with the same trigger: one file a batch. All in one session, in turns, from
`start()` to the end. A run that others have disturbed, on this machine or on the one that it is a part of, does not
count: the side that uses both cores would lose more by it. With Chain it is also measured how long the strategy
itself takes: to choose, and to chart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import native
import ours
from cases import Case, Query
from data import LARGE, offer
from measure import Figures, Meter
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.scheduling.chart import Segment
from slackwater.scheduling.paths import Plan
from slackwater.scheduling.strategy import Act, Ready, Situation, Strategy
from slackwater.spark.storage.embedded import embedded

_RESULTS = Path(__file__).parent / "results" / "catching_up.json"
#: So many turns are taken for one repeat, at the most, if others keep the machine busy.
_TURNS = 4
TOGETHER, ONE_BY_ONE, NATIVE = "Slackwater", "Slackwater, one page at a time", "native"
CHAIN = "Slackwater, Chain"


class Watched(Strategy):
    """A strategy, and how long it takes."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.name, self.charts, self.watches = strategy.name, strategy.charts, strategy.watches
        self.seconds = 0.0
        self.picks = 0

    def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
        """Its choice."""
        begun = time.perf_counter()
        picked = self._strategy.pick(ready, now)
        self.seconds += time.perf_counter() - begun
        self.picks += 1
        return picked

    def learn(self, plan: Plan) -> None:
        """Tell it."""
        begun = time.perf_counter()
        self._strategy.learn(plan)
        self.seconds += time.perf_counter() - begun

    def segment(self, label: str) -> Segment | None:
        """Its chain."""
        return self._strategy.segment(label)

    def ends_segment(self, label: str) -> bool:
        """Whether its chain ends there."""
        return self._strategy.ends_segment(label)


def measure(spark: SparkSession, side: str, files: list[Path], folder: Path) -> Figures:
    """One side once."""
    case = Case("catching up", (Query(120),), len(files))
    meter = Meter(spark)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
        work = Path(made)
        if side == NATIVE:
            source = offer(files, work / "source")
            meter.start()
            return meter.stop(native.measure(spark, case, source, work, fast_checkpoints=True))
        chain = Watched(sw.chain()) if side == CHAIN else None
        meter.start()
        run = ours.measure(spark, case, case.queries, files, work, batch_pages=side != ONE_BY_ONE, strategy=chain)
        if chain is not None:
            run.more |= {"strategy_seconds": chain.seconds, "picks": chain.picks}
        return meter.stop(run)


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--native-pages", type=int, default=15, help="native reads only so many; its speed stays")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--most-others", type=float, default=0.3, help="a run beside which others kept more cores busy is repeated"
    )
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
    sides: dict[str, list[Figures]] = {TOGETHER: [], CHAIN: [], ONE_BY_ONE: [], NATIVE: []}
    spark = embedded(master="local[2]", driver_memory="4g")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        files = LARGE.make(Path(made), options.pages)
        # First each side once, so that code is compiled: Java's compilers are at work for half a minute.
        for turn in range(_TURNS * options.repeats + 1):
            for side, figures in sides.items():
                if turn and len(figures) == options.repeats:
                    continue
                about = f"{len(figures) + 1} of {options.repeats}" if turn else "to warm up"
                few = files[: options.native_pages] if side == NATIVE else files
                ran = measure(spark, side, few, Path(made))
                disturbed = (ran.other_cores or 0) > options.most_others
                console.print(f"[dim]{side}, {about}{': disturbed' if turn and disturbed else ''}[/dim]")
                figures += [ran] if turn and not disturbed else []
    if not all(sides.values()):
        console.print(f"Others kept more than {options.most_others} cores busy all the time: no figures.")
        raise SystemExit(1)
    table = Table(title=f"{options.pages} waiting pages of 1 M rows, RANGE/SLIDE 5")
    for column in ("side", "rows a second", "from", "to", "pages together", "ns of processor a row", "other cores"):
        table.add_column(column, justify="left" if column == "side" else "right")
    for side, figures in sides.items():
        speeds = sorted(f.whole_rows_per_second for f in figures)
        table.add_row(
            side,
            *(f"{speed:,.0f}" for speed in (median(speeds), speeds[0], speeds[-1])),
            str(figures[-1].more.get("pages_together", "")),
            f"{median((f.cpu_seconds or 0) * 1e9 / f.rows for f in figures):,.0f}",
            f"{median(f.other_cores or 0 for f in figures):.2f}",
        )
    console.print(table)
    speed = {side: median(f.whole_rows_per_second for f in figures) for side, figures in sides.items()}
    share = median(100 * f.more["strategy_seconds"] / f.whole_seconds for f in sides[CHAIN])
    console.print(
        f"Chain itself took {share:.3f} % of the time, for {sides[CHAIN][-1].more['picks']} choices (wanted: 1 %)"
    )
    for other, wanted in ((ONE_BY_ONE, 1.6), (NATIVE, 5.0)):
        console.print(f"{speed[TOGETHER] / speed[other]:.2f} × {other} (wanted: {wanted})")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({side: [f.as_json() for f in figures] for side, figures in sides.items()}))
    spark.stop()


if __name__ == "__main__":
    main()
