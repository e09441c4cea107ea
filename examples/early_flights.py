"""How many flights are there in three hours? Asked when half of the last hour is over, and told in the end."""

import polars as pl

import slackwater as sw
from slackwater.data import FLIGHTS

with sw.Session() as s:
    departures = s.spark.read.parquet(FLIGHTS)
    flights = s.stream(
        "flights",
        departures.where("departed < '2013-01-29'"),
        time="scheduled",
        arrival="departed",
        page="30 minutes",
        disorder=sw.drop_ratio(0.01),
    )
    query = flights.window("3 hours", slide="1 hour").group_by("origin").agg(flights="count(*)")
    parts = []
    # Read along after each page: in the end only final rows are left.
    run = query.start(early=sw.early(at=0.5))
    s.run_available(progress=lambda page: parts.append(run.results(since=parts[-1] if parts else None)))
    answers = pl.concat([pl.DataFrame(p) for p in [*parts, run.results(since=parts[-1])]], how="diagonal")
    final = answers.filter(kind="final").select("origin", "window_end", final="flights", final_at="emitted_at")
    both = answers.filter(kind="early").join(final, on=["origin", "window_end"]).sort("window_end", "origin")
    # The last windows end with the replay, before their time.
    both = both.filter(pl.col("final_at") < pl.col("final_at").max())
    columns = ["origin", "window_end", "emitted_at", "completeness", "flights_seen", "flights"]
    times = pl.col("window_end", "emitted_at", "final_at").dt.strftime("%d %b %H:%M")
    shown = both.select(*columns, "flights_low", "flights_high", "final", "final_at").with_columns(times)
    pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_cols=-1, tbl_width_chars=140)
    print(shown.tail(6))
    print(run.metrics()["accuracy"])
