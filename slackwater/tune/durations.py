"""Lengths of time as a person reads and writes them."""

from __future__ import annotations

from slackwater.progress.time import TimeDomain

_MILLISECOND, SECOND, MINUTE, HOUR, DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
#: Lengths that people choose for pages and windows.
NICE = (
    *(10 * _MILLISECOND, 100 * _MILLISECOND, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY),
)


def nice(least: float) -> int:
    """The shortest length that people choose and that is not below this one.

    >>> nice(40 * SECOND) == MINUTE
    True
    """
    return next((length for length in NICE if length >= least), NICE[-1])


def write(length: int) -> str:
    """As it is written in a program, for Slackwater and for Spark.

    >>> write(90 * MINUTE), write(HOUR), write(0), write(1_500)
    ('90 minutes', '1 hour', '0 seconds', '1500 microseconds')
    """
    return TimeDomain.TIMESTAMP.show_span(length) if length else "0 seconds"


def say(length: float) -> str:
    """As a person says it: two units at most.

    >>> say(31.4 * SECOND), say(11_520 * SECOND), say(-90 * SECOND), say(0.25 * SECOND), say(26 * HOUR)
    ('31 s', '3 h 12 min', '-1 min 30 s', '250 ms', '1 d 2 h')
    """
    if length < 0:
        return f"-{say(-length)}"
    if length < _MILLISECOND:
        return "0 s" if length < 1 else f"{length:.0f} µs"
    if length < 10 * SECOND:
        return f"{length / _MILLISECOND:.0f} ms" if length < SECOND else f"{length / SECOND:.1f} s"
    if length < MINUTE:
        return f"{length / SECOND:.0f} s"
    for unit, part, names in (
        (DAY, HOUR, ("d", "h")),
        (HOUR, MINUTE, ("h", "min")),
        (MINUTE, SECOND, ("min", "s")),
    ):
        if length >= unit:
            whole, rest = divmod(round(length / part), unit // part)
            return f"{whole:,} {names[0]}" + (f" {rest} {names[1]}" if rest and whole < 100 else "")
    raise AssertionError(length)
