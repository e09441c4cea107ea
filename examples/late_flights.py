"""How late were New York's departures in the first two weeks of 2013? A sliding window over rows out of order."""

import polars as pl

import slackwater as sw
from slackwater.data import FLIGHTS

with sw.Session() as s:
    departures = s.spark.read.parquet(FLIGHTS)
    flights = s.stream(
        "flights",
        departures.where("departed < '2013-01-15'"),
        time="scheduled",  # when a flight should have left
        arrival="departed",  # when it did: the replay brings the rows in this order
        page="1 hour",
        disorder=sw.drop_ratio(0.01),
    )
    query = (
        flights.window("3 hours", slide="1 hour")
        .group_by("origin")
        .agg(flights="count(*)", delay="avg(delay_min)", worst="max(delay_min)")
    )
    run = query.start()
    s.run_available()
    times = pl.col("window_start", "window_end", "emitted_at").dt.strftime("%d %b %H:%M")
    answers = pl.DataFrame(run.results()).drop("completeness").sort("delay", descending=True).with_columns(times)
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_cols=-1):
        print(answers.head(6))
    for name, value in run.metrics().items():
        print(f"{name:14} {value}")
