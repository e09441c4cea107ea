"""The first setting of `chain_on_spark.py` by native Structured Streaming, over files that come as its pages do."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
from chain_pages import KEPT, ROWS, SCHEMA, Burst, StrategyOutcome, after_collection, at_rest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

#: Seconds between two looks at how far it has come.
LOOK = 0.25


def native(spark: SparkSession, burst: Burst, work: float) -> StrategyOutcome:
    """It takes all files that are there as one batch; what waits is what has come and is not done."""
    folder, out, came = burst.folder / "native", StrategyOutcome(), list[float]()
    source = folder / "in"
    source.mkdir(parents=True)
    for number in range(len(burst.instants)):
        burst.page(number).write_parquet(folder / f"{number}.half")
    seconds = 2 * work / KEPT

    @F.arrow_udf("BIGINT")  # type: ignore[untyped-decorator]
    def slowly(k: pa.Array) -> pa.Array:
        time.sleep(seconds * len(k))
        return k

    rows = spark.readStream.schema(SCHEMA).parquet(str(source)).where("k % 5 = 0")
    # What the function gives must be asked for: Spark leaves a function out whose result nobody reads.
    counted = rows.withColumn("k", slowly("k")).withWatermark("t", "0 seconds").groupBy("t").agg(F.count("k"))
    base = at_rest(spark)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    query = counted.writeStream.format("noop").option("checkpointLocation", str(folder / "c")).start()
    begun = time.monotonic()

    def bring() -> None:
        for number, instant in enumerate(burst.instants):
            time.sleep(max(0.0, begun + instant - time.monotonic()))
            (folder / f"{number}.half").rename(source / f"{number}.parquet")
            came.append(time.monotonic() - begun)

    sender = threading.Thread(target=bring)
    sender.start()
    done, oldest = 0, 0.0
    while done < len(burst.instants):
        time.sleep(LOOK)
        now = time.monotonic() - begun
        done, waits = min(_taken(query) // ROWS, len(came)), done < len(came)
        out.note(now, (len(came) - done) * burst.page_bytes, now - oldest if waits else 0.0)
        oldest = came[done] if done < len(came) else now
        if out.heap is None and now >= burst.ends:
            out.heap = after_collection(spark) - base
    query.stop()
    sender.join()
    out.seconds = time.monotonic() - begun
    return out


def _taken(query: Any) -> int:
    return sum(report["numInputRows"] for report in query.recentProgress)
