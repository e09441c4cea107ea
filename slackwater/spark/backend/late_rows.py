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
    """Those with late times, or without one."""
    before, by_source = times.before, times.by_source
    missed = [f"{TIME} IS NULL OR {TIME} < {before}L"] if before > MIN_TICK else [f"{TIME} IS NULL"]
    missed += [f"({TIME} >= {low}L AND {TIME} < {high}L)" for low, high in times.within]
    if by_source is not None and by_source.height:
        limits = rows.sparkSession.createDataFrame(by_source.rename({SOURCE: _OF}).to_arrow())
        inside = F.expr(f"{SOURCE} = {_OF} AND {TIME} >= {SINCE} AND {TIME} < {BEFORE}")
        rows = rows.join(F.broadcast(limits), on=inside, how="left")
        missed.append(f"{_OF} IS NOT NULL")
    return rows.where(" OR ".join(missed)).drop(_OF, SINCE, BEFORE)


def rows_behind(rows: DataFrame, heartbeat: int, by_source: pl.DataFrame | None) -> DataFrame:
    """Those at or below a heartbeat, or that of their own source."""
    limit = F.lit(heartbeat)
    if by_source is None:
        limited = rows.withColumn(BEFORE, limit)
    else:
        limits = rows.sparkSession.createDataFrame(by_source.to_arrow())
        joined = rows.join(F.broadcast(limits), on=SOURCE, how="left")
        limited = joined.withColumn(BEFORE, F.coalesce(F.col(BEFORE), limit))
    return limited.where(f"{TIME} <= {BEFORE}")
