"""What the live page costs: a busy session with and without readers of its page, in one run.

50 operators and 100,000 sources, on pages without Spark: so the executor has nothing else to wait for.
Stretches with readers lie between stretches without, and each is compared with its two neighbours. The threads are
measured by the processor's time, and the process by its memory, while it is watched and while it is not.

    .venv/bin/python benchmarks/live_page.py               # a minute with readers
    .venv/bin/python benchmarks/live_page.py --minutes 10  # the long run: a quarter of an hour
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from slackwater.dashboard import LivePage
from slackwater.estimates.early import early
from slackwater.plan.node import PlanNode
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
    """Updates at a steady rate: every few of them are a page, the others move the clock and publish."""

    def __init__(self, script: WatchedScript, sources: int, rows: int, rate: float, every: int) -> None:
        self._script = script
        self._names = np.array([f"s{n:06}" for n in range(sources)])
        self._dice = np.random.default_rng(3)
        self._rows, self._rate, self._every = rows, rate, every
        self.second = 0.0

    def page(self) -> Future[object]:
        """Send a page, so long after the last as pages come; gives when all work on it has been done."""
        self.second += self._every / self._rate
        carriers = self._dice.choice(self._names, self._rows)
        late = self._dice.exponential(0.5, self._rows)
        times = ((self.second - np.minimum(late, self.second)) * SECOND).astype(np.int64)
        gates = self._dice.choice(np.array(["a", "b", "c", "d"]), self._rows)
        delays, done = self._dice.normal(20, 9, self._rows), times - 2 * SECOND
        given = pl.DataFrame({"t": times, "carrier": carriers, "gate": gates, "delay": delays, "done": done})
        self._script.offer(given, self.second)
        return self._script.loop.post(time.perf_counter)

    def rest(self, last: Future[object]) -> None:
        """Wait until all has been worked on. A list of all answers would grow, with readers and without."""
        last.result()
        for query in self._script.queries():
            query.sink.commits.clear()

    def warm_up(self) -> None:
        """Until all sources have come, and windows close as fast as they open."""
        for _ in range(int(150 * self._rate / self._every)):
            self.rest(self.page())

    def run(self, seconds: float) -> Turn:
        """Work for so long."""
        turn, begin = Turn(), time.perf_counter()
        worked, served, size = executor_seconds(), server_seconds(), resident()
        sent = list[tuple[float, Future[object]]]()
        for n in range(int(seconds * self._rate)):
            time.sleep(max(0.0, begin + n / self._rate - time.perf_counter()))
            if n % self._every == 0:
                if sent:
                    self.rest(sent[-1][1])
                sent.append((time.perf_counter(), self.page()))
            else:
                self._script.clock.advance(round(SECOND / self._rate))
            # It is served between two runs, also while a page is worked on, and publishes.
            self._script.loop.interrupt(lambda: None)
        self.rest(sent[-1][1])
        turn.pages = [cast(float, done.result()) - at for at, done in sent]
        turn.seconds = time.perf_counter() - begin
        turn.worked, turn.served = executor_seconds() - worked, server_seconds() - served
        turn.grown = resident() - size
        return turn


@dataclass
class Turn:
    """What a stretch of work took."""

    pages: list[float] = field(default_factory=list)
    """Seconds from a page to the end of all work on it."""
    seconds: float = 0.0
    worked: float = 0.0
    """The processor's time of the executor's thread."""
    served: float = 0.0
    """That of the server's threads."""
    grown: float = 0.0
    """MiB that the process has more at its end."""
    updates: list[float] = field(default_factory=list)
    """Of each reader, a second."""

    @property
    def page_work(self) -> float:
        """The executor's time for a page and the updates behind it."""
        return self.worked / len(self.pages)


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


def executor_seconds() -> float:
    """The processor's time of the executor's thread so far."""
    return _threads_seconds("slackwater-executor")


def server_seconds() -> float:
    """The processor's time of all threads of the server so far."""
    return _threads_seconds("slackwater-page")


