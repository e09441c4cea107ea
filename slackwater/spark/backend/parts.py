"""The parts that a page is worked on in: all of its rows, or some of its files, or of its offsets, each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from slackwater.spark.pages.one_task import in_one_task
from slackwater.spark.pages.shape import Way
from slackwater.spark.references.reference import told

if TYPE_CHECKING:
    from slackwater.spark.pages.spark_page import SparkPage

Rows = Callable[[], DataFrame]


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
        yield [lambda rows=rows: narrow(page.part(rows())) for rows in origin.parts(count)]  # type: ignore[misc]
