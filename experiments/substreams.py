"""S5 section 6.2 (b): prods with a predicate give some groups first. On real flights, by airport and carrier.

Every half an hour of the stream a prod asks for a part of the groups, or for all. S5 left open what that is worth.
"""

from __future__ import annotations

import time

import polars as pl
from bench import Bench
from play import AGGREGATES, SECOND
from streams import FLIGHTS

import slackwater as sw
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, arrow_page, arrow_plan

#: Parts of the groups: one value, a pattern, and a condition over both columns.
PREDICATES = {
    "all groups": None,
    "carrier = 'UA'": "carrier = 'UA'",
    "carrier LIKE 'A%'": "carrier LIKE 'A%'",
    "origin = 'JFK' AND carrier <> 'DL'": "origin = 'JFK' AND carrier <> 'DL'",
}
GROUPS = ["origin", "carrier"]
PAGE = 1_800 * SECOND


def substreams(bench: Bench) -> None:
    """Early answers of each predicate; those of all groups say what they must be."""
    rows = _flights(4_000 if bench.quick else None)
    everything: pl.DataFrame | None = None
    for name, where in PREDICATES.items():
        early, finals, seconds = _run(rows, where)
        everything = early if everything is None else everything
        part = everything if where is None else everything.sql(f"SELECT * FROM self WHERE {where}")
        keys = [*GROUPS, "window_start", "emitted_at"]
        same = early.sort(keys).equals(part.select(early.columns).sort(keys))
        pairs = early.join(finals, on=[*GROUPS, "window_start"])
        off = 1 - pairs["count_seen"] / pairs["count"]
        found: list[tuple[str, object]] = [
            ("early rows", early.height),
            ("groups asked for, % of all early rows", 100 * early.height / everything.height),
            ("the rows that prods for all give for them", same),
            ("accuracy of the count seen, %", 100 * (1 - float(off.mean() or 0.0))),  # type: ignore[arg-type]
            ("ms of processor time a prod", 1_000 * seconds),
        ]
        for figure, ours in found:
            bench.add("6.2 (b): prods by predicate, flights, 3 hours / 1 hour", name, figure, None, ours)


def _flights(most: int | None) -> pl.DataFrame:
    stamps = [
        pl.col("departed").dt.timestamp("us").alias("arrival"),
        pl.col("scheduled").dt.timestamp("us").alias("time"),
    ]
    rows = pl.read_parquet(FLIGHTS).select(*stamps, *GROUPS, value="delay_min").drop_nulls().sort("arrival")
    return rows if most is None else rows.head(most)


def _run(rows: pl.DataFrame, where: str | None) -> tuple[pl.DataFrame, pl.DataFrame, float]:
    """Early rows, final rows, and seconds of processor time a prod."""
    plan = arrow_plan(
        *(rows.head(1), "3 hours", "1 hour"),
        group_by=GROUPS,
        time="time",
        domain=TimeDomain.TIMESTAMP,
        disorder=sw.bounded("4 hours"),
        **AGGREGATES,
    )
    first = rows["arrival"][0]
    script, spent, prods = Script(plan), 0.0, 0
    for number, ((slot,), page) in enumerate(
        rows.group_by((pl.col("arrival") - first) // PAGE, maintain_order=True)
    ):
        at = int(first) + (int(slot) + 1) * PAGE  # type: ignore[call-overload]
        script.until(at)
        script.executor.admit("source:s", arrow_page(page, number, at, "time"))
        script.executor.run_until_idle()
        began = time.process_time()
        script.prod(where=where)
        spent, prods = spent + time.process_time() - began, prods + 1
    script.drain()
    results = pl.concat([pl.DataFrame(t) for _, t in sorted(script.sink.commits.items())], how="diagonal_relaxed")
    keep = [*GROUPS, "window_start", "emitted_at"]
    early = results.filter(kind="early").select(*keep, *(f"{name}_seen" for name in AGGREGATES))
    return early, results.filter(kind="final").select(*keep, *AGGREGATES), spent / prods
