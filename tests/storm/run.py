"""python -m tests.storm.run --kills 300: kill a job at any moment, the driver, Java or both, and start it again.

The next process starts at once, while what is left of the last one may still be there. When a job has come to its
end its results are compared with those of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import polars as pl
import polars.selectors as cs
from deltalake import DeltaTable

from tests.storm.job import SETTINGS, make_input

ROOT = Path(__file__).parents[2]
TARGETS = ("driver", "java", "both")
#: After this many kills a job may come to its end, so that its results are compared and the next setting begins.
KILLS_OF_A_JOB = 5
#: Seconds in which a job whose Java is dead must have ended by itself.
PATIENCE = 90


class Life:
    """One process of the job."""

    def __init__(self, root: Path, setting: str) -> None:
        self._errors = (root / "errors.txt").open("ab")
        command = [sys.executable, "-m", "tests.storm.job", str(root), setting]
        self.process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def line(self) -> str:
        """What it says next; empty at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def java(self) -> list[int]:
        """The Java processes that it has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if "java" in Path(f"/proc/{pid}/cmdline").read_text()]

    def kill(self, target: str) -> None:
        """SIGKILL, to the driver alone, to Java alone, or to both at once."""
        pids = self.java() if target == "java" else [self.process.pid]
        if target == "both":
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """Wait for its end; a job that hangs without Java is a mistake."""
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self._errors.close()


def results(root: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of each sink, in some order."""
    found = {}
    for folder in sorted(root.glob("*-*")):
        if (folder / "_delta_log").exists():
            frame = pl.DataFrame(DeltaTable(str(folder)).to_pyarrow_table())
        else:
            files = list(folder.glob("part-*.parquet"))
            if not files:
                found[folder.name] = []
                continue
            frame = pl.concat(map(pl.read_parquet, files))
        # Partials may be merged in another order after a restart: floats agree up to rounding, also near 0.
        rows = frame.select(cs.exclude("emitted_at", "completeness") - cs.float(), cs.float().round(6))
        found[folder.name] = sorted(rows.drop("completeness", strict=False).rows(), key=str)
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=300)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    chance, place = random.Random(given.seed), Path(tempfile.mkdtemp(prefix="storm-"))
    make_input(place / "calm")
    shutil.copytree(place / "calm", place / "fresh")
    calm = Life(place / "calm", "fifo")
    while calm.line() != "done":
        assert calm.process.poll() is None, (place / "calm" / "errors.txt").read_text()[-3000:]
    calm.end()
    expected, figures, starts, number = results(place / "calm"), Counter[str](), list[float](), 0
    print({name: len(rows) for name, rows in expected.items()}, flush=True)
    while figures["kills"] < given.kills:
        setting, root = [*SETTINGS][number % len(SETTINGS)], place / f"storm{number}"
        number += 1
        shutil.copytree(place / "fresh", root)
        done, most = False, min(given.kills, figures["kills"] + KILLS_OF_A_JOB)
        while not done:
            life, target = Life(root, setting), chance.choice(TARGETS)
            while (line := life.line()) and not line.startswith("started"):
                pass
            assert line, (root / "errors.txt").read_text()[-3000:]
            starts.append(float(line.split()[1]))
            if figures["kills"] < most:
                time.sleep(chance.uniform(0.0, 12.0))
            else:
                done = life.line() == "done"
            if life.process.poll() is None and not done:
                life.kill(target)
                figures.update({"kills": 1, target: 1, f"kills with {setting}": 1})
                print(f"{setting}: {target} killed, {starts[-1]} s to start", flush=True)
            done = done or "done" in life.process.stdout.read().splitlines()  # type: ignore[union-attr]
            life.end()
        got = results(root)
        wrong = [name for name in expected.keys() | got.keys() if got.get(name) != expected.get(name)]
        figures.update({"jobs": 1, "wrong": len(wrong)})
        print(f"{setting}: {dict(figures)}, wrong: {wrong}", flush=True)
        if wrong:
            print(root, {name: (len(got.get(name, [])), len(expected.get(name, []))) for name in wrong})
        else:
            shutil.rmtree(root)
    starts.sort()
    figures.update({"lives": len(starts)})
    median, slowest = starts[len(starts) // 2], starts[-1]
    print(json.dumps({**figures, "start seconds, median": median, "start seconds, slowest": slowest}))
    raise SystemExit(bool(figures["wrong"]))


if __name__ == "__main__":
    main()
