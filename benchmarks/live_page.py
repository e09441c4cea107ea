"""What the live page costs: a busy session with and without readers of its page, in one run.

50 operators and 100,000 sources, on pages without Spark: so the executor has nothing else to wait for.
The two sides alternate, and their ratio is told. The server's threads are measured by the processor's time.

    .venv/bin/python benchmarks/live_page.py
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from slackwater.dashboard import LivePage
from slackwater.estimates.early import early
from slackwater.plan.nodes import PlanNode
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.time import TimeDomain
from slackwater.testing import arrow_plan
from tests.kit.watched import SECOND, WatchedScript


def session(operators: int) -> WatchedScript:
    """So many operators: a source, and for each query a prodder, a filter, a window and a sink."""
    queries = max(1, (operators - 1) // 4)
    sample = pl.DataFrame({"t": [0], "carrier": ["a"], "gate": ["k"], "delay": [0.0], "done": [0]})

    def plan(n: int) -> PlanNode:
        # The windows of the first query go by source; the others have few groups, or a page would take too long.
        return arrow_plan(
            sample,
            range="30 seconds",
            slide="10 seconds",
            where=f"delay > {n}",
            group_by=["gate" if n else "carrier"],
            domain=TimeDomain.TIMESTAMP,
            disorder=punctuated("done"),
            source="carrier",
            n="count(*)",
            mean="avg(delay)",
        )

    return WatchedScript({f"q{n}": plan(n) for n in range(queries)}, early(at=0.5))


class Load:
    """Pages at a steady rate, from a thread of its own."""

    def __init__(self, script: WatchedScript, sources: int, rows: int) -> None:
        self._script = script
        self._names = np.array([f"s{n:06}" for n in range(sources)])
        self._dice = np.random.default_rng(3)
        self._rows = rows
        self.second = 0.0

    def page(self) -> None:
        """One page, a tenth of a second after the last."""
        self.second += 0.1
        carriers = self._dice.choice(self._names, self._rows)
        late = self._dice.exponential(0.5, self._rows)
        times = ((self.second - np.minimum(late, self.second)) * SECOND).astype(np.int64)
        gates = self._dice.choice(np.array(["a", "b", "c", "d"]), self._rows)
        delays, done = self._dice.normal(20, 9, self._rows), times - 2 * SECOND
        given = pl.DataFrame({"t": times, "carrier": carriers, "gate": gates, "delay": delays, "done": done})
        self._script.page(given, self.second)

    def run(self, seconds: float, rate: float, every: int) -> Turn:
        """So many updates a second, every few of them a page; the others are a look at the clock."""
        turn, begin, worked = Turn(), time.perf_counter(), threads_seconds("slackwater-executor")
        for n in range(int(seconds * rate)):
            time.sleep(max(0.0, begin + n / rate - time.perf_counter()))
            before = time.perf_counter()
            if n % every == 0:
                self.page()
                turn.pages.append(time.perf_counter() - before)
            else:
                self._script.clock.advance(SECOND // 100)
                self._script.loop.interrupt(lambda: None)
                turn.looks.append(time.perf_counter() - before)
        turn.worked = threads_seconds("slackwater-executor") - worked
        return turn


@dataclass
class Turn:
    """What a stretch of work took."""

    pages: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    worked: float = 0.0
    """The processor's time of the executor's thread."""

    def __add__(self, other: Turn) -> Turn:
        return Turn(self.pages + other.pages, self.looks + other.looks, self.worked + other.worked)


class Reader:
    """Follows the events in a process of its own, as a browser does."""

    def __init__(self, url: str, folder: Path, number: int) -> None:
        self._file = folder / f"events-{number}"
        with self._file.open("wb") as out:
            self._process = subprocess.Popen(["curl", "-sN", f"{url}events"], stdout=out)

    @property
    def events(self) -> int:
        """How often the queries have changed."""
        return self._file.read_bytes().count(b"event: queries")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(15)


def threads_seconds(*names: str) -> float:
    """The processor's time of this process's threads of these names, in seconds (Linux)."""
    ticks, found = 100, 0
    for thread in threading.enumerate():
        if any(thread.name.startswith(name) for name in names) and thread.native_id:
            text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
            fields = text.rpartition(")")[2].split()
            found += int(fields[11]) + int(fields[12])
    return found / ticks


def resident() -> float:
    """MiB of this process."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@contextmanager
