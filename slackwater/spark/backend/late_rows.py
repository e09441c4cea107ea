"""Rows of a page that came too late: below a time, in a stretch of it, or behind what their own source had said."""

from __future__ import annotations

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.columns import BEFORE, SINCE, SOURCE, TIME
from slackwater.operators.backend import LateTimes
from slackwater.progress.time import MIN_TICK

_OF = "__of"


def late_rows(rows: DataFrame, times: LateTimes) -> DataFrame:
    """The rows with late times, or without a time."""
    before, limits = times.before, times.by_group
    missed = [f"{TIME} IS NULL OR {TIME} < {before}L"] if before > MIN_TICK else [f"{TIME} IS NULL"]
    missed += [f"({TIME} >= {low}L AND {TIME} < {high}L)" for low, high in times.within]
    if limits is not None and limits.height:
        of = {group.name: f"{_OF}{n}" for n, group in enumerate(times.groups)}
        same = [f"({group.sql}) <=> {of[group.name]}" for group in times.groups]
        inside = " AND ".join([*same, f"{TIME} >= {SINCE} AND {TIME} < {BEFORE}"])
        stretches = rows.sparkSession.createDataFrame(limits.select(*of, SINCE, BEFORE).rename(of).to_arrow())
        rows = rows.join(F.broadcast(stretches), on=F.expr(inside), how="left").drop(*of.values())
        missed.append(f"{SINCE} IS NOT NULL")
    return rows.where(" OR ".join(missed)).drop(SINCE, BEFORE)


def rows_behind(rows: DataFrame, heartbeat: int, by_source: pl.DataFrame | None) -> DataFrame:
    """The rows at or below a heartbeat, or below the heartbeat of their own source."""
    limit = F.lit(heartbeat)
    if by_source is None:
        limited = rows.withColumn(BEFORE, limit)
    else:
        limits = rows.sparkSession.createDataFrame(by_source.to_arrow())
        joined = rows.join(F.broadcast(limits), on=SOURCE, how="left")
        limited = joined.withColumn(BEFORE, F.coalesce(F.col(BEFORE), limit))
    return limited.where(f"{TIME} <= {BEFORE}")
