"""Runs one prodded query over one stream, on Spark by replay or in this process, and pairs early and final answers.

Accuracy and latency are S5's (sections 4.1 and 4.4).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.estimates.early import Early
from slackwater.plan.node import PlanNode
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.testing import ManualClock, Script, arrow_page, arrow_plan
from slackwater.windows.sideline import Sideline

SECOND = 1_000_000
AGGREGATES = {"avg": "avg(value)", "max": "max(value)", "sum": "sum(value)", "count": "count(*)"}
_STAMP = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class Query:
    """A window query over a frame of (arrival, time, value, …) in microseconds, and when it is prodded."""

    range: str
    slide: str
    aggregates: Mapping[str, str]
    early: Early | None
    disorder: Disorder
    page: str = "1 second"
    most: int | None = None
    """Pages of more rows are cut."""


@dataclass(frozen=True)
class Answers:
    """Early answers beside the final ones of their windows, and the run's own figures."""

    pairs: pl.DataFrame
    """window_start, window_end, early_at, final_at, first_at; per aggregate its final value `<name>_final`,
    `<name>_seen`, `<name>`, `<name>_low`, `<name>_high`; `inner` says that the stream covers the whole window."""
    finals: pl.DataFrame
    metrics: dict[str, Any]


def in_process(rows: pl.DataFrame, query: Query) -> Answers:
    """On in-process pages and a clock that follows the arrivals."""
    script = Script(_plan(rows, query), early=query.early)
    for at, page in _pages(rows, query):
        script.until(at).page(page, at=at)
    return _answers(rows, query, script)


def behind_map(rows: pl.DataFrame, query: Query, cost: int, sideline: Sideline | None) -> Answers:
    """The same behind a `map` that takes `cost` microseconds for a row; pages come in while it works."""
    clock = ManualClock()

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        clock.advance(cost * batch.num_rows)
        return batch.select(["value"])

    kind = rows.head(1).to_arrow().schema.field("value")
    plan = _plan(rows, query, map=(work, pa.schema([kind])))
    script = Script(plan, early=query.early, sideline=sideline, clock=clock)
    waiting = deque(enumerate(_pages(rows, query)))

    def admit() -> None:
        while waiting and waiting[0][1][0] <= clock.now():
            number, (at, page) = waiting.popleft()
            arrived = arrow_page(page, number, at, "time", punctuation=getattr(query.disorder, "column", None))
            script.executor.admit(source_label("s"), arrived)

    script.executor.between = admit
    while waiting:
        script.until(waiting[0][1][0])
        admit()
        script.executor.run_until_idle()
    return _answers(rows, query, script)


def _plan(rows: pl.DataFrame, query: Query, **more: Any) -> PlanNode:
    domain = TimeDomain.TIMESTAMP
    about = {"time": "time", "domain": domain, "disorder": query.disorder}
    return arrow_plan(rows.head(1), query.range, query.slide, **about, **more, **query.aggregates)


