"""Waiting for the end of a query, as long as somebody runs it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from slackwater.errors import RunError

if TYPE_CHECKING:
    from slackwater.spark.api.run import Run
    from slackwater.spark.api.running import Running

#: How often to look whether Spark has ended a stream.
_LOOK_SECONDS = 0.1


def await_end(running: Running, run: Run, timeout: float | None) -> bool:
    """Wait until a query or all its streams have ended; whether they have.

    With a timeout another thread may run it meanwhile. Without one, somebody must be at it.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while run.active and not running.interrupts.wished:
        running.look_after_readers()
        if run.active and _exhausted(running, run):
            break
        if until is None and run.active:
            _check_runs(running, run)
        left = _LOOK_SECONDS if until is None else min(_LOOK_SECONDS, until - time.monotonic())
        if left <= 0:
            return False
        run.wait(left)
    return True


def _exhausted(running: Running, run: Run) -> bool:
    """Whether all rows of a query have come: its replay has ended, or Spark's reading of what there is."""
    if run._play is not None and not (run._play.live and run._play.done):
        return run._play.done
    return all(running.readers.has_read(stream) for stream in run.streams) and not running.reads(run)


def _check_runs(running: Running, run: Run) -> None:
    """Refuse to wait for a query that nobody runs."""
    if running.is_working_off or running.reads(run) or (run._play is not None and run._play.playing):
        return
    running.check_complete()
    why = "was started with hold=True" if run._play is None else "reads a replay"
    raise RunError(f"query {run.name!r} {why}, and nothing runs it: call session.run_available()")
