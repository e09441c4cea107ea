"""Work that a user can interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

#: Seconds between two lines of status.
STATUS_EVERY = 10.0


def to_the_end(
    work: Callable[[], None], tell: Callable[[], None] | None = None, every: float = STATUS_EVERY
) -> None:
    """Do something to its end; KeyboardInterrupt if the user does not wait for it."""
    if not follow(work, interrupt(), tell, every):
        raise KeyboardInterrupt


def follow(
    work: Callable[[], None],
    stop: threading.Event,
    tell: Callable[[], None] | None = None,
    every: float = STATUS_EVERY,
) -> bool:
    """Do something until it ends (true) or `stop` is set (false), with `tell` now and then.

    The work has a thread of its own: a signal that hits a call to Java breaks the connection.
    """
    failed: list[BaseException] = []
    ended = False

    def worker() -> None:
        nonlocal ended
        try:
            work()
        except BaseException as error:
            failed.append(error)
        ended = True
        stop.set()

    threading.Thread(target=worker, name="slackwater-work", daemon=True).start()
    while not stop.wait(every):
        if tell is not None:
            tell()
    if failed:
        raise failed[0]
    return ended


def interrupt() -> threading.Event:
    """Set by Ctrl-C or a request to end; Spark's own handler would cancel the batch that is under way."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
