"""A time type of one's own: timecodes of a film, "hours:minutes:seconds:frames", 25 frames a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.time import MAX_TICK, MIN_TICK, Span, TimeDomain, microseconds
from slackwater.spark.backend.relation import TIME_TYPES
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

FRAMES = 25


class Timecode(TimeDomain):
    """A tick is a frame. Lengths are frames or lengths of time."""

    def __init__(self) -> None:
        super().__init__("timecode")

    def span(self, value: Span, what: str) -> int:
        if isinstance(value, int):
            return value
        frames, rest = divmod(microseconds(str(value)) * FRAMES, 1_000_000)
        if rest:
            raise QueryError(f"{what}={value!r} is no whole number of frames; write a number of frames")
        return frames

    def show_span(self, ticks: int) -> str:
        return f"{ticks} frames"

    def show(self, tick: int) -> str:
        if not MIN_TICK < tick < MAX_TICK:
            return super().show(tick)
        seconds, frames = divmod(tick, FRAMES)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}:{frames:02}"


TIMECODE = Timecode()


def read_timecode(time: str, kind: StringType) -> tuple[str, TimeDomain]:
    """Spark SQL for the frame; text that is no timecode is no time, and counts as a row without one."""
    parts = [f"try_cast(try_element_at(split({time}, ':'), {n}) AS BIGINT)" for n in range(1, 5)]
    hours, minutes, seconds, frames = parts
    return f"(({hours} * 60 + {minutes}) * 60 + {seconds}) * {FRAMES} + {frames}", TIMECODE


@pytest.fixture
def registered() -> Iterator[None]:
    TIME_TYPES[StringType] = read_timecode
    yield
    del TIME_TYPES[StringType]


def test_windows_go_by_frames() -> None:
    plan = arrow_plan(
        SAMPLE, "2 seconds", "1 second", domain=TIMECODE, disorder=sw.bounded("1 second"), n="count(*)"
    )
    assert "range 50 frames slide 25 frames" in plan.describe()
    script = Script(plan).page(frame([[10], [60], [30]])).page(frame([[120]]))
    assert [(row["window_start"], row["n"]) for row in script.results] == [(-25, 1), (0, 2), (25, 2)]
    assert TIMECODE.show(script.metrics()["q/window"]["heartbeat"]) == "00:00:02:24"
    with pytest.raises(QueryError, match="no whole number of frames"):
        arrow_plan(SAMPLE, "10 ms", "10 ms", domain=TIMECODE, n="count(*)")


@pytest.mark.spark
@pytest.mark.usefixtures("registered")
def test_a_column_of_timecodes_is_the_time_of_a_stream(spark: SparkSession) -> None:
    shots: list[tuple[Any, ...]] = [("00:00:00:10", 1), ("00:00:02:10", 2), ("00:00:01:05", 3), ("none", 4)]
    past = spark.createDataFrame(shots, "code STRING, second INT").selectExpr(
        "*", "timestamp_seconds(second) AS at"
    )
    with sw.Session(spark) as session:
        film = session.stream(
            "film", past, time="code", arrival="at", page="1 second", disorder=sw.bounded("2 seconds")
        )
        run = film.window("1 second", "1 second").agg(n="count(*)").start()
        session.run_available()
        figures = run.metrics()
        assert [(row["window_start"], row["n"]) for row in run.results().to_pylist()] == [(0, 1), (25, 1), (50, 1)]
    assert figures["streams"]["film"]["missing_time"] == 1
