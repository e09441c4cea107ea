"""`sw.tune`: rows of any kind into a back-test; those of a Spark DataFrame are reduced by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.calls import called
from slackwater.columns import BEFORE, NO_SOURCE, PANE, ROWS, SOURCE, TIME
from slackwater.errors import QueryError
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.arrival_statistics import sketch_column
from slackwater.spark.backend.relation import columns_of, time_in_ticks
from slackwater.spark.storage.embedded import moved_to, private_copy
from slackwater.tune import rows as R
from slackwater.tune.bar import bar
from slackwater.tune.comparison import Progress, tune_rows
from slackwater.tune.options import TARGETS, Length, TuneOptions, as_shares, as_tuple
from slackwater.tune.read import check_arrival, read_rows
from slackwater.tune.report import Report
from slackwater.windows.frames import frame_of
from slackwater.windows.spec import WindowSpec, floor_division


@called()
def tune(
    data: Any,
    *,
    time: str,
    arrival: str | None = None,
    source: str | None = None,
    windows: Length | tuple[Length, Length] | None = None,
    page: Length | None = None,
    targets: float | str | Sequence[float | str] = TARGETS,
    delays: Length | Sequence[Length] = (),
    policies: Disorder | Sequence[Disorder] = (),
    progress: Progress | None = None,
) -> Report:
    """A report on rows that have arrived: what each policy would have lost, and how long it would have waited.

    `print(report)` shows findings, a table and the lines to copy; `report.html("tune.html")` has plots too.

    Args:
        data: a Spark DataFrame, a polars or pandas frame, an Arrow table, or a path to Parquet, CSV or JSON.
        time: the column of application time, a timestamp; of a Spark DataFrame also an expression.
        arrival: the column that says when each row came in. Rows are played in this order.
        source: the column that names the source of a row. Then sources that run apart are found, and queries that
            group by it are tried too.
        windows: RANGE, or RANGE and SLIDE, of the query: "10 minutes" or ("3 hours", "1 hour").
        page: how much arrival time comes at once: the interval of the trigger, and the micro-batch of native Spark.
        targets: shares that may be lost, as 0.01 or "1%".
        delays: fixed delays that are tried too, such as the one in use.
        policies: policies that are tried too, such as sw.sensors("2 seconds", timeout="1 minute").
        progress: a function that is called with the step under way, its number and how many there are. Without
            it, a terminal shows a bar.
    """
    check_arrival(arrival)
    assert arrival is not None
    shares, fixed, more = as_shares(targets), as_tuple(delays, "delays"), as_tuple(policies, "policies")
    options = TuneOptions(time, arrival, source, windows, page, shares, fixed, more)  # type: ignore[arg-type]
    options.check()
    rows: R.TuneRows
    rows = _spark_rows(data, options) if isinstance(data, DataFrame) else read_rows(data, time, arrival, source)
    with bar() if progress is None else nullcontext(progress) as on_step:
        return tune_rows(rows, options, on_step)


def read_with_spark(spark: SparkSession, path: str) -> DataFrame:
    """The rows of files, by the ending of their name; of a folder, Parquet."""
    kind = (
        "csv" if path.endswith(".csv") else "json" if path.endswith((".json", ".jsonl", ".ndjson")) else "parquet"
    )
    try:
        return spark.read.load(path, format=kind, header=True, inferSchema=True)
    except PySparkException as error:
        raise QueryError(f"{path!r} cannot be read as {kind}: {str(error).strip().splitlines()[0]}") from None


def _spark_rows(df: DataFrame, options: TuneOptions) -> SparkRows:
    if df.isStreaming:
        raise QueryError(
            "this DataFrame is a stream; a back-test needs rows that have arrived: read them with spark.read"
        )
    df = moved_to(private_copy(df.sparkSession), df)
    columns = []
    for what, sql, name in (("time", options.time, TIME), ("arrival", options.arrival, R.ARRIVAL)):
        ticks, domain = time_in_ticks(df, sql, what)
        if domain is not TimeDomain.TIMESTAMP:
            raise QueryError(
                f"{what}={sql!r} counts in {domain.value}s; a back-test needs a timestamp, as in "
                f"{what}='timestamp_millis({sql})'"
            )
        columns.append(F.expr(ticks).alias(name))
    if options.source is not None:
        columns_of(df, [options.source], "source")
        columns.append(F.expr(f"coalesce(CAST({options.source} AS STRING), '{NO_SOURCE}')").alias(SOURCE))
    return SparkRows(df.select(*columns), options.source is not None)


@dataclass(frozen=True)
class SparkRows:
    """Rows of a Spark DataFrame with the columns TIME, ARRIVAL and perhaps SOURCE; see `Rows`."""

    frame: DataFrame
    has_source: bool

    @property
    def _timed(self) -> DataFrame:
        return self.frame.where(f"{TIME} IS NOT NULL AND {R.ARRIVAL} IS NOT NULL")

    def extent(self) -> R.Extent:
        known = f"count_if({TIME} IS NOT NULL AND {R.ARRIVAL} IS NOT NULL)"
        figures = ("count(*)", known, f"min({R.ARRIVAL})", f"max({R.ARRIVAL})")
        row = self.frame.agg(*map(F.expr, figures)).first()
        assert row is not None
        return R.Extent(row[0], row[1], row[2] or 0, row[3] or 0)

    def cells(self, page: int, spec: WindowSpec) -> pl.DataFrame:
        rows = self.frame.withColumn(TIME, F.expr(f"CASE WHEN {R.ARRIVAL} IS NOT NULL THEN {TIME} END"))
        since = f"({TIME} - {spec.offset}L)"
        keys = [_page(page), *([F.col(SOURCE)] if self.has_source else [])]
        keys.append(F.expr(floor_division(since, spec.pane)).alias(PANE))
        columns = {
            ROWS: "count(*)",
            R.LOW: f"min({TIME})",
            R.HIGH: f"max({TIME})",
            R.SINCE_PANE: f"coalesce(sum(pmod({since}, {spec.pane}L)), 0L)",
        }
        return _collected(rows.groupBy(*keys).agg(*_columns(columns)))

    def sketches(self, page: int) -> pl.DataFrame:
        return _collected(self._timed.groupBy(_page(page)).agg(sketch_column().alias(R.SKETCH)))

    def delays(self, by_source: bool) -> pl.DataFrame:
        delay = f"({R.ARRIVAL} - {TIME})"
        columns = {
            ROWS: "count(*)",
            **{name: f"percentile_approx({delay}, {s}D)" for s, name in zip(R.SHARES, R.DELAYS, strict=True)},
            R.LEAST: f"min({delay})",
            R.MOST: f"max({delay})",
            R.AHEAD: f"count_if({delay} < 0)",
            R.FIRST: f"min({R.ARRIVAL})",
            R.LAST: f"max({R.ARRIVAL})",
        }
        return _collected(self._timed.groupBy(*([SOURCE] if by_source else [])).agg(*_columns(columns)))

    def row_by_row(self, delay: int, ahead: int | None, spec: WindowSpec) -> tuple[float, float] | None:
        return None

    def lateness(self, page: int, before: pl.DataFrame) -> pl.DataFrame:
        limits = F.broadcast(self.frame.sparkSession.createDataFrame(before.to_arrow()))
        late = f"({BEFORE} - {TIME})"
        steps = F.expr(f"CASE WHEN {late} > 0 THEN CAST(floor(log2({late}) / {R.STEP}D) AS BIGINT) END")
        rows = self._timed.select(_page(page), TIME).join(limits, on=R.PAGE, how="left")
        return _collected(rows.groupBy(steps.alias(R.LATENESS)).agg(*_columns({ROWS: "count(*)"})))


def _page(length: int) -> Column:
    return F.expr(floor_division(R.ARRIVAL, length)).alias(R.PAGE)


def _columns(texts: dict[str, str]) -> list[Column]:
    return [F.expr(sql).alias(name) for name, sql in texts.items()]


def _collected(frame: DataFrame) -> pl.DataFrame:
    return frame_of(frame.toArrow())
