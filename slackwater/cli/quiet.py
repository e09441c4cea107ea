"""The start of Spark without its greetings."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: What Java writes at every start, whatever Spark's settings are; users need none of it.
_START_NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Warning: Java versions > Java 11 can only operate in restricted mode",
)


@contextmanager
def quiet() -> Iterator[None]:
    """Start Spark inside, and its known lines of greeting are left out; all else that it ever says comes through.

    The Java process keeps the stderr that it was started with, so it gets a pipe, and a thread passes on what
    comes out of it for as long as Java lives.
    """
    sys.stderr.flush()
    out, into = os.pipe()
    stderr = os.dup(2)
    os.dup2(into, 2)
    os.close(into)
    threading.Thread(target=pass_on, args=(out, os.dup(stderr)), name="slackwater-stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)


def pass_on(out: int, stderr: int) -> None:
    """Pass on all lines but the greetings."""
    with os.fdopen(out, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as target:
        for line in lines:
            if not any(noise in line for noise in _START_NOISE):
                target.write(line)
