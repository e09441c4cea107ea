"""drop_ratio by source: one that falls silent inside a large first page is answered when others have gone on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan

SECOND = 1_000_000
FIRST, STEP, LAST = 100, 2, 400
#: The silent source sends for this many seconds, in two windows.
SENDS = 40


def arrivals(seed: int) -> pl.DataFrame:
    """Two rows a second of each of six sources, with exponential delays of 0.8 seconds."""
    rng, parts = np.random.default_rng(seed), []
    for number in range(6):
        times = np.arange(0, LAST if number else SENDS, 0.5)
        arrived = times + rng.exponential(0.8, len(times))
        parts.append(pl.DataFrame({"t": times * SECOND, "at": arrived * SECOND, "g": [f"s{number}"] * len(times)}))
    return pl.concat(parts).with_columns(pl.col("t", "at").cast(pl.Int64))


@pytest.mark.parametrize("restart", [False, True])
def test_a_source_that_is_silent_from_the_first_page_on_is_answered(tmp_path: Path, restart: bool) -> None:
    rows, sink = arrivals(1), ListSink()
    plan = arrow_plan(
        rows.select("t", "g"),
        "20 seconds",
        "20 seconds",
        group_by=["g"],
        source="g",
        disorder=sw.drop_ratio(0.01),
        domain=TimeDomain.TIMESTAMP,
        n="count(*)",
    )

    def begin() -> Script:
        return Script(plan, FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False), sink)

    def silent(results: list[dict[str, object]]) -> list[object]:
        return [row["n"] for row in results if row["g"] == "s0"]

    script, since = begin(), 0
    for until in [FIRST, *range(FIRST + STEP, LAST, STEP)]:
        page = rows.filter(pl.col("at").is_between(since * SECOND, until * SECOND, closed="left"))
        script.page(page.select("t", "g"), at=until * SECOND)
        since = until
        if until < 2 * FIRST:
            assert not silent(sink.rows), "its rows may be as late as the first page was long"
        if until == 2 * FIRST and restart:
            script = begin()
    assert silent(sink.rows) == [40, 40]
    windows = pl.DataFrame(sink.rows).group_by("g").len().filter(pl.col("g") != "s0")
    assert windows["len"].min() >= LAST // 20 - 2
    assert script.metrics()["q/window"]["lost_share"] <= 0.01
