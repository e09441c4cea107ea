"""Application time as int64 ticks (D1): microseconds UTC for timestamps, the number itself for sequences.

Any ordered attribute may be the time of a stream (S4's WATTR): a decimal counts in units of its last digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import ClassVar

from slackwater.errors import QueryError, shown

#: Below every timestamp a stream can carry; a heartbeat here promises nothing.
MIN_TICK = -(2**63)
#: Above every timestamp a stream can carry; a heartbeat here says the stream has ended.
MAX_TICK = 2**63 - 1

#: Times of rows lie from the one to the other, so that arithmetic on them and their windows stays within 64 bits.
#: A row that is further out counts as one without a time.
FIRST_TIME, LAST_TIME = -(2**62), 2**62 - 1
#: No range, slide or offset is longer.
LONGEST_SPAN = 2**60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")

#: Units of time in full, for messages.
UNITS = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks")

#: What a user may write for a stretch of time or of sequence numbers.
Span = str | int | float | timedelta | Decimal


def is_unit(word: str) -> bool:
    """Whether a word is a unit of time.

    >>> is_unit("Minutes"), is_unit("min"), is_unit("month")
    (True, True, False)
    """
    key = word.lower()
    return key in _UNITS or key.removesuffix("s") in _UNITS


def microseconds(span: str | timedelta) -> int:
    """Read a stretch of wall-clock or timestamp time.

    >>> microseconds("1 minute 30 seconds")
    90000000
    >>> microseconds(timedelta(milliseconds=5))
    5000
    """
    if isinstance(span, timedelta):
        return span // timedelta(microseconds=1)
    if not isinstance(span, str):
        raise QueryError(f"{span!r} is not a length of time; write for example '30 minutes'")
    text, total, at = span.strip(), 0, 0
    if text.lower().startswith("interval "):
        text = text[len("interval ") :]
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise QueryError(f"cannot read {span!r} as a length of time; write for example '30 minutes'")
        number, unit = part.groups()
        key = unit.lower()
        scale = _UNITS.get(key) or _UNITS.get(key.removesuffix("s"))
        if scale is None:
            raise QueryError(
                f"unknown unit {unit!r} in {span!r}; use {', '.join(UNITS[:-1])} or {UNITS[-1]} (months and years "
                "have no fixed length)"
            )
        try:
            total += round(float(number) * scale if "." in number else int(number) * scale)
        except (OverflowError, ValueError):
            shown = f"{span[:40]}…" if len(span) > 40 else span
            raise QueryError(f"cannot read {shown!r} as a length of time; that is too many digits") from None
        at = part.end()
    if not text:
        raise QueryError("an empty length of time; write for example '30 minutes'")
    return total


def is_length(value: object, or_zero: bool = False) -> bool:
    """Whether something is a positive stretch in some domain: a length of time, or a number.

    >>> is_length("10 seconds"), is_length("0.5"), is_length("soon"), is_length(-5), is_length(0, or_zero=True)
    (True, True, False, False, True)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float, timedelta, Decimal)):
        return False
    try:
        number: Decimal | int = Decimal(str(value))
    except InvalidOperation:
        try:
            number = microseconds(value) if isinstance(value, (str, timedelta)) else 0
        except QueryError:
            return False
    return number > 0 or (or_zero and number == 0)


@dataclass(frozen=True, slots=True)
class TimeDomain:
    """The meaning of a tick of a stream's application time."""

    value: str
    """Name of the domain."""
    scale: int | None = None
    """For decimals, how many digits are behind the point."""

    TIMESTAMP: ClassVar[TimeDomain]
    SEQUENCE: ClassVar[TimeDomain]

    @staticmethod
    def decimal(precision: int, scale: int) -> TimeDomain:
        """Decimals of at most 18 digits, a tick being one in the last of them.

        >>> TimeDomain.decimal(10, 2).span("0.5", "range")
        50
        """
        return TimeDomain(f"decimal({precision},{scale})", scale)

    def span(self, value: Span, what: str) -> int:
        """Read a stretch of this domain as ticks; `what` names it in errors.

        >>> TimeDomain.TIMESTAMP.span("10 seconds", "range")
        10000000
        >>> TimeDomain.SEQUENCE.span(100, "range")
        100
        """
        if self is TimeDomain.SEQUENCE:
            if isinstance(value, bool) or not isinstance(value, int):
                raise QueryError(
                    f"{what}={value!r}: the time column is an integer, so write a whole number, as in {what}=100"
                )
            return value
        if self.scale is not None:
            return self._decimal_span(value, what, self.scale)
        if isinstance(value, (int, float, Decimal)):
            raise QueryError(
                f"{what}={value!r}: the time column is a timestamp, so write a length of time, "
                f"as in {what}='30 minutes'"
            )
        try:
            return microseconds(value)
        except QueryError as error:
            raise QueryError(f"{what}={shown(value)}: {error}") from None

    def _decimal_span(self, value: Span, what: str, scale: int) -> int:
        if isinstance(value, (int, float, str, Decimal)) and not isinstance(value, bool):
            try:
                # Of a float what was written counts, not the binary fraction nearest to it.
                ticks = Decimal(repr(value) if isinstance(value, float) else value).scaleb(scale)
                if ticks == int(ticks):
                    return int(ticks)
            except (InvalidOperation, ValueError, OverflowError):
                pass
        raise QueryError(
            f"{what}={value!r}: the time column is a {self.value}, so write a number with at most {scale} digits "
            f"behind the point, as in {what}='{Decimal(5).scaleb(-scale)}'"
        )

    def show_span(self, ticks: int) -> str:
        """Show a stretch of time to a person, in the largest unit that it is a whole number of.

        >>> TimeDomain.TIMESTAMP.show_span(5_400_000_000)
        '90 minutes'
        """
        if self is TimeDomain.SEQUENCE:
            return str(ticks)
        if self.scale is not None:
            return _decimal_text(ticks, self.scale)
        for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
            if ticks % _UNITS[unit] == 0:
                break
        count = ticks // _UNITS[unit]
        return f"{count} {unit}" if count == 1 else f"{count} {unit}s"

    def show(self, tick: int) -> str:
        """Show a tick to a person.

        >>> TimeDomain.TIMESTAMP.show(0)
        '1970-01-01 00:00:00'
        >>> TimeDomain.SEQUENCE.show(MAX_TICK)
        'end'
        """
        if tick <= MIN_TICK:
            return "none"
        if tick >= MAX_TICK:
            return "end"
        if self is TimeDomain.SEQUENCE:
            return str(tick)
        return _decimal_text(tick, self.scale) if self.scale is not None else _timestamp_text(tick)


TimeDomain.TIMESTAMP = TimeDomain("timestamp")
TimeDomain.SEQUENCE = TimeDomain("sequence")


@lru_cache(maxsize=1024)
def _timestamp_text(tick: int) -> str:
    """Kept: most operators of a query have come to the same time, and the live page asks again and again."""
    try:
        return str((_EPOCH + timedelta(microseconds=tick)).replace(tzinfo=None))
    except OverflowError:
        return f"{tick} us"


def _decimal_text(ticks: int, scale: int) -> str:
    return f"{Decimal(ticks).scaleb(-scale):f}"
