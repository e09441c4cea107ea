"""Rows that need not be kept for a sink, because they can be made again.

The page that they are made of lies where a source has it, and nothing that is done to its rows depends on the day.
So the journal notes how they are made. How far time has come, and how many rows there are, must be known before:
that takes a job which reads only the columns for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import PUNCTUATION, SOURCE
from slackwater.operators.payload import Recipe
from slackwater.plan.steps import JoinTable
from slackwater.spark.pages.fold import KEEP
from slackwater.spark.pages.parts import Rows, cut
from slackwater.spark.pages.statistics import page_statistics
from slackwater.spark.references.registry import is_reference
from slackwater.spark.references.steps import same_at_any_time
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.spark.pages.spark_page import SparkPage

#: A step of a page: its name and its arguments, as JSON values.
Said: TypeAlias = tuple[str, Any]
_LEFT = "__left"
#: What each step does to a page.
_STEPS: dict[str, Callable[[SparkPage, Any], SparkPage]] = {
    "where": lambda page, condition: page.where(condition),
    "select": lambda page, columns: page.select(dict(columns)),
    "join_stored": lambda page, noted: _joined(page, noted),
}


def recipe_of(page: SparkPage) -> Recipe | None:
    """How the rows of a page are made; None if they may not come out the same again."""
    note = page.origin.saved
    if page.said is None or note is None or not is_reference(note) or not same_at_any_time(page.frame):
        return None
    steps = [_noted(page, *step) for step in page.said]
    if any(step is None for step in steps):
        return None
    rows, as_it_came = _rows_left(page, page.said), replace(page, made=None, marked=False, steps=(), said=())
    return Recipe(note, tuple(step for step in steps if step is not None), rows, as_it_came)


def rows_made(page: SparkPage, steps: tuple[Said, ...]) -> DataFrame:
    """The rows that a recipe speaks of, of the page that it is for; all is known of that page but its rows."""
    for what, how in steps:
        page = _STEPS[what](page, how)
    return page.frame.drop(*page.origin.hidden)


def _noted(page: SparkPage, what: str, how: Any) -> Said | None:
    """A step as a journal keeps it; None if it may not give the same again."""
    if what != "join_stored":
        return what, how
    node, table = how
    copy = page.origin.pages.copies.place(table)
    words = {"copy": copy, "how": node.how, "condition": node.condition}
    return None if copy is None else (what, {**words, "stored": node.stored, "columns": node.columns})


def _joined(page: SparkPage, noted: dict[str, Any]) -> SparkPage:
    stored, columns = (tuple((name, sql) for name, sql in noted[of]) for of in ("stored", "columns"))
    return page.join_stored(JoinTable("", noted["how"], noted["condition"], stored, columns, copy=noted["copy"]))


def _rows_left(page: SparkPage, said: tuple[Said, ...]) -> int:
    """How many rows the steps leave; at most one job, which brings the arrival statistics along."""
    origin = page.origin
    if origin.arrival is None:
        return _measured(page)
    if PUNCTUATION not in origin.hidden and all(what == "select" for what, _ in said):
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
