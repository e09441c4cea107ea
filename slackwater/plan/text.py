"""Text that stands for a date, a timestamp or a number, as Spark's casts read it."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from datetime import time as time_of_day

import polars as pl

from slackwater.errors import QueryError

_DAY = re.compile(r"(?P<year>[+-]?\d{4,7})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})([ T](?P<rest>.*))?)?)?", re.ASCII)
_TIME = re.compile(
    r"(?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.(?P<part>\d*))?)?)? *(?P<zone>\D.*)?", re.ASCII
)
_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d{1,2})(:?(?P<minutes>\d{2}))?", re.ASCII)

_SUFFIX = re.compile(r"(?<=[\d.])[dDfF]$")


def date_of(text: str) -> date | None:
    """A date; None for what is none. A time of day behind it is left out.

    >>> date_of("2024-1-2")
    datetime.date(2024, 1, 2)
    """
    found = _DAY.fullmatch(text.strip())
    return None if found is None else _day(found)


def timestamp_of(text: str, zoned: bool) -> datetime | None:
    """A timestamp in UTC, without its zone; None for what is none.

    >>> timestamp_of("1970-01-01T03:00:00.5+02:00", zoned=True)
    datetime.datetime(1970, 1, 1, 1, 0, 0, 500000)
    """
    found = _DAY.fullmatch(text.strip())
    if found is None:
        return None
    day, rest = _day(found), (found["rest"] or "").strip()
    time = _TIME.fullmatch(rest or "0:0")
    if day is None or time is None:
        return None
    ahead = _ahead(time["zone"], text)
    if ahead and not zoned:
        raise QueryError(f"{text!r} has a zone; write TIMESTAMP '…'")
    try:
        hour, minute, second = (int(time[part] or 0) for part in ("hour", "minute", "second"))
        part = int((time["part"] or "").ljust(6, "0")[:6])
        moment = datetime.combine(day, time_of_day(hour, minute, second, part))
    except ValueError:
        return None
    return moment - ahead


def number_of(text: str, kind: pl.DataType) -> int | float | None:
    """A number for comparison with those of a type; None for what is none.

    >>> number_of(" 7", pl.Int32()), number_of("2.5", pl.Float64()), number_of("AA", pl.Int32())
    (7, 2.5, None)
    """
    try:
        number = float(_SUFFIX.sub("", text.strip()) if text.isascii() and "_" not in text else "")
    except ValueError:
        return None
    if not kind.is_integer():
        return number
    whole = pl.Series([text.strip()]).cast(kind, strict=False)[0]
    if whole is None:
        raise QueryError(f"{text!r} is no whole number that fits")
    return int(whole)


def _day(found: re.Match[str]) -> date | None:
    year = int(found["year"])
    if not 1 <= year <= 9999:
        raise QueryError(f"the year of {found[0]!r} is out of reach")
    try:
        return date(year, int(found["month"] or 1), int(found["day"] or 1))
    except ValueError:
        return None


def _ahead(zone: str | None, text: str) -> timedelta:
    """How far a zone's clock is ahead of UTC."""
    if zone in (None, "Z", "UTC"):
        return timedelta()
    found = _ZONE.fullmatch(zone or "")
    if found is None:
        raise QueryError(f"the zone of {text!r} cannot be read; write it as in +02:00")
    length = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return -length if found["sign"] == "-" else length
