"""The parts that a page is worked on in: all of its rows, or some of its files, or of its offsets, each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from slackwater.spark.pages.one_task import in_one_task
from slackwater.spark.pages.shape import Way
from slackwater.spark.references.reference import told

if TYPE_CHECKING:
    from slackwater.spark.pages.spark_page import SparkPage

Rows = Callable[[], DataFrame]
Change = Callable[[DataFrame], DataFrame]


@contextmanager
def cut(page: SparkPage, way: Way) -> Iterator[list[Rows]]:
    """What gives the rows of a page as a way wants them; inside, the job over each part is cut like that."""
    spark, origin = page.origin.pages.spark, page.origin
    if way is Way.MANY:
        with told(origin.reference):
            yield [lambda: page.frame]
        return
    with told(origin.reference), in_one_task(spark, origin.scanned) as narrow:
        if way is Way.ONE or origin.parts is None:
            yield [lambda: narrow(page.frame)]
            return
        count = min(page.files, origin.pages.cores)
        yield [partial(_part, page, rows, narrow) for rows in origin.parts(count)]


def _part(page: SparkPage, rows: Rows, narrow: Change) -> DataFrame:
    """What was done to all rows of a page, done to some of them."""
    part = rows()
    for step in page.steps or ():
        part = step(part)
    return narrow(part)