def _pages(rows: pl.DataFrame, query: Query) -> Iterator[tuple[int, pl.DataFrame]]:
    """Rows that arrived within a page's length, and when it ended."""
    length = TimeDomain.TIMESTAMP.span(query.page, "page")
    for (number,), page in rows.group_by(pl.col("arrival") // length, maintain_order=True):
        at = (int(number) + 1) * length  # type: ignore[call-overload]
        for piece in page.iter_slices(query.most or page.height):
            yield at, piece


def _answers(rows: pl.DataFrame, query: Query, script: Script) -> Answers:
    script.drain()
    tables = [pl.DataFrame(t) for _, t in sorted(script.sink.commits.items())]
    results = pl.concat(tables, how="diagonal_relaxed")
    figures = {k: v for f in script.metrics().values() for k, v in f.items()}
    return Answers(*_paired(rows, results, list(query.aggregates)), figures)


def on_spark(session: sw.Session, rows: pl.DataFrame, query: Query) -> Answers:
    """On Spark, by replay; pages without rows are none, as in process."""
    windowed = _stream(session, rows, query).window(query.range, slide=query.slide).agg(**query.aggregates)
    kept: list[pl.DataFrame] = []
    run = windowed.start(_keep(kept), early=query.early)
    session.run_available(drain=True)
    return _read(rows, query, kept, run)


def paced(
    spark: SparkSession, rows: pl.DataFrame, query: Query, cost: int, sideline: Sideline | None, speed: float
) -> Answers:
    """On Spark behind a `map` that takes `cost` microseconds for a row, by a replay at some speed."""
    pause = cost / SECOND / speed

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(pause * batch.num_rows)
        return batch.select(["value"])

    with sw.Session(spark) as session:
        mapped = _stream(session, rows, query).map(work, schema="value BIGINT")
        windowed = mapped.window(query.range, slide=query.slide).agg(**query.aggregates)
        kept: list[pl.DataFrame] = []
        run = windowed.start(_keep(kept), early=query.early, sideline=sideline)
        session.run_available(drain=True, speed=speed)
        return _read(rows, query, kept, run)


def asked_on_spark(spark: SparkSession, rows: pl.DataFrame, query: Query, asker: Any) -> Answers:
    """On Spark by replay, asked as an `asking.Asker` says."""
    with sw.Session(spark) as session:
        windowed = _stream(session, rows, query).window(query.range, slide=query.slide).agg(**query.aggregates)
        if asker.control is not None:
            prods = spark.createDataFrame(asker.control, "asked TIMESTAMP, until TIMESTAMP")
            session.stream("prods", prods, time="asked", arrival="asked", page=query.page, role="prods")
        kept: list[pl.DataFrame] = []

        def sink(results: DataFrame, commit_id: int) -> object:
            kept.append(pl.DataFrame(results.toArrow()))
            return asker.sink(results, commit_id) if asker.sink is not None else None

        run = windowed.start(sink=sink, early=query.early)
        user = asker.user or (lambda run, clock: None)
        session.run_available(progress=lambda page: user(run, page["clock"]))
        return _read(rows, query, kept, run)


def _stream(session: sw.Session, rows: pl.DataFrame, query: Query) -> sw.Stream:
    stamps = [pl.col(c).cast(_STAMP) for c in ("arrival", "time", "upto") if c in rows.columns]
    frame = session.spark.createDataFrame(rows.with_columns(stamps).to_arrow())
    return session.stream("s", frame, time="time", arrival="arrival", page=query.page, disorder=query.disorder)


def _keep(kept: list[pl.DataFrame]) -> Callable[[DataFrame, int], None]:
    """A sink's function that keeps all rows: `run.results()` forgets early ones when their final ones come."""

    def sink(results: DataFrame, commit_id: int) -> None:
        kept.append(pl.DataFrame(results.toArrow()))

    return sink


def _read(rows: pl.DataFrame, query: Query, kept: list[pl.DataFrame], run: sw.Run) -> Answers:
    results = pl.concat(kept, how="diagonal_relaxed")
    return Answers(*_paired(rows, results, list(query.aggregates)), run.metrics())


def _paired(rows: pl.DataFrame, results: pl.DataFrame, names: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    stamps = ["window_start", "window_end", "emitted_at"]
    results = results.with_columns(pl.col(s).dt.timestamp("us") for s in stamps)
    finals = results.filter(kind="final").select(
        "window_start", "window_end", final_at="emitted_at", **{f"{n}_final": n for n in names}
    )
    columns = [c for n in names for c in (n, f"{n}_seen", f"{n}_low", f"{n}_high")]
    early = results.filter(kind="early")
    early = early.with_columns(pl.lit(None).alias(c) for c in ("completeness", *columns) if c not in early.columns)
    early = early.select("window_start", "completeness", *columns, early_at="emitted_at")
    lowest, highest = rows["time"].min(), rows["time"].max()
    assert isinstance(lowest, int) and isinstance(highest, int)
    slide = int(finals["window_start"].diff().drop_nulls().min() or 1)  # type: ignore[arg-type]
    # S5: latency counts from the arrival of the first tuple of a window.
    first = _first_arrivals(rows, finals)
    inner = (pl.col("window_start") > lowest - slide) & (pl.col("window_end") <= highest + 1)
    return early.join(finals, on="window_start").sort("early_at", "window_end").join(
        first, on="window_start", how="left"
    ).with_columns(inner.alias("inner")), finals


def _first_arrivals(rows: pl.DataFrame, finals: pl.DataFrame) -> pl.DataFrame:
    by_time = rows.sort("time")
    times, arrival = by_time["time"].to_numpy(), by_time["arrival"].to_numpy()
    begins = np.searchsorted(times, finals["window_start"].to_numpy())
    ends = np.searchsorted(times, finals["window_end"].to_numpy())
    firsts = [int(arrival[b:e].min()) if e > b else None for b, e in zip(begins, ends, strict=True)]
    return finals.select("window_start").with_columns(pl.Series("first_at", firsts, dtype=pl.Int64))


def final_latency(rows: pl.DataFrame, answers: Answers) -> float:
    """S5 section 4.1: seconds from the arrival of a window's first row to its final result, the mean of all."""
    finals = answers.finals.join(_first_arrivals(rows, answers.finals), on="window_start").drop_nulls("first_at")
    return float((finals["final_at"] - finals["first_at"]).mean() or 0.0) / SECOND  # type: ignore[arg-type, operator]


def accuracies(pairs: pl.DataFrame, name: str, column: str) -> np.ndarray:
    """S5's accuracy of each early value, in percent, 0 at the least; windows whose final value is 0 have none."""
    final, early = pl.col(f"{name}_final").cast(pl.Float64), pl.col(column).cast(pl.Float64)
    off = (final - early).abs() / final.abs()
    kept = pairs.filter((final != 0) & early.is_not_null())
    return np.maximum(0.0, 100 * (1 - kept.select(off.alias("x"))["x"].to_numpy()))


def accuracy(pairs: pl.DataFrame, name: str, column: str | None = None) -> dict[str, float]:
    """Mean and worst accuracy of a column, by default of S5's value."""
    values = accuracies(pairs, name, column or f"{name}_seen")
    if not len(values):
        return {"mean": float("nan"), "worst": float("nan")}
    return {"mean": float(values.mean()), "worst": float(values.min())}


def gain(pairs: pl.DataFrame) -> dict[str, float]:
    """How much earlier the early answers came: seconds, and percent of the final ones' latency (S5 section 4.4)."""
    if not len(pairs):
        return {"seconds": float("nan"), "percent": float("nan")}
    early, final, first = (pairs[c].to_numpy() for c in ("early_at", "final_at", "first_at"))
    seconds = float((final - early).mean()) / SECOND
    return {"seconds": seconds, "percent": 100 * seconds / (float((final - first).mean()) / SECOND)}


def coverage(pairs: pl.DataFrame, name: str) -> dict[str, float]:
    """Share of final values within the interval, of those with one; its median width in percent of the value."""
    low, high, final = (pl.col(f"{name}{end}") for end in ("_low", "_high", "_final"))
    have = pairs.filter(low.is_not_null() & high.is_not_null() & final.is_not_null())
    if not len(have):
        return {"windows": 0, "covered": float("nan"), "width": float("nan")}
    inside = have.select(((final >= low - 1e-9) & (final <= high + 1e-9)).mean())
    width = have.filter(final != 0).select(((high - low) / final.abs()).median())
    return {"windows": len(have), "covered": 100 * inside.item(), "width": 100 * (width.item() or 0.0)}
