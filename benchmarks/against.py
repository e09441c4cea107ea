"""This tree beside an earlier commit: has any case become slower?

    .venv/bin/python benchmarks/against.py 33d20d4                     # all cases, three times: half an hour
    .venv/bin/python benchmarks/against.py HEAD~20 --only "SLIDE 5"
    .venv/bin/python benchmarks/against.py HEAD~20 --quick             # few files: to see that it works

Each tree has a process and a Spark session of its own, and runs its own scripts (`one_tree.py`): the cases of
`throughput.py`, without native Structured Streaming, and catching up. They take turns, and one rests while the
other runs. What counts is the processor time of Python and Java together: others may keep the machine busy.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

_RESULTS = Path(__file__).parent / "results" / "against.json"
_HERE = Path(__file__).parent.parent
#: A case is called slower if its median ratio is above this, and it was slower in each repeat.
_NOISE = 1.03
#: With fewer repeats chance makes all of them slower too often: one case in four with two.
_FEWEST = 3


@dataclass
class Tree:
    """The process that runs one tree, and what each case took there, in each repeat."""

    name: str
    process: subprocess.Popen[str]
    cases: list[str] = field(default_factory=list)
    ran: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    @staticmethod
    def start(name: str, code: Path, folder: Path, options: dict[str, Any]) -> Tree:
        """A process that imports slackwater and the benchmarks from some folder."""
        command = [sys.executable, str(Path(__file__).parent / "one_tree.py"), str(code), str(folder)]
        environment, pipe = os.environ | {"PYTHONPATH": str(code)}, subprocess.PIPE
        started = [*command, json.dumps(options)]
        return Tree(name, subprocess.Popen(started, env=environment, stdin=pipe, stdout=pipe, text=True))

    def answer(self) -> dict[str, Any]:
        """What it says next."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise SystemExit(f"{self.name} has ended; what it printed is above")

    def run(self, case: str) -> dict[str, Any]:
        """Have it run a case once, and wait."""
        assert self.process.stdin is not None
        print(case, file=self.process.stdin, flush=True)
        return self.answer()

    def of(self, case: str, what: str) -> list[float]:
        """Nanoseconds a row, by the processor or by the clock (`seconds`), of each repeat."""
        return [1e9 * ran[what] / ran["rows"] for ran in self.ran[case]]


def compare(before: Tree, now: Tree, repeats: int, console: Console) -> None:
    """All cases in turns, once more than asked: the first time compiles the code and does not count."""
    both = [case for case in now.cases if case in before.cases]
    for repeat in range(repeats + 1):
        for case in both:
            for tree in (before, now) if repeat % 2 else (now, before):
                ran = tree.run(case)
                console.print(f"[dim]{case}, {repeat} of {repeats}, {tree.name}: {ran['processor']:.2f} s[/dim]")
                if repeat:
                    tree.ran.setdefault(case, []).append(ran)


def verdict(ratios: Sequence[float]) -> str:
    """Whether a case has become slower, by the ratios of its repeats."""
    if median(ratios) <= _NOISE:
        return "no"
    return "yes" if min(ratios) > 1 and len(ratios) >= _FEWEST else "perhaps"


def show(before: Tree, now: Tree, console: Console) -> None:
    """Medians, and the ratios of turns that followed each other, with their spread."""
    table = Table(title=f"This tree beside {before.name}: ns a row, medians; ratios now / before, from – to")
    for column in ("case", "processor, before", "now", "ratio", "spread", "clock, ratio", "spread", "slower"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for case in now.ran:
        cells, found = [f"{median(tree.of(case, 'processor')):,.0f}" for tree in (before, now)], ""
        for what in ("processor", "seconds"):
            ratios = [b / a for a, b in zip(before.of(case, what), now.of(case, what), strict=True)]
            cells += [f"{median(ratios):.2f}", f"{min(ratios):.2f} – {max(ratios):.2f}"]
            found = found or verdict(ratios)
        table.add_row(case, *cells, found)
    console.print(table)
    if apart := sorted(set(before.cases) ^ set(now.cases)):
        console.print(f"Only one of the trees has: {', '.join(apart)}")


def unpack(commit: str, code: Path) -> None:
    """The package and the benchmarks of a commit."""
    command = ["git", "archive", commit, "slackwater", "benchmarks"]
    archive = subprocess.run(command, cwd=_HERE, stdout=subprocess.PIPE)
    if archive.returncode != 0:
        raise SystemExit(f"git has no slackwater/ and benchmarks/ at {commit!r}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(code, filter="data")


def main() -> None:
    """Read the options, unpack the commit, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with: anything that git knows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="run only the cases with this text in their names")
    parser.add_argument("--quick", action="store_true", help="few files: to see that it works")
    parser.add_argument("--pages", type=int, help="how many pages wait in the case of catching up (20; quick: 4)")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
    asked = {
        "quick": options.quick,
        "only": options.only,
        "pages": options.pages or (4 if options.quick else 20),
    }
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        folder, code = Path(made), Path(made) / "code"
        unpack(options.commit, code)
        before = Tree.start(options.commit, code, folder / "before", asked)
        now = Tree.start("this tree", _HERE, folder / "now", asked)
        for tree in (before, now):
            tree.cases = tree.answer()["cases"]
        if not set(before.cases) & set(now.cases):
            raise SystemExit(f"no case of both trees has {options.only!r} in its name")
        compare(before, now, max(1, options.repeats), console)
        for tree in (before, now):
            tree.process.communicate(timeout=60)
    show(before, now, console)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({tree.name: tree.ran for tree in (before, now)}))


if __name__ == "__main__":
    main()
