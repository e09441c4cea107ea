"""Pages that wait: in Spark's memory up to a budget, then in files; and senders wait when there is no more room."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.operators.page import Page
from slackwater.plan.steps import Where
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.memory_budget import LENT, MOST_PAGES, MemoryBudget, hold, read_size
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import arrived
from slackwater.spark.storage.storage_dir import StorageDir
from tests.kit.streams_of_samples import A, plan

KEEP = "i % 5 = 0"


@pytest.mark.parametrize(("text", "size"), [("512 MB", 2**29), ("1.5 kb", 1536), (77, 77), ("2 GB", 2**31)])
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert read_size(text, "memory") == size


@pytest.mark.parametrize("text", ["512", "lots", "5 apples", -1, True, "nan MB"])
def test_what_is_no_size_is_refused(text: str | int) -> None:
    with pytest.raises(sw.QueryError, match=r"disk=.* is no size; write a number and a unit, as in disk='512 MB'"):
        read_size(text, "disk")


def test_a_sender_waits_until_the_spool_has_room() -> None:
    room, begun, done = MemoryBudget(disk=100), threading.Event(), threading.Event()

    def send() -> None:
        begun.set()
        room.wait("a", lambda: False)
        done.set()

    room.put("a", 0, 60)
    room.put("a", 1, 60)
    room.put("a", 1, 60)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert begun.wait(20) and room.full("a") and room.spooled == 120
    room.take("a", 0)
    sender.join(20)
    assert done.is_set() and room.spooled == 60


def test_not_too_many_pages_wait_that_take_no_room() -> None:
    room = MemoryBudget()
    for n in range(MOST_PAGES):
        assert not room.full("a")
        room.put("a", n, 0)
    assert room.full("a") and not room.full("b")
    room.wait("a", lambda: True)  # all is over: nobody waits


def test_python_looks_for_what_it_needs_no_more_after_much_was_handed_to_java() -> None:
    class Itself:
        """Refers to itself, as py4j's objects do."""

        def __init__(self) -> None:
            self.itself = self

    gc.collect()
    gc.disable()
    try:
        room, alive = MemoryBudget(), weakref.ref(Itself())
        room.lend(LENT)
        room.free()
        assert alive() is not None
        room.lend(1)
        room.free()
        assert alive() is None
    finally:
        gc.enable()


def page(spark: SparkSession, folder: Path) -> tuple[SparkPages, Page]:
    rows = pl.DataFrame({"i": range(100), "t": range(100)}).to_arrow()
    node = plan(A, {"a": sw.bounded(0)})
    frame = spark.createDataFrame(rows)
    whole = arrived(frame, node, 0, 0, size=rows.nbytes)  # type: ignore[arg-type]
    return SparkPages(SparkBackend(spark, StorageDir.of(folder))), whole


@pytest.mark.spark
def test_what_is_left_of_a_page_is_held_in_memory_while_it_is_needed(spark: SparkSession, tmp_path: Path) -> None:
    pages, whole = page(spark, tmp_path)
    assert pages.materialize(whole) is whole, "nothing would be freed"
    room, kept = pages.spark.room, pages.materialize(whole.with_step(Where(KEEP)))
    assert kept.held and kept.count == 20 and room.held == kept.size == 20 * 4 * 8, (
        "three columns, and a row itself"
    )
    assert pages.arrival(whole) is not None and pages.rows(whole) == 100, "the source learns from it as ever"
    pages.hold(kept)
    assert pages.payload(kept).num_rows == 20  # type: ignore[union-attr]
    saved = pages.write(kept)
    assert saved.held and saved.durable and not kept.durable
    plan = pages.spark.work(saved).frame._jdf.queryExecution().logical()
    assert plan.children().isEmpty(), "nothing is known of the rows that they were made of"
    rdd = plan.rdd()
    assert rdd.getStorageLevel().useMemory() and not rdd.getStorageLevel().deserialized()
    pages.hold(saved)
    pages.release(kept)
    assert room.held, "the page that was saved has its rows there, too"
    pages.release(saved)
    assert room.held == 0 and not rdd.getStorageLevel().useMemory()


@pytest.mark.spark
def test_what_rows_take_is_known_from_what_is_in_them(spark: SparkSession) -> None:
    columns = "`a b` STRING, `c.d` ARRAY<INT>"
    frame = spark.createDataFrame([("", [1, 23]), ("äb", None), (None, [])], columns)
    rows, count, size = hold(frame)
    assert rows.count() == count == 3
    assert size == 3 * 3 * 8 + 3 + len("[1,23]") + len("[]"), "texts by their bytes, lists as JSON"
    assert hold(frame.where("false"))[1:] == (0, 0)


@pytest.mark.spark
def test_beyond_the_budget_it_goes_to_files(spark: SparkSession, tmp_path: Path) -> None:
    pages, whole = page(spark, tmp_path)
    pages.spark.room = MemoryBudget(memory=10)
    kept = pages.materialize(whole.with_step(Where(KEEP)))
    assert kept.durable and not kept.held
    assert pages.payload(kept).num_rows == 20  # type: ignore[union-attr]


@pytest.mark.spark
@pytest.mark.parametrize("memory", ["1 GB", 0])
def test_chain_holds_filtered_pages_and_answers_the_same(
    spark: SparkSession, tmp_path: Path, memory: str | int
) -> None:
    for n in range(6):
        pl.DataFrame({"t": range(10 * n, 10 * n + 10), "i": range(10)}).write_parquet(tmp_path / f"{n}.parquet")
    folder = spark.readStream.schema("t BIGINT, i BIGINT").option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    held: list[bool] = []
    with sw.Session(spark, strategy=sw.chain(), memory=memory, batch_pages=False) as s:
        rows = s.stream("rows", folder, time="t", disorder=sw.bounded(100))
        kept = rows.where(KEEP).map(lambda batch: batch, schema="t BIGINT, i BIGINT")
        run = kept.window(20).agg(n="count(*)").start(hold=True)
        executor = s._running.loop.executor
        executor._cycle.on_ran = lambda ran: held.append(bool(s._running.pages.room.held))
        strategy = executor._cycle.strategy
        strategy.ends_segment = lambda label: "where" in label  # type: ignore[method-assign]
        s.run_available()
        assert [r["n"] for r in run.results().to_pylist()] == [4, 4, 4]
        assert source_label("rows") in executor.graph
        assert run.metrics()["memory_bytes"] == 0
    assert any(held) == bool(memory)
