"""When sources say how far time has passed: on demand (S3), at regular intervals as rivals do, or never.

On demand is what a session does. The others are there to be compared with it (`experiments/on_demand.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import QueryError
from slackwater.progress.time import microseconds


@dataclass(frozen=True)
class Enabling:
    """Which enabling timestamps are made; see the functions below."""

    asked: bool = True
    """Whether a source answers a demand."""
    every: int | None = None
    """A source speaks each time that so many microseconds have passed, whether somebody waits or not."""


def on_demand() -> Enabling:
    """A quiet stream is asked when somebody waits for it (S3 section 4). The default of `Session(enabling=…)`."""
    return Enabling()


def periodic(every: str) -> Enabling:
    """Each stream says at regular intervals how far time is; to compare (line B of S3's experiment).

    >>> periodic("500 ms").every
    500000
    """
    length = microseconds(every)
    if length <= 0:
        raise QueryError(f"periodic({every!r}) must be longer than nothing, as in periodic('1 second')")
    return Enabling(asked=False, every=length)


def no_enabling() -> Enabling:
    """No stream says more than its rows do, so a quiet one holds others for ever; to compare (S3's line A)."""
    return Enabling(asked=False)