def watched(page: LivePage, readers: int) -> Iterator[list[Reader]]:
    """Readers while the work goes on."""
    with TemporaryDirectory() as folder:
        following = [Reader(page.url, Path(folder), number) for number in range(readers)]
        yield following
        for reader in following:
            reader.stop()


def in_browser(url: str, seconds: float) -> dict[str, float]:
    """Frames a second and the longest pause between two in Chromium, where there is one."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return {}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        tab.goto(url)
        tab.wait_for_selector("#link[data-state=open]")
        tab.wait_for_selector(".node")
        found = tab.evaluate(
            """seconds => new Promise(done => {
                const at = [], began = performance.now();
                let work = 0;
                const long = list => list.getEntries().forEach(entry => work += entry.duration);
                new PerformanceObserver(long).observe({type: 'longtask'});
                const next = now => { at.push(now);
                    if (now - began < seconds * 1000) requestAnimationFrame(next);
                    else { const gaps = at.slice(1).map((t, n) => t - at[n]).sort((a, b) => a - b);
                        done({frames_a_second: at.length / seconds, gap_p99_ms: gaps[Math.floor(gaps.length * .99)],
                              longest_gap_ms: gaps[gaps.length - 1], long_tasks_ms: work,
                              heap_mib: performance.memory.usedJSHeapSize / 2 ** 20}); } };
                requestAnimationFrame(next);
            })""",
            seconds,
        )
        browser.close()
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=50)
    parser.add_argument("--sources", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a page")
    parser.add_argument("--rate", type=float, default=10.0, help="updates a second")
    parser.add_argument("--every", type=int, default=5, help="every so many of them are a page")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--browser", action="store_true", help="also look how smooth it is in Chromium")
    given = parser.parse_args()
    script = session(given.operators)
    load = Load(script, given.sources, given.rows)
    for _ in range(30):
        load.page()
    plain, seen, shares, updates, sizes = Turn(), Turn(), [], [], []
    work = partial(load.run, rate=given.rate, every=given.every)
    with LivePage(script) as page:
        for _ in range(given.turns):
            plain += work(given.seconds)
            with watched(page, given.readers) as readers:
                work(1.0)
                before, began = threads_seconds("slackwater-page"), time.perf_counter()
                counted = [r.events for r in readers]
                seen += work(given.seconds)
                passed = time.perf_counter() - began
                shares.append((threads_seconds("slackwater-page") - before) / passed)
                came = [r.events - c for r, c in zip(readers, counted, strict=True)]
                updates.append(statistics.mean(came) / passed)
            gc.collect()
            sizes.append(round(resident(), 1))
        smooth = {}
        if given.browser:
            working = threading.Thread(target=work, args=[given.seconds + 6], daemon=True)
            working.start()
            smooth = in_browser(page.url, given.seconds)
            working.join()
        figures = {
            "operators": len(script.history.latest.operators),
            "readers": given.readers,
            "updates_a_second": statistics.median(updates),
            "server_share_of_a_core": statistics.median(shares),
            "page_ms_alone": statistics.median(plain.pages) * 1e3,
            "page_ms_watched": statistics.median(seen.pages) * 1e3,
            "page_ratio": statistics.median(seen.pages) / statistics.median(plain.pages),
            "executor_seconds_ratio": seen.worked / plain.worked,
            "resident_mib": sizes,
            "readers_left": page.endpoints.feed.readers,
            **({"browser": smooth} if smooth else {}),
        }
    script.stop()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
