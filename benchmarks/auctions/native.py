"""Nexmark's queries in native Structured Streaming, in append mode, as far as it can run them.

The same questions as in `queries.py`, each in the way that suits Spark best: a window that keeps a list of its rows
instead of a join with its own results, for example.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from .events import SCHEMAS, House
from .queries import KNOWN, LEVELS, SLIDE, WINDOW
from .truth import side_input


@dataclass(frozen=True)
class Rows:
    """The streams, read anew by each who asks."""

    spark: SparkSession
    house: House
    folder: Path

    def of(self, name: str, time: str | None = "dateTime", more: int = 0) -> DataFrame:
        """A stream with its watermark, which waits for as long as Slackwater does."""
        reader = self.spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(self.folder / name))
        if time is None:
            return rows
        return rows.withWatermark(time, f"{round(self.house.delay * 1_000) + 1 + more} milliseconds")

    @property
    def side(self) -> DataFrame:
        return self.spark.createDataFrame(side_input().to_arrow())


def _window(time: str = "dateTime") -> Column:
    return F.window(time, WINDOW).alias("window")


def _start() -> Column:
    return F.col("window.start").alias("window_start")


def _end() -> Column:
    return F.col("window.end").alias("window_end")


def q0(r: Rows) -> DataFrame:
    return r.of("bid", None).select("auction", "bidder", "price", "dateTime", "extra")


def q1(r: Rows) -> DataFrame:
    return r.of("bid", None).selectExpr("auction", "bidder", "dateTime", "extra", "0.908D * price AS price")


def q2(r: Rows) -> DataFrame:
    return r.of("bid", None).where("auction % 123 = 0").select("auction", "price")


def q3(r: Rows) -> DataFrame:
    persons = r.of("person").where("state IN ('OR', 'ID', 'CA')")
    persons = persons.selectExpr("name", "city", "state", "id AS person", "dateTime AS entered")
    auctions = r.of("auction").where("category = 10").select("id", "seller", "dateTime")
    near = f"seller = person AND dateTime < entered + INTERVAL {KNOWN} AND entered < dateTime + INTERVAL {KNOWN}"
    return auctions.join(persons, F.expr(near)).select("name", "city", "state", "id")


def q4(r: Rows) -> DataFrame:
    prices = _sold(r).groupBy(_window("expires"), "id", "category").agg(F.max("price").alias("final"))
    return (
        prices.groupBy("window", "category")
        .agg(F.avg("final").alias("price"))
        .select("category", "price", _start())
    )


def q5(r: Rows) -> DataFrame:
    counts = r.of("bid").groupBy(F.window("dateTime", WINDOW, SLIDE).alias("window"), "auction")
    listed = counts.agg(F.count("*").alias("num")).groupBy("window")
    most = listed.agg(F.max("num").alias("most"), F.collect_list(F.struct("auction", "num")).alias("all"))
    found = most.select("window", F.explode(F.expr("filter(all, x -> x.num >= most)")).alias("x"))
    return found.select("x.auction", "x.num", _end())


def q7(r: Rows) -> DataFrame:
    bid = F.struct("auction", "bidder", "dateTime").alias("bid")
    # Bids of one price are few, so lists are short; the last of them are those of the highest.
    listed = r.of("bid").groupBy(_window(), "price").agg(F.collect_list(bid).alias("bids"))
    top = listed.groupBy("window").agg(F.max(F.struct("price", "bids")).alias("top"))
    found = top.select("window", "top.price", F.explode("top.bids").alias("bid"))
    return found.select("bid.auction", "bid.bidder", "price", "bid.dateTime", _end())


def q8(r: Rows) -> DataFrame:
    persons = r.of("person").groupBy(_window(), "id", "name").agg(F.count("*").alias("entered"))
    sellers = r.of("auction").groupBy(_window(), F.col("seller").alias("id")).agg(F.count("*").alias("opened"))
    return persons.join(sellers, ["window", "id"]).select("id", "name", _start())


def q9(r: Rows) -> DataFrame:
    offer = F.struct("price", (-F.expr("unix_millis(bidTime)")).alias("before"), "bidder", "bidTime")
    # Rows of a stream may have one column with a watermark only, and windows have one: this makes another column.
    closes = F.expr("timestamp_micros(unix_micros(expires))").alias("closes")
    best = _sold(r).groupBy(_window("expires"), "id", "category", closes).agg(F.max(offer).alias("best"))
    return best.selectExpr("id", "category", "closes AS expires", "best.*", "window.start AS window_start")


def q11(r: Rows) -> DataFrame:
    sessions = F.session_window("dateTime", WINDOW).alias("window")
    return r.of("bid").groupBy(sessions, "bidder").agg(F.count("*").alias("bids")).select("bidder", "bids", _end())


def q12(r: Rows) -> DataFrame:
    rows = r.of("bid", None).withWatermark("arrival", "1 millisecond")
    return (
        rows.groupBy(_window("arrival"), "bidder")
        .agg(F.count("*").alias("bids"))
        .select("bidder", "bids", _start())
    )


def q13(r: Rows) -> DataFrame:
    bids = r.of("bid", None).selectExpr("auction", "bidder", "price", "dateTime", "auction % 10000 AS key")
    return bids.join(r.side, "key").drop("key")


def q14(r: Rows) -> DataFrame:
    hour = "hour(dateTime)"
    return (
        r.of("bid", None)
        .where("0.908D * price > 1000000 AND 0.908D * price < 50000000")
        .selectExpr(
            *("auction", "bidder", "dateTime", "extra"),
            "0.908D * price AS price",
            f"CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'dayTime' "
            f"WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType",
            "length(extra) - length(replace(extra, 'c', '')) AS c_counts",
        )
    )


def q15(r: Rows) -> DataFrame:
    return r.of("bid").groupBy(_window()).agg(*_report()).select("*", _start()).drop("window")


def q16(r: Rows) -> DataFrame:
    minute = F.expr("max(date_format(dateTime, 'HH:mm')) AS minute")
    return r.of("bid").groupBy(_window(), "channel").agg(*_report(), minute).select("*", _start()).drop("window")


def q17(r: Rows) -> DataFrame:
    prices = [F.expr(f"{f}(price) AS {f}_price") for f in ("min", "max", "avg", "sum")]
    return r.of("bid").groupBy(_window(), "auction").agg(*_bids(), *prices).select("*", _start()).drop("window")


def q18(r: Rows) -> DataFrame:
    bid = F.struct("dateTime", "price", "channel", "url")
    last = r.of("bid").groupBy(_window(), "bidder", "auction").agg(F.max(bid).alias("bid"))
    return last.select("bidder", "auction", "bid.*", _start())


def q19(r: Rows) -> DataFrame:
    bids = F.collect_list(F.struct("price", "dateTime", "bidder", "channel", "url"))
    best = F.slice(F.sort_array(bids, False), 1, 10).alias("best")
    return r.of("bid").groupBy(_window(), "auction").agg(best).select("auction", "best", _start())


def q20(r: Rows) -> DataFrame:
    auctions = r.of("auction").where("category = 10")
    auctions = auctions.withColumnRenamed("dateTime", "opened").drop("description", "extra", "arrival")
    bids = r.of("bid").select("auction", "bidder", "price", "channel", "url", "dateTime")
    near = f"auction = id AND dateTime < opened + INTERVAL {KNOWN} AND opened < dateTime + INTERVAL {KNOWN}"
    return bids.join(auctions, F.expr(near)).drop("id")


def _sold(r: Rows) -> DataFrame:
    """Auctions with each of the bids for them; the last condition always holds, and lets Spark forget bids."""
    closing = r.of("auction", "expires", r.house.longest)
    closing = closing.selectExpr("id", "category", "expires", "dateTime AS opened")
    bids = r.of("bid").selectExpr("auction", "bidder", "price", "dateTime AS bidTime")
    longest = f"INTERVAL {r.house.longest + 1} milliseconds"
    meets = "auction = id AND bidTime >= opened AND bidTime <= expires"
    return bids.join(closing, F.expr(f"{meets} AND bidTime >= expires - {longest}"))


def _bids() -> list[Column]:
    return [
        F.expr("count(*) AS total_bids"),
        *(F.expr(f"count_if({level}) AS {rank}_bids") for rank, level in LEVELS.items()),
    ]


def _report() -> list[Column]:
    """Distinct ones as sets, because a stream takes no `count(DISTINCT …)`."""
    levels = {"total": "true", **LEVELS}
    return _bids() + [
        F.expr(f"size(collect_set(CASE WHEN {level} THEN {of} END)) AS {rank}_{of}s")
        for of in ("bidder", "auction")
        for rank, level in levels.items()
    ]


QUERIES: dict[str, Callable[[Rows], DataFrame]] = {
    f"q{n}": globals()[f"q{n}"] for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
}


def run(rows: Rows, name: str, work: Path) -> float:
    """Run a query to the end of its files, with results that are made and thrown away; gives the seconds."""
    made = QUERIES[name](rows)
    begun = time.monotonic()
    query = (
        made.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - begun


def answers(rows: Rows, name: str, work: Path) -> pl.DataFrame:
    """What it says: of the windows that its watermark has passed."""
    table = f"native_{uuid.uuid4().hex}"
    query = (
        QUERIES[name](rows)
        .writeStream.format("memory")
        .queryName(table)
        .outputMode("append")
        .option("checkpointLocation", str(work / table))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = pl.DataFrame(rows.spark.table(table).toArrow())
    rows.spark.catalog.dropTempView(table)
    return found
