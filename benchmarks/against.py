"""This tree beside an earlier commit: has any case become slower?

    .venv/bin/python benchmarks/against.py 33d20d4                     # all cases, three times: some minutes
    .venv/bin/python benchmarks/against.py HEAD~20 --only "SLIDE 5"

Each tree has a process and a Spark session of its own. They run the cases of `throughput.py` over the same files,
in turns, while the other one rests. Native Structured Streaming is left out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import ours
from cases import FULL, ONE, OURS, Case, make
from measure import Meter
from rich.console import Console
from rich.table import Table

from slackwater.spark.embedded import embedded

_RESULTS = Path(__file__).parent / "results" / "against.json"
_HERE = Path(__file__).parent.parent
_NOISE = 1.03
"""A case is called slower if it takes longer than this."""


@dataclass
class Tree:
    """The process that runs one tree, and what each case took there: seconds by the clock, and of the processor."""

    name: str
    process: subprocess.Popen[str]
    ran: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @staticmethod
    def start(name: str, code: Path, folder: Path) -> Tree:
        """A process that imports slackwater from some folder."""
        command = [sys.executable, __file__, "--serve", str(folder)]
        environment = os.environ | {"PYTHONPATH": str(code)}
        pipe = subprocess.PIPE
        return Tree(name, subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True))

    def run(self, number: int, side: str) -> tuple[float, float]:
        """Have it run a case once, and wait."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([number, side]), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                return answer["seconds"], answer["processor"]
        raise SystemExit(f"{self.name} has ended; what it printed is above")

    def median(self, what: str, place: int) -> float:
        """Of the repeats: by the clock (0) or of the processor (1)."""
        return median(figures[place] for figures in self.ran[what])


def serve(folder: Path) -> None:
    """Run what is asked for on standard input, one line a case."""
    spark = embedded(master="local[2]", driver_memory="4g")
    for line in sys.stdin:
        number, side = json.loads(line)
        case, meter = FULL[number], Meter(spark)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as work:
            files = sorted((folder / case.layout.name).iterdir())[: case.files]
            meter.start()
            ran = meter.stop(ours.measure(spark, case, case.queries_of(side), files, Path(work)))
        print(json.dumps({"seconds": ran.whole_seconds, "processor": ran.cpu_seconds or 0.0}), flush=True)
    spark.stop()


def compare(trees: tuple[Tree, Tree], wanted: list[tuple[int, Case, str]], repeats: int, console: Console) -> None:
    """All cases in turns, once more than asked: the first time compiles the code and does not count."""
    for repeat in range(repeats + 1):
        for number, case, side in wanted:
            for tree in trees if repeat % 2 else reversed(trees):
                what, ran = _title(case, side), tree.run(number, side)
                console.print(f"[dim]{what}, {repeat} of {repeats}, {tree.name}: {ran[0]:.2f} s[/dim]")
                if repeat:
                    tree.ran.setdefault(what, []).append(ran)


def _title(case: Case, side: str) -> str:
    return case.name if side == OURS else f"{case.name}: one of them"


def show(before: Tree, now: Tree, console: Console) -> None:
    """Medians, and their ratio."""
    table = Table(title=f"This tree beside {before.name}: seconds a run, medians")
    for column in ("case", "before", "now", "now / before", "processor, before", "now", "now / before", "slower"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for what in now.ran:
        clock, processor = ((before.median(what, n), now.median(what, n)) for n in (0, 1))
        ratios = [pair[1] / pair[0] for pair in (clock, processor)]
        cells = [f"{x:.2f}" for x in (*clock, ratios[0], *processor, ratios[1])]
        table.add_row(what, *cells, "yes" if ratios[0] > _NOISE else "no")
    console.print(table)


def main() -> None:
    """Read the options, make the data, unpack the commit, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="what to compare with: anything that git knows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="run only the cases with this text in their names")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        return serve(options.serve)
    if options.commit is None:
        parser.error("which commit shall be compared with?")
    wanted = [(n, case, side) for n, case in enumerate(FULL) for side in case.sides if side in (OURS, ONE)]
    wanted = [w for w in wanted if options.only in w[1].name]
    if not wanted:
        parser.error(f"no case has {options.only!r} in its name; there are: {', '.join(c.name for c in FULL)}")
    console = Console() if Console().is_terminal else Console(width=160)
    archive = subprocess.run(["git", "archive", options.commit, "slackwater"], cwd=_HERE, stdout=subprocess.PIPE)
    if archive.returncode != 0:
        raise SystemExit(f"git has no slackwater/ at {options.commit!r}")
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        folder, code = Path(made), Path(made) / "before"
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(code, filter="data")
        make(tuple(case for _, case, _ in wanted), folder)
        before, now = Tree.start(options.commit, code, folder), Tree.start("this tree", _HERE, folder)
        compare((before, now), wanted, options.repeats, console)
        for tree in (before, now):
            tree.process.communicate(timeout=60)
    show(before, now, console)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({tree.name: tree.ran for tree in (before, now)}))


if __name__ == "__main__":
    main()
