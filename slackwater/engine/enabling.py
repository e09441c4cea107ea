"""When sources say how far time has passed: on demand (S3), or as `slackwater.papers.enabling` does to compare."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Enabling:
    """Which enabling timestamps are made."""

    asked: bool = True
    """Whether a source answers when an operator waits for it."""
    every: int | None = None
    """Microseconds after which a source says how far time has passed, whether somebody waits or not."""


def on_demand() -> Enabling:
    """A quiet stream is asked when an operator waits for it (S3 section 4): the default `quiet_streams=`."""
    return Enabling()
