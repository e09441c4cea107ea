"""When early answers are wanted: the settings that a user writes (S5 sections 3.2 and 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from numbers import Real
from typing import TypeGuard

import numpy as np

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.estimates.measure import Compare
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain, is_length, microseconds
from slackwater.windows.spec import WindowSpec

_AT = "write a share of the slide, as in 0.75, or a time, as in '7 seconds'"


@dataclass(frozen=True)
class Early:
    """When to prod, and what the answers should be like; see `early`."""

    at: Fraction | Span | None = None
    every: int | None = None
    accuracy: float | None = None
    coverage: float = 0.9
    season: int | None = None
    """In microseconds."""
    measure: Compare | None = None

    def offset(self, spec: WindowSpec, domain: TimeDomain) -> int | None:
        """How far into a window's last slide it is prodded, in ticks; None if prods do not go by windows."""
        if self.at is None:
            return None
        if isinstance(self.at, Fraction):
            return int(self.at * spec.last_part)
        if domain is TimeDomain.TIMESTAMP and not isinstance(self.at, (str, timedelta)):
            raise QueryError(f"early(at={self.at!r}): {_AT}")
        return domain.span(self.at, "at")

    def describe(self) -> str:
        """As the user would write it."""
        at = float(self.at) if isinstance(self.at, Fraction) else self.at
        parts = [] if self.at is None else [f"at={at!r}"]
        parts += [] if self.every is None else [f"every={TimeDomain.TIMESTAMP.show_span(self.every)!r}"]
        parts += [] if self.accuracy is None else [f"accuracy={self.accuracy!r}"]
        parts += [] if self.coverage == 0.9 else [f"coverage={self.coverage!r}"]
        parts += [] if self.season is None else [f"season={TimeDomain.TIMESTAMP.show_span(self.season)!r}"]
        parts += [] if self.measure is None else [f"measure={getattr(self.measure, '__name__', '…')}"]
        return f"early({', '.join(parts)})"


@called()
def early(
    at: float | Span | None = None,
    *,
    every: str | timedelta | None = None,
    accuracy: float | None = None,
    coverage: float | None = None,
    season: str | timedelta | None = None,
    measure: Compare | None = None,
) -> Early:
    """When to answer windows before they are final, for `start(early=…)` (S5).

    Without `at`, `every` and `accuracy` only `run.prod()` asks.

    >>> early(at=0.75).describe(), early(every="5 seconds").describe()
    ('early(at=0.75)', "early(every='5 seconds')")

    Args:
        at: prod each window when this share of its last slide has passed (S5's aggressiveness is 1 − at), or so
            far into it, as in "90 seconds". Time passes by the session's clock, or where the windows' attribute is
            no timestamp, by the largest one seen.
        every: prod all open windows so often, by the clock.
        accuracy: the accuracy to hold, as in 0.98: `at` is chosen so that answers are as accurate as that.
        coverage: share of final values that should lie within `<name>_low` and `<name>_high`; 0.9 if left out.
        season: after what time the stream repeats itself, as in "8 hours", instead of a day; a week is tried too.
        measure: your own accuracy, a function of an early value, the final one and the seconds between them. It
            gives 0 to 1, and `run.metrics()` the mean as `measured`.
    """
    if all(given is None for given in (at, every, accuracy, coverage, season, measure)):
        raise QueryError(
            "early() asks for nothing; say when to answer, as in early(at=0.75), early(every='5 seconds') or "
            "early(accuracy=0.98)"
        )
    share = _place(at)
    held = None if accuracy is None else _share("accuracy", accuracy, 0.98)
    if held is not None and share is None:
        share = Fraction(3, 4)
    covered = 0.9 if coverage is None else _share("coverage", coverage, 0.9)
    period = None if every is None else _period("every", every, "5 seconds")
    if measure is not None and not callable(measure):
        raise QueryError(
            f"early(measure={measure!r}) must be a function of an early value, the final one and the seconds "
            "between them, as in measure=lambda early, final, seconds: float(early == final)"
        )
    length = None if season is None else _period("season", season, "1 day")
    return Early(share, period, held, covered, length, measure)


def _place(at: float | Span | None) -> Fraction | Span | None:
    if at is None:
        return None
    if _is_number(at) and (not isinstance(at, int) or at in (0, 1)):
        if not 0 <= float(at) <= 1:
            raise QueryError(f"early(at={at!r}): a share of the slide lies between 0 and 1, as in at=0.75")
        return Fraction(str(at))
    if not is_length(at, or_zero=True):
        raise QueryError(f"early(at={at!r}): {_AT}")
    return at


def _period(name: str, value: str | timedelta, example: str) -> int:
    try:
        period = microseconds(value)
    except QueryError as error:
        raise QueryError(f"early({name}={value!r}): {error}") from None
    if period <= 0:
        raise QueryError(f"early({name}={value!r}) must be positive, as in {name}={example!r}")
    if period > LONGEST_SPAN:
        raise QueryError(f"early({name}={value!r}) is longer than any stream lasts; write less, as in {example!r}")
    return period


def _share(name: str, value: object, example: float) -> float:
    if not _is_number(value) or not 0 < float(value) < 1:
        raise QueryError(f"early({name}={value!r}) must be a number between 0 and 1, as in {name}={example}")
    return float(value)


def _is_number(value: object) -> TypeGuard[Real]:
    """Whether it is one; numpy calls lengths of time numbers too."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.timedelta64))
