"""A page's rows are read from the source once, though their statistics are by source and a job of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import Accumulator
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.operators.page import Page
from slackwater.plan.map_node import MapNode
from slackwater.plan.nodes import StreamNode, WindowNode
from slackwater.plan.steps import Where
from slackwater.plan.window_kinds import RollingNode
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import arrived
from slackwater.spark.ingest.spool import Spool
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import arrow_plan
from tests.kit.streams import SAMPLE

pytestmark = pytest.mark.spark

ROWS = 90
SCHEMA = "t BIGINT, g STRING, s BIGINT, x DOUBLE, i BIGINT"


@pytest.fixture
def reads(spark: SparkSession) -> Accumulator[int]:
    return spark.sparkContext.accumulator(0)


def page_of(spark: SparkSession, reads: Accumulator[int]) -> Page:
    """A page that counts each row that is read."""

    def read(part: Iterator[int]) -> Iterator[tuple[int, str, int, float, int]]:
        for n in part:
            reads.add(1)
            yield n, f"g{n % 3}", 0, float(n), n

    frame = spark.createDataFrame(spark.sparkContext.parallelize(range(ROWS), 2).mapPartitions(read), SCHEMA)
    node = StreamNode("rows", (), "t", "t", TimeDomain.SEQUENCE, sw.bounded(5), source="g")
    return arrived(frame, node, 3, 7)


def written(pages: SparkPages, page: Page) -> int:
    return pages.spark.work(pages.write(page)).frame.count()


def mapped(pages: SparkPages, page: Page) -> int:
    made = arrow_plan(SAMPLE, map=(lambda rows: rows.select(["i"]), pa.schema([("i", pa.int64())])))
    assert isinstance(made, MapNode)
    return pages.spark.work(pages.materialize(page.with_step(made.step))).frame.count()


def rows_of_windows_for_each_row(pages: SparkPages, page: Page) -> int:
    made = arrow_plan(SAMPLE, range=10, group_by=["g"], n="count(*)")
    assert isinstance(made, RollingNode)
    return pages.rows_of(page, made.kernel).height


def spilled(pages: SparkPages, page: Page) -> int:
    made = arrow_plan(SAMPLE, range=10, slide=10, group_by=["g"], n="count(*)")
    assert isinstance(made, WindowNode)
    place = pages.spark.root.child("spilled")
    for work in pages.works(page):
        work.spill(made.kernel, place)
    return int(pages.spark.spark.read.parquet(place.address).agg({"__rows": "sum"}).first()[0])  # type: ignore[index]


def spilled_rows(pages: SparkPages, page: Page) -> int:
    made = arrow_plan(SAMPLE, range=10, group_by=["g"], n="count(*)")
    place = pages.spark.root.child("spilled")
    for work in pages.works(page):
        work.spill_rows(made.kernel, 10, place)
    return pages.spark.spark.read.parquet(place.address).count()


@pytest.mark.parametrize("work", [written, mapped, rows_of_windows_for_each_row, spilled, spilled_rows])
@pytest.mark.parametrize("where", ["i % 2 = 0", pytest.param(None, marks=pytest.mark.long)])
def test_the_rows_of_a_page_are_read_once(
    spark: SparkSession,
    reads: Accumulator[int],
    tmp_path: Path,
    where: str | None,
    work: Callable[[SparkPages, Page], int],
) -> None:
    pages, whole = SparkPages(SparkBackend(spark, StorageDir.of(tmp_path))), page_of(spark, reads)
    page = whole if where is None else whole.with_step(Where(where))
    assert work(pages, page) == (ROWS if where is None else ROWS // 2)
    assert reads.value == ROWS
    arrival = pages.arrival(page)
    assert arrival is not None and (arrival.rows, arrival.lowest, arrival.highest) == (ROWS, 0, ROWS - 1)
    assert arrival.sources is not None and arrival.sources.rows.tolist() == [30, 30, 30]
    assert not pages.spark.work(whole).rows.source.is_cached, "what was kept is given back"


def test_a_page_that_goes_to_the_spool_is_read_once(
    spark: SparkSession, reads: Accumulator[int], tmp_path: Path
) -> None:
    backend = SparkBackend(spark, StorageDir.of(tmp_path))
    Spool("rows", backend).put(page_of(spark, reads))
    (found,) = Spool("rows", backend).waiting(None)
    assert backend.work(found).frame.count() == reads.value == ROWS
    assert found.arrival is not None and found.arrival.rows == ROWS
