"""Three weather stations, one of which reports an hour late: it delays only its own answers (D4)."""

from datetime import UTC, datetime, timedelta

import polars as pl

import slackwater as sw

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
DELAY = {"harbour": 20, "hill": 45, "island": 3600}  # seconds from measuring to arriving

rows = [
    {"station": station, "measured": measured, "received": measured + timedelta(seconds=delay), "wind": 5 + n % 7}
    for station, delay in DELAY.items()
    for n in range(6 * 60 * 4)
    for measured in [BEGIN + timedelta(seconds=15 * n)]
]

with sw.Session() as s:
    weather = s.stream(
        "weather",
        s.spark.createDataFrame(pl.DataFrame(rows).to_arrow()),
        time="measured",
        source="station",  # many sources in one stream
        arrival="received",
        page="1 minute",
        disorder=sw.learned(),  # nothing is known: how far the stations run apart is measured
    )
    run = weather.window("10 minutes").group_by("station").agg(wind="avg(wind)", n="count(*)").start()
    s.run_available(drain=False)
    waits = (
        pl.DataFrame(run.results())
        .with_columns(wait=(pl.col("emitted_at") - pl.col("window_end")).dt.total_seconds())
        .group_by("station")
        .agg(windows=pl.len(), least_wait=pl.col("wait").min(), longest_wait=pl.col("wait").max())
        .sort("station")
    )
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(waits)
    print(run.metrics()["policy"])
