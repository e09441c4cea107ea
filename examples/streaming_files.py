"""A folder that Parquet files keep coming to, read by Spark's Structured Streaming, with a journal.

The first session takes what is there and stops, with windows still open. The second finds them in the journal,
takes the files that have come since, and no others.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

import slackwater as sw
from slackwater.data import FLIGHTS

DEPARTURES = pq.read_table(FLIGHTS)


def arrive(folder: Path, day: int) -> None:
    """One day's departures come as a file."""
    midnight = datetime(2013, 1, day, tzinfo=UTC)
    departed = DEPARTURES["departed"]
    today = pc.and_(pc.greater_equal(departed, midnight), pc.less(departed, midnight + timedelta(days=1)))
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(DEPARTURES.filter(today), folder / f"2013-01-{day:02}.parquet")


def process(base: Path, drain: bool) -> None:
    """Process all that is there."""
    with sw.Session(journal=base / "journal") as s:
        schema = "scheduled TIMESTAMP, departed TIMESTAMP, origin STRING, carrier STRING, delay_min INT"
        reader = s.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        flights = s.stream(
            "flights", reader.parquet(str(base / "incoming")), time="scheduled", disorder=sw.bounded("4 hours")
        )
        by_day = flights.window("1 day", slide="6 hours").agg(flights="count(*)", delay="avg(delay_min)")
        run = by_day.start(sink=base / "delays", name="delays")
        s.run_available(drain=drain)
        figures = run.metrics()
    answers = pq.read_table(base / "delays").sort_by("window_start")
    print(f"{figures['rows']} rows, {figures['late_rows']} late, heartbeat {figures['heartbeat']}")
    for row in answers.slice(max(0, answers.num_rows - 3)).to_pylist():
        print(f"  {row['window_start']:%d %b %H:%M}: {row['flights']} flights, {row['delay']:.1f} min late")


with tempfile.TemporaryDirectory() as name:
    base = Path(name)
    for day in (1, 2, 3):
        arrive(base / "incoming", day)
    process(base, drain=False)
    for day in (4, 5):
        arrive(base / "incoming", day)
    process(base, drain=True)