def _threads_seconds(name: str) -> float:
    """Of the threads of this process whose names begin so (Linux)."""
    found = 0
    for thread in threading.enumerate():
        if thread.name.startswith(name) and thread.native_id:
            found += int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
    return found / 1e9


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


def alternate(load: Load, page: LivePage, readers: int, turns: int, seconds: float) -> Iterator[Turn]:
    """Stretches without readers and with them, in turns; the first and the last are without."""
    yield load.run(seconds / 2)
    for _ in range(turns):
        with watched(page, readers) as following:
            load.run(1.0)  # a reader gets everything at first
            counted = [reader.events for reader in following]
            turn = load.run(seconds)
            turn.updates = [(r.events - c) / turn.seconds for r, c in zip(following, counted, strict=True)]
        yield turn
        load.run(1.0)
        yield load.run(seconds / 2)


def figures_of(turns: list[Turn]) -> dict[str, object]:
    """Of stretches in turns: what the page costs, and whether memory grows."""
    alone, seen = turns[::2], turns[1::2]
    ratios = [
        2 * s.page_work / (a.page_work + b.page_work) for s, (a, b) in zip(seen, pairwise(alone), strict=True)
    ]
    waits = [statistics.median(p for turn in side for p in turn.pages) for side in (alone, seen)]
    updates = [rate for turn in seen for rate in turn.updates]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else None
    return {
        "minutes_watched": sum(turn.seconds for turn in seen) / 60,
        "updates_a_second_of_a_reader": {"median": statistics.median(updates), "least": min(updates)},
        "server_share_of_a_core": {
            "mean": sum(t.served for t in seen) / sum(t.seconds for t in seen),
            "most": max(t.served / t.seconds for t in seen),
        },
        "executor_ratio": {"mean": statistics.mean(ratios), "standard_error": error},
        "page_ms": {"alone": waits[0] * 1e3, "watched": waits[1] * 1e3, "ratio": waits[1] / waits[0]},
        "executor_ms_a_page": {
            name: statistics.mean(t.page_work for t in side) * 1e3
            for name, side in (("alone", alone), ("watched", seen))
        },
        "mib_a_minute": {
            name: 60 * sum(t.grown for t in side) / sum(t.seconds for t in side)
            for name, side in (("alone", alone), ("watched", seen))
        },
    }


def slope(sizes: list[float], minutes: float) -> float:
    """MiB a minute, by the least squares, of sizes that were taken evenly over this time."""
    at = np.linspace(0, minutes, len(sizes))
    return float(np.polyfit(at, sizes, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=50)
    parser.add_argument("--sources", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a page")
    parser.add_argument("--rate", type=float, default=10.0, help="updates a second")
    parser.add_argument("--every", type=int, default=5, help="every so many of them are a page")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of each stretch with readers; half as much without"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="with readers, altogether")
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--browser", action="store_true", help="also look how smooth it is in Chromium")
    given = parser.parse_args()
    script = session(given.operators)
    load = Load(script, given.sources, given.rows, given.rate, given.every)
    load.warm_up()
    turns = max(1, round(given.minutes * 60 / given.seconds))
    with LivePage(script) as page:
        began, sizes = time.perf_counter(), [resident()]
        found = list[Turn]()
        for turn in alternate(load, page, given.readers, turns, given.seconds):
            found.append(turn)
            sizes.append(resident())
        figures = {
            "operators": len(script.history.latest.operators),
            "readers": given.readers,
            **figures_of(found),
            "resident_mib": [round(size, 1) for size in sizes],
            "slope_mib_a_minute": slope(sizes, minutes := (time.perf_counter() - began) / 60),
            "slope_of_the_second_half": slope(sizes[len(sizes) // 2 :], minutes / 2),
            "readers_left": page.endpoints.feed.readers,
        }
        if given.browser:
            working = threading.Thread(target=load.run, args=[given.seconds + 6], daemon=True)
            working.start()
            figures["browser"] = in_browser(page.url, given.seconds)
            working.join()
    script.stop()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
