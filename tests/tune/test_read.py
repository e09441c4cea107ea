"""Rows are read from whatever a user has; what cannot be tried is refused, and said in the user's words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.columns import SOURCE, TIME
from slackwater.errors import QueryError
from slackwater.tune.read import read_rows
from slackwater.tune.rows import ARRIVAL

NOON = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
TICKS = int(NOON.timestamp() * 1_000) * 1_000
LATER = TICKS + 5_000_000
ROWS = pl.DataFrame({"t": [NOON, None], "a": [NOON + timedelta(seconds=5)] * 2, "d": ["x", None]})


def ticks(data: Any, time: str = "t", arrival: str = "a", source: str | None = "d") -> list[tuple[Any, ...]]:
    read = read_rows(data, time, arrival, source).frame.collect()
    return read.select(TIME, ARRIVAL, *([SOURCE] if source else [])).rows()


EXPECTED = [(TICKS, LATER, "x"), (None, LATER, "null")]


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        ROWS.lazy(),
        ROWS.to_arrow(),
        ROWS.with_columns(pl.col("t", "a").dt.replace_time_zone(None)),
        ROWS.with_columns(pl.col("t", "a").dt.cast_time_unit("ns")),
        ROWS.with_columns(pl.col("t", "a").dt.convert_time_zone("America/New_York")),
        ROWS.with_columns(pl.col("t", "a").dt.epoch("ms")),
        ROWS.with_columns(pl.col("t", "a").dt.epoch("ns")),
        ROWS.with_columns(pl.col("t", "a").dt.epoch("us") / 1e6),
        ROWS.with_columns(pl.col("t", "a").dt.strftime("%Y-%m-%dT%H:%M:%S.%6fZ")),
        ROWS.with_columns(pl.col("t", "a").dt.strftime("%Y-%m-%d %H:%M:%S%.3f")),
        ROWS.with_columns(
            pl.col("t", "a").dt.convert_time_zone("Asia/Tokyo").dt.strftime("%Y-%m-%dT%H:%M:%S%.3f+09:00")
        ),
    ],
    ids=str,
)
def test_times_in_any_shape(data: Any) -> None:
    assert ticks(data) == EXPECTED


def test_files(tmp_path: Path) -> None:
    naive = ROWS.with_columns(pl.col("t", "a").dt.replace_time_zone(None))
    (tmp_path / "many").mkdir()
    naive[:1].write_parquet(tmp_path / "many" / "1.parquet")
    naive[1:].write_parquet(tmp_path / "many" / "2.parquet")
    naive.write_csv(tmp_path / "rows.csv")
    naive.write_ndjson(tmp_path / "rows.jsonl")
    naive.write_json(tmp_path / "rows.json")
    for name in ("many", "many/*.parquet", "rows.csv", "rows.jsonl", "rows.json"):
        assert ticks(str(tmp_path / name)) == EXPECTED, name
    assert ticks(tmp_path / "many") == EXPECTED


TIMES = "t,a,d\n2024-05-01 12:00:00.25,2024-05-01 12:00:05.25,x\n"


@pytest.mark.parametrize(
    "more",
    [b"foo,2024-05-01 12:00:05.25,\n", b",2024-05-01 12:00:05.25,,4,5\n", b"\xe9,2024-05-01 12:00:05.25,\n"],
    ids=["text", "more fields", "Latin-1"],
)
def test_a_row_of_a_csv_file_that_is_unlike_the_others_has_no_time(tmp_path: Path, more: bytes) -> None:
    """Also far behind the rows from which polars would guess the types."""
    lines = TIMES.splitlines(keepends=True)
    (tmp_path / "rows.csv").write_bytes("".join([lines[0], *[lines[1]] * 200]).encode() + more)
    assert ticks(tmp_path / "rows.csv") == [EXPECTED[0]] * 200 + [EXPECTED[1]]


def test_numbers_among_which_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"t,a\n{TICKS / 1e6},{LATER / 1e6}\nn/a,{LATER / 1e6}\n")
    assert ticks(tmp_path / "rows.csv", source=None) == [(TICKS, LATER), (None, LATER)]


def test_files_of_a_folder_that_grew_by_a_column(tmp_path: Path) -> None:
    ROWS[:1].write_parquet(tmp_path / "1.parquet")
    ROWS[1:].with_columns(more=1).write_parquet(tmp_path / "2.parquet")
    assert ticks(tmp_path) == EXPECTED
    ROWS.with_columns(pl.col("t").cast(pl.String)).write_parquet(tmp_path / "3.parquet")
    refused("cannot be read: .*the files of a folder have the same columns, of the same types", tmp_path)


def test_names_in_the_lines_to_copy_are_as_spark_reads_them() -> None:
    report = sw.tune(
        ROWS.rename({"t": "sent.at", "d": "my device"}), time="sent.at", arrival="a", source="my device"
    )
    assert report.lines["native"].startswith('df.withWatermark("`sent.at`", ')
    assert "time='`sent.at`', source='`my device`'" in report.lines["slackwater"]


def test_dates_and_no_source() -> None:
    day = pl.DataFrame({"t": [NOON.date()], "a": [NOON]})
    midnight = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert ticks(day, source=None) == [(midnight, TICKS)]


def refused(match: str, data: Any = ROWS, **settings: Any) -> None:
    with pytest.raises(QueryError, match=match):
        sw.tune(data, **{"time": "t", "arrival": "a", **settings})


def test_what_cannot_be_read(tmp_path: Path) -> None:
    refused("a list is no table; give a Spark DataFrame, a polars or pandas frame", [1, 2])
    refused("there is no file 'nowhere.parquet'", "nowhere.parquet")
    (tmp_path / "rows.parquet").write_text("no")
    refused("cannot be read: ", tmp_path / "rows.parquet")
    (tmp_path / "rows.txt").write_text("no")
    refused("the name does not say what it holds; it ends in parquet, csv", tmp_path / "rows.txt")
    (tmp_path / "empty").mkdir()
    refused("holds no files; give a folder of Parquet, CSV or JSON", tmp_path / "empty")


def test_what_cannot_be_tried() -> None:
    refused(r"time='tt': there is no column 'tt' \(did you mean 't'\?\); there are t, a, d", time="tt")
    refused("source='e': there is no column 'e'; there are t, a, d", source="e")
    refused("arrival= is missing: .* If your table has none, take .* Kafka's timestamp column", arrival=None)
    refused("there are no rows; give a day of yesterday's data", ROWS.clear())
    refused("none of the 1 rows has both a time .* and an arrival", ROWS[1:])
    refused("none of the 2 rows", ROWS.with_columns(t=pl.lit(None)))
    refused("none of the 2 rows", ROWS.with_columns(t=pl.lit("soon")))
    refused("time='t' is of type List", ROWS.with_columns(t=[[1], [2]]))
    refused("time='t' holds numbers such as 7, which are no seconds, milliseconds", ROWS.with_columns(t=7))


def test_settings_that_cannot_be_tried() -> None:
    refused("targets=1: a share that may be lost lies between 0 and 1", targets=1)
    refused("targets='101%': a share that may be lost", targets="101%")
    refused("targets='few': a share that may be lost", targets=[0.01, "few"])
    refused(r"targets=\[\]: say what share may be lost", targets=[])
    refused("page='0 seconds' must be positive", page="0 seconds")
    refused("slide='2 minutes' is longer than size='1 minute'", windows=("1 minute", "2 minutes"))
    refused("write RANGE, or RANGE and SLIDE", windows=("1 minute", "2 minutes", "3 minutes"))
    refused("delays='-1 seconds' is negative", delays="-1 seconds")
    refused("policies='learned' is no policy; write it as in policies=", policies="learned")
    refused("goes by more than times and arrivals", policies=sw.punctuated("upto"))
    refused(
        "speaks of sources; name their column, source=",
        policies=sw.skew({("a", "b"): ("1 s", "1 s")}, timeout="1 s"),
    )
    refused("cannot read 'soon' as a length of time", windows="soon")


def test_a_single_row_is_enough_for_an_answer() -> None:
    report = sw.tune(pa.table(ROWS[:1].to_arrow()), time="t", arrival="a")
    assert report.rows == 1
    assert report.fixed[0].exact == 0
    assert str(report)
    assert report.html()
