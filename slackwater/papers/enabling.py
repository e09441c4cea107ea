"""The rivals of S3's experiment: enabling timestamps at regular intervals, or none (`experiments/on_demand.py`)."""

from __future__ import annotations

from slackwater.calls import called
from slackwater.engine.enabling import Enabling
from slackwater.errors import QueryError
from slackwater.progress.time import microseconds


@called()
def periodic(every: str) -> Enabling:
    """Each stream says at regular intervals how far time is; to compare (line B of S3's experiment).

    >>> periodic("500 ms").every
    500000
    """
    length = microseconds(every)
    if length <= 0:
        raise QueryError(f"periodic({every!r}) must be positive, as in periodic('1 second')")
    return Enabling(asked=False, every=length)


@called()
def no_enabling() -> Enabling:
    """No stream says more than its rows do, so a quiet one holds others for ever; to compare (S3's line A)."""
    return Enabling(asked=False)
