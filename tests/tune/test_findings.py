"""What is odd about a stream is found and said in plain words; of a sound stream nothing is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from slackwater.tune.comparison import cut, look
from slackwater.tune.findings import Finding
from slackwater.tune.options import TuneOptions
from slackwater.tune.read import read_rows

MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)
HOURS = 6


def devices(n: int = 4_000, devices: int = 20) -> pl.DataFrame:
    """Twenty devices whose rows take from 0.2 to some seconds."""
    rng = np.random.default_rng(5)
    arrival = np.sort(rng.uniform(0, HOURS * 3_600, n))
    delay = 0.2 + rng.exponential(1.0, n)
    return pl.DataFrame(
        {
            "sent": [MIDNIGHT + timedelta(seconds=s) for s in (arrival - delay).tolist()],
            "received": [MIDNIGHT + timedelta(seconds=s) for s in arrival.tolist()],
            "device": rng.integers(1, devices + 1, n),
        }
    )


def found_in(rows: pl.DataFrame, **settings: Any) -> list[Finding]:
    names = {"time": "sent", "arrival": "received", "source": settings.pop("source", "device")}
    asked = TuneOptions(**names, **{"windows": "1 minute", "page": "30 seconds", **settings})
    read = read_rows(rows, **names)
    return look(read, asked, *cut(read, asked))[0]


def said(rows: pl.DataFrame, kind: str, **settings: Any) -> str:
    found = [f.text for f in found_in(rows, **settings) if f.kind == kind]
    assert len(found) == 1, found
    return found[0]


def shifted(rows: pl.DataFrame, device: int, seconds: float, column: str = "sent") -> pl.DataFrame:
    moved = pl.col(column) + timedelta(seconds=seconds)
    return rows.with_columns(
        pl.when(pl.col("device") == device).then(moved).otherwise(pl.col(column)).alias(column)
    )


def test_of_a_sound_stream_nothing_is_said() -> None:
    assert [f.text for f in found_in(devices(), windows="2 seconds", page="1 second")] == []


def test_a_clock_that_runs_ahead() -> None:
    text = said(shifted(devices(), 17, 310), "ahead")
    assert text.startswith("device 17 runs 5 min 10 s ahead of the rest. Its times push the watermark")
    assert "Without it a delay of 0 s instead of " in text


def test_a_clock_that_runs_behind() -> None:
    assert said(shifted(devices(), 3, -90), "behind").startswith("device 3 runs 1 min 30 s behind the rest.")


def test_many_clocks_are_not_all_named() -> None:
    rows = devices(8_000, 40)
    for device in range(1, 7):
        rows = shifted(rows, device, 60 + device)
    texts = [f.text for f in found_in(rows) if f.kind == "ahead"]
    assert len(texts) == 5
    assert texts[0].startswith("device 6 runs 1 min 6 s ahead")
    assert texts[-1] == "So are 2 more by device."


def test_a_slow_source() -> None:
    rng = np.random.default_rng(1)
    slow = pl.Series([timedelta(seconds=s) for s in (rng.random(4_000) * 60).tolist()])
    late = pl.when(pl.col("device") == 9).then(pl.col("sent") - slow).otherwise(pl.col("sent"))
    text = said(devices().with_columns(late.alias("sent")), "slow")
    assert text.startswith("device 9 is slow: half of its rows take ")


def test_corrupt_times() -> None:
    rows = devices()
    far = rows.with_row_index().with_columns(
        pl.when(pl.col("index") == 100)
        .then(pl.lit(datetime(2031, 1, 1, tzinfo=UTC)))
        .when(pl.col("index").is_in([200, 300]))
        .then(pl.lit(datetime(1970, 1, 1, tzinfo=UTC)))
        .otherwise(pl.col("sent"))
        .alias("sent")
    )
    ahead, behind = (f.text for f in found_in(far) if f.kind == "corrupt")
    assert ahead.startswith(
        "1 row carries a time far ahead of arrival, up to 2031-01-01 00:00:00. A watermark jumps"
    )
    assert "Without them a delay of 0 s instead of 2,4" in ahead
    assert behind == "2 rows carry a time far behind arrival, down to 1970-01-01 00:00:00."


def test_rows_without_a_time() -> None:
    rows = devices().with_row_index()
    holes = rows.with_columns(pl.when(pl.col("index") >= 40).then(pl.col("sent")).alias("sent"))
    assert said(holes, "missing") == (
        "40 rows (1.00%) had no time or no arrival that could be read. No window counts them."
    )


def test_another_time_zone() -> None:
    rows = devices().with_columns(pl.col("sent") - timedelta(hours=2))
    assert said(rows, "time zone").startswith("Times are 2 h behind arrivals, in nearly all rows")


def test_a_pause() -> None:
    hole = pl.col("received").is_between(MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=3))
    text = said(devices().filter(~hole), "pause")
    assert text.startswith("A pause of 1 h from 2024-05-01 02:00:")


def test_a_source_that_falls_silent() -> None:
    gone = (pl.col("device") == 4) & (pl.col("received") > MIDNIGHT + timedelta(hours=3))
    assert said(devices().filter(~gone), "silent").startswith("device 4 has been silent since 2024-05-01 02:")


def test_sources_that_come_and_go_are_not_silent() -> None:
    visits = pl.col("received").dt.hour() == pl.col("device") % HOURS
    assert not [f.text for f in found_in(devices(20_000).filter(visits)) if f.kind == "silent"]


def test_rows_that_come_before_their_time() -> None:
    rows = devices().with_row_index()
    early = rows.with_columns(
        pl.when(pl.col("index") % 40 == 0).then(pl.col("sent") + timedelta(minutes=3)).otherwise("sent")
    )
    assert said(early, "early").startswith("100 rows (2.50%) carry a time ahead of arrival, by 3 min at most")


def test_a_bad_hour() -> None:
    rows = pl.concat(
        [devices(20_000), devices(20_000).select(pl.col("^sent|received$") + timedelta(hours=24), "device")]
    )
    bad = pl.col("received").is_between(MIDNIGHT + timedelta(hours=25), MIDNIGHT + timedelta(hours=25, minutes=40))
    late = rows.with_columns(
        pl.when(bad).then(pl.col("sent") - timedelta(minutes=5)).otherwise("sent").alias("sent")
    )
    text = said(late, "bad hours", source=None)
    assert text.startswith(
        "Half of the rows that a fixed delay loses fall into 1 of 30 hours; the worst begins 2024-05-02 01:00"
    )


def test_a_stream_in_order() -> None:
    rows = devices().with_columns(pl.col("received").alias("sent"))
    assert said(rows, "in order") == (
        "No row arrives after its window has ended: a delay of 0 seconds loses nothing."
    )


@pytest.mark.parametrize("seed", range(5))
def test_chance_is_no_finding(seed: int) -> None:
    """Sources that differ by chance alone are not named."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 3_600, 1_000))
    sent = arrival - rng.lognormal(0, 1.5, 1_000)
    rows = pl.DataFrame(
        {
            "sent": [MIDNIGHT + timedelta(seconds=s) for s in sent.tolist()],
            "received": [MIDNIGHT + timedelta(seconds=s) for s in arrival.tolist()],
            "device": rng.integers(0, 12, 1_000),
        }
    )
    kinds = {f.kind for f in found_in(rows, page="10 seconds")}
    assert kinds <= {"bad hours", "in order"}
