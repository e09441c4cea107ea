"""Rows that need not be kept for a sink, because they can be made again.

The page that they are made of lies where a source has it, and nothing that is done to its rows depends on the day.
So the journal notes how they are made. How far time has come, and how many rows there are, must be known before:
that takes a job which reads only the columns for it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import PUNCTUATION, SOURCE
from slackwater.operators.payload import Recipe
from slackwater.plan.steps import JoinTable, Step
from slackwater.spark.backend.compile import KEEP
from slackwater.spark.backend.locations.batch_plan import same_at_any_time
from slackwater.spark.backend.locations.registry import is_reference
from slackwater.spark.backend.one_task import Rows, cut
from slackwater.spark.backend.statistics import page_statistics
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages
    from slackwater.spark.backend.spark_page import SparkPage

_LEFT = "__left"


def recipe_of(page: SparkPage) -> Recipe | None:
    """How the rows of a page are made; None if they may not come out the same again."""
    note, origin = page.origin.saved, page.origin
    if note is None or not is_reference(note) or not same_at_any_time(page.frame):
        return None
    steps = [_repeatable(step, origin.pages) for step in page.steps]
    if any(step is None for step in steps):
        return None
    return Recipe(
        note,
        tuple(step for step in steps if step is not None),
        _rows_left(page),
        replace(page, steps=()),
    )


def rows_made(page: SparkPage, steps: tuple[Step, ...]) -> DataFrame:
    """The rows that a recipe speaks of, of the page that it is for; all is known of that page but its rows."""
    return replace(page, steps=steps).compiled.passed().drop(*page.origin.hidden)


def _repeatable(step: Step, pages: SparkPages) -> Step | None:
    """A step as a journal keeps it; None if it may not give the same again."""
    if not isinstance(step, JoinTable):
        return step
    copy = pages.copies.place(pages.stored(step))
    return None if copy is None else replace(step, copy=copy)


def _rows_left(page: SparkPage) -> int:
    """How many rows the steps leave; at most one job, which brings the arrival statistics along."""
    origin = page.origin
    if origin.arrival is None:
        return _measured(page)
    if PUNCTUATION not in origin.hidden and not any(step.drops_rows for step in page.steps):
        return origin.arrival.rows
    with page.rows_passed() as rows:
        return rows.count()


def _measured(page: SparkPage) -> int:
    """One job, or one for each part of the rows: statistics of their arrival, and how many the filters leave."""
    origin, started = page.origin, time.perf_counter()
    way, keys = origin.shape.way(page.files), [SOURCE] if origin.many_sources else []
    left = F.count_if(F.col(KEEP)) if page.marked else F.count(F.lit(1))

    def job(rows: Rows) -> tuple[pl.DataFrame, Observation | None]:
        frame, sketch = origin.sketched(rows())
        found = frame.groupBy(*keys).agg(*page_statistics(*origin.asked), left.alias(_LEFT))
        return frame_of(found.toArrow()), sketch

    with cut(page, way) as parts:
        done = origin.pages.side_by_side.run([partial(job, rows) for rows in parts])
    seconds = time.perf_counter() - started
    origin.ran(seconds, len(done))
    found = pl.concat([table for table, _ in done])
    origin.arrived(found, *(sketch for _, sketch in done))
    assert origin.arrival is not None
    origin.shape.ran(way, page.files, origin.arrival.rows, seconds)
    return int(found[_LEFT].sum())
