"""Tells a user whose B* takes long that heartbeats can be had without it (S1 section 3.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import perf_counter

#: Seconds: with a pair between any two, 64 sources take about 2 and 100 about 11.
LONG = 2.0

_log = logging.getLogger(__name__)


def told_if_slow(sources: range) -> Iterator[int]:
    """The sources one by one. If the work on them takes long, a warning says so once."""
    began, told = perf_counter(), False
    for done, source in enumerate(sources):
        if done and not told and perf_counter() - began > LONG:
            told = True
            _log.warning(
                "skew: the indirect guarantees (B*) of %d sources take long: paths through %d of them are found "
                "after %.0f seconds; write indirect=False to go without, heartbeats then come somewhat later",
                len(sources),
                done,
                perf_counter() - began,
            )
        yield source
