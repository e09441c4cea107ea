"""A job over Kafka that can be killed in mid-backlog. As a program it kills itself, with SIGKILL."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.operators.page import Page
from slackwater.spark.backend.work import PageJobs
from slackwater.spark.ingest.spool import Spool
from slackwater.spark.storage.embedded import embedded
from tests.kit.kafka import with_connector

#: So many pages are noted before the job is killed; so many jobs of it are done at that time.
NOTED, DONE = 14, 2


def rows_of(spark: SparkSession, address: str, topic: str, limit: int = 20, **options: Any) -> DataFrame:
    """A topic as a user would declare it: the fields of the message."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic)
    read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", limit).options(**options)
    decoded = read.load().selectExpr("from_json(CAST(value AS STRING), 't LONG, k STRING, v LONG') AS row")
    return decoded.select("row.*").where("k <> 'dropped'")


def work(spark: SparkSession, root: str, frame: DataFrame, drain: bool = True) -> dict[str, Any]:
    """The whole job, or what is left of it; gives its figures."""
    with sw.Session(spark, journal=f"{root}/journal") as s:
        rows = s.stream("rows", frame, time="t", disorder=sw.bounded(500))
        query = rows.where("v >= 0").window(40, slide=20).group_by("k").agg(n="count(*)", total="sum(v)")
        run = query.start(sink=f"{root}/out", name="q", hold=True)
        s.run_available(drain=drain)
        return dict(run.metrics())


def main(root: str, address: str, topic: str) -> None:
    """Work off some pages, note others, and die."""
    fold, put, turns = PageJobs.fold, Spool.put, {"fold": 0, "put": 0}

    def folding(self: PageJobs, kernel: Any) -> Any:
        turns["fold"] += 1
        if turns["fold"] > DONE:
            threading.Event().wait()  # the next job takes for ever, and a backlog grows
        return fold(self, kernel)

    def putting(self: Spool, page: Page) -> Page:
        saved = put(self, page)
        turns["put"] += 1
        if turns["put"] == NOTED:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        return saved

    PageJobs.fold, Spool.put = folding, putting  # type: ignore[method-assign]
    with_connector()
    spark = embedded("local[2]", driver_memory="1g")
    work(spark, root, rows_of(spark, address, topic))


if __name__ == "__main__":
    main(*sys.argv[1:])
