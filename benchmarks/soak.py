"""python benchmarks/soak.py --seconds 3600: what grows in an engine that runs for long, in process, without Spark.

Fifty pages a second by the clock, in bursts and with pauses, of sources that come and go; a prod and a look at the
figures each second. After each tenth: memory, Python's objects, the journal, and which kinds of objects have grown
most since the first tenth. It fails if objects grow.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import polars as pl
from pyarrow import fs

from slackwater import bounded
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.records import History
from slackwater.engine.settings import QuerySettings
from slackwater.estimates.early import early
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.progress.clock import ManualClock
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import arrow_page, arrow_plan
from slackwater.testing.pages import ArrowPages

PAGES_A_SECOND, ROWS = 50, 20
SAMPLE = pl.DataFrame({"t": [1], "g": ["a"], "v": [1.0]})


class Counting:
    """A sink that keeps nothing."""

    rows = 0

    def write(self, payload: Payload, commit_id: int) -> None:
        self.rows += payload.num_rows  # type: ignore[union-attr]


def memory() -> int:
    """Megabytes of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def kinds() -> Counter[str]:
    """Python's objects by their type."""
    gc.collect()
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seconds", type=int, default=3600)
    given = asked.parse_args()
    folder, chance, clock = Path(tempfile.mkdtemp(prefix="soak-")), Random(1), ManualClock()
    journal = FileJournal(fs.LocalFileSystem(), str(folder), sync=False)
    executor, history, sinks = Executor(clock, journal, ArrowPages()), History(), [Counting() for _ in range(4)]
    executor.on_commit = lambda: history.publish(executor.snapshot())
    texts = {"n": "count(*)", "total": "sum(v)"}
    for name, sink, policy, groups, source in (
        ("bounded", sinks[0], bounded("2 seconds"), ["g"], "g"),
        ("ratio", sinks[1], drop_ratio(0.01), ["g"], "g"),
        ("early", sinks[2], bounded("2 seconds"), [], "g"),
        ("rows", sinks[3], bounded("2 seconds"), None, "g"),
    ):
        more = {} if groups is None else {"range": "10 seconds", "slide": "5 seconds", "group_by": groups, **texts}
        plan = arrow_plan(
            SAMPLE, domain=TimeDomain.TIMESTAMP, disorder=bounded("2 seconds"), source=source,
            **({"own_disorder": policy} if groups is not None else {}), **more,
        )  # fmt: skip
        wanted = early(at=0.5) if name == "early" else None
        add_query(executor, name, plan, sink, QuerySettings(early=wanted))
    began, number, table, first = time.monotonic(), -1, [], Counter[str]()
    for second in range(given.seconds):
        burst = chance.choice((0, 1, 1, 1, 2)) * PAGES_A_SECOND
        for n in range(burst):
            number += 1
            now = (second * burst + n) * 1_000_000 // max(burst, 1) if burst else 0
            now = second * 1_000_000 + n * 1_000_000 // burst
            clock.set(now)
            sources = [f"s{(second // 30 + chance.randrange(20))}" for _ in range(ROWS)]
            times = [now - int(chance.expovariate(2e-6)) for _ in sources]
            rows = pl.DataFrame({"t": times, "g": sources, "v": [1.0] * ROWS})
            executor.admit(source_label("s"), arrow_page(rows, number, now, "t", "g"))
            executor.run_until_idle()
        clock.set((second + 1) * 1_000_000)
        executor.prod(Prod(query="bounded"))
        executor.run_until_idle()
        if (second + 1) % max(given.seconds // 10, 1) == 0:
            found = kinds()
            first = first or found
            grown = (found - first).most_common(6)
            files = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
            table.append({"seconds": second + 1, "pages": number + 1, "MB": memory(), "objects": found.total(),
                          "journal bytes": files, "results": sum(s.rows for s in sinks)})  # fmt: skip
            print(json.dumps(table[-1]), f"{time.monotonic() - began:.0f} s", grown, flush=True)


if __name__ == "__main__":
    main()
