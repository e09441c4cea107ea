"""Lengths of time as a user writes them, and ticks as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.progress.time import MAX_TICK, MIN_TICK, Span, TimeDomain, microseconds

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("1 microsecond", 1),
        ("3 us", 3),
        ("5 milliseconds", 5_000),
        ("5ms", 5_000),
        ("20 seconds", 20 * SECOND),
        ("20 sec", 20 * SECOND),
        ("20 secs", 20 * SECOND),
        ("20s", 20 * SECOND),
        ("1 minute", 60 * SECOND),
        ("2 mins", 120 * SECOND),
        ("2m", 120 * SECOND),
        ("1 hour", 3_600 * SECOND),
        ("1h", 3_600 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("2 d", 172_800 * SECOND),
        ("1 week", 604_800 * SECOND),
        ("1 w", 604_800 * SECOND),
        ("1 minute 30 seconds", 90 * SECOND),
        ("1 hour, 1 minute, 1 second", 3_661 * SECOND),
        ("1.5 seconds", 1_500_000),
        ("0.000001 seconds", 1),
        ("interval 5 minutes", 300 * SECOND),
        ("INTERVAL 5 MINUTES", 300 * SECOND),
        ("  10   Seconds  ", 10 * SECOND),
        ("-5 seconds", -5 * SECOND),
        ("0 seconds", 0),
    ],
)
def test_a_length_of_time_is_read(text: str, ticks: int) -> None:
    assert microseconds(text) == ticks


@given(st.timedeltas())
def test_a_timedelta_is_its_microseconds(span: timedelta) -> None:
    assert timedelta(microseconds=microseconds(span)) == span


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 10**6))
def test_parts_add_up(minutes: int, seconds: int, micros: int) -> None:
    text = f"{minutes} minutes {seconds} seconds {micros} microseconds"
    assert microseconds(text) == (minutes * 60 + seconds) * SECOND + micros


@pytest.mark.parametrize(
    "text", ["soon", "5", "5 5 seconds", "seconds", "ten seconds", "1 second and a half", "1..5 s"]
)
def test_what_is_not_a_length_of_time_is_refused_as_written(text: str) -> None:
    with pytest.raises(QueryError, match=f"cannot read {text!r} as a length of time.*'30 minutes'"):
        microseconds(text)


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"an empty length of time.*'30 minutes'"):
        microseconds(text)


@pytest.mark.parametrize("unit", ["months", "year", "fortnights", "x"])
def test_an_unknown_unit_is_named(unit: str) -> None:
    with pytest.raises(QueryError, match=f"unknown unit {unit!r} in '3 {unit}'; use microseconds"):
        microseconds(f"3 {unit}")


@pytest.mark.parametrize("value", [1.5, None, ["1 second"], 5])
def test_what_is_no_text_is_refused_as_written(value: object) -> None:
    with pytest.raises(QueryError, match="'30 minutes'"):
        TimeDomain.TIMESTAMP.span(value, "range")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="'30 minutes'"):
        microseconds(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["5", "5 seconds", 1.0, timedelta(seconds=1), None, True])
def test_a_sequence_is_measured_in_whole_numbers(value: object) -> None:
    with pytest.raises(QueryError, match=r"slack=.*the time column is an integer.*slack=100"):
        TimeDomain.SEQUENCE.span(value, "slack")  # type: ignore[arg-type]


def test_a_timestamp_is_not_measured_in_numbers() -> None:
    with pytest.raises(QueryError, match=r"slack=5: the time column is a timestamp.*slack='30 minutes'"):
        TimeDomain.TIMESTAMP.span(5, "slack")


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_timestamp_is_shown_in_utc(instant: datetime) -> None:
    tick = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert TimeDomain.TIMESTAMP.show(tick) == str(instant.replace(tzinfo=None))


@pytest.mark.parametrize("domain", [TimeDomain.TIMESTAMP, TimeDomain.SEQUENCE, TimeDomain.decimal(10, 2)])
def test_the_ends_of_time_have_names(domain: TimeDomain) -> None:
    assert (domain.show(MIN_TICK), domain.show(MAX_TICK)) == ("none", "end")


def test_a_timestamp_that_no_calendar_has_is_shown_as_microseconds() -> None:
    assert TimeDomain.TIMESTAMP.show(MAX_TICK - 1) == f"{MAX_TICK - 1} us"
    assert TimeDomain.TIMESTAMP.show(MIN_TICK + 1) == f"{MIN_TICK + 1} us"


def test_a_sequence_number_is_shown_as_itself() -> None:
    assert TimeDomain.SEQUENCE.show(-42) == "-42"


@pytest.mark.parametrize(("written", "ticks"), [(1.5, 150), (0.1, 10), ("0.1", 10), (Decimal("0.1"), 10), (2, 200)])
def test_a_stretch_of_decimals_is_what_was_written(written: Span, ticks: int) -> None:
    assert TimeDomain.decimal(10, 2).span(written, "range") == ticks


@pytest.mark.parametrize("written", [0.001, float("nan"), float("inf"), True, "soon"])
def test_a_stretch_that_is_no_decimal_is_refused(written: Span) -> None:
    with pytest.raises(QueryError, match="write a number with at most 2 digits"):
        TimeDomain.decimal(10, 2).span(written, "range")


@pytest.mark.parametrize("written", [1.5, 7])
def test_a_stretch_of_timestamps_is_no_number(written: Span) -> None:
    with pytest.raises(QueryError, match="write a length of time, as in range='30 minutes'"):
        TimeDomain.TIMESTAMP.span(written, "range")
