"""How much room pages may take that wait: Spark's memory for some, the spool for the rest.

When the spool is full, or too many pages wait, senders that can wait are made to: nothing is lost.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from slackwater.errors import QueryError
from slackwater.events import decision

MEMORY = 512 * 2**20
DISK = 32 * 2**30
#: How many pages of a stream may wait, those included that are files of the user and take no room.
MOST_PAGES = 256
#: Bytes handed to Java after which Python collects its garbage.
LENT = 32 * 2**20
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def read_size(text: str | int, name: str) -> int:
    """A size in bytes.

    >>> read_size("512 MB", "memory") == 512 * 2**20
    True
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    number, _, unit = str(text).strip().partition(" ")
    try:
        return int(float(number) * _UNITS[unit.strip().upper()])
    except (KeyError, ValueError, OverflowError):
        raise QueryError(f"{name}={text!r} is no size; write a number and a unit, as in {name}='512 MB'") from None


class MemoryBudget:
    """What waits in memory and in the spool, against what may."""

    def __init__(self, memory: int = MEMORY, disk: int = DISK) -> None:
        self.memory, self.disk = memory, disk
        self.held = 0
        """Bytes of pages in Spark's memory."""
        self.spooled = 0
        """Bytes of pages in the spool; such as are only noted there take none."""
        self.pushed_back = 0.0
        """Seconds for which senders were made to wait."""
        self._spool: dict[str, dict[int, int]] = {}
        """Bytes by stream and page."""
        self._lent = 0
        """Bytes of the driver's rows that Java was given since Python last looked for what it needs no more."""
        self._changed = threading.Condition()

    # --- memory

    def has_memory(self, size: int) -> bool:
        """Whether a page of about this size may be held in Spark's memory."""
        return self.held + size <= self.memory

    def hold(self, size: int) -> None:
        """Rows are in Spark's memory, or, with a negative size, are so no more."""
        with self._changed:
            self.held += size

    def lend(self, size: int) -> None:
        """Java has got rows of the driver, for as long as Python has the DataFrame."""
        with self._changed:
            self._lent += size

    def free(self) -> None:
        """Give memory back that nobody needs any more; between two jobs.

        py4j's objects refer to themselves, so only a search finds that nobody needs them. Python searches when it
        has many objects itself; of what Java has for a few of them, several times the bytes of their rows, it knows
        nothing.
        """
        if self._lent > LENT:
            self._lent = 0
            gc.collect()

    # --- the spool

    def put(self, stream: str, number: int, size: int) -> None:
        """A page waits in the spool."""
        with self._changed:
            pages = self._spool.setdefault(stream, {})
            self.spooled += size - pages.get(number, 0)
            pages[number] = size

    def take(self, stream: str, number: int) -> None:
        """It is there no more."""
        with self._changed:
            self.spooled -= self._spool.get(stream, {}).pop(number, 0)
            self._changed.notify_all()

    def full(self, stream: str) -> bool:
        """Whether a stream should send no more for now."""
        return self.spooled >= self.disk > 0 or len(self._spool.get(stream, ())) >= MOST_PAGES

    def wait(self, stream: str, over: Callable[[], bool]) -> None:
        """Wait, in the sender's thread, until there is room, or until all is over anyway."""
        started = time.monotonic()
        with self._changed:
            while self.full(stream) and not over():
                self._changed.wait(1.0)
            if time.monotonic() - started > 0.001:
                self.pushed_back += time.monotonic() - started


_ROWS, _BYTES = "rows", "bytes"
#: Bytes of a number, and of what a row has beside its columns.
_WORD = 8


def hold(frame: DataFrame) -> tuple[DataFrame, int, int]:
    """One job. The rows as they are kept, how many they are, and how many bytes they take.

    `persist` would keep the plan of the rows, and with it the page that a filter was put on. If that is in Java's
    memory, nothing is freed. A local checkpoint forgets the plan. It also takes one stage instead of two.
    """
    seen = Observation()
    size = " + ".join([str(_WORD), *map(_bytes, frame.schema.fields)])
    watched = frame.observe(seen, F.expr("count(1)").alias(_ROWS), F.expr(f"sum({size})").alias(_BYTES))
    # As objects of Java they would be read a little faster, and take twice the room.
    rows = watched.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
    try:
        found = seen.get
    except Py4JJavaError as error:
        # Spark saw that no row can pass the filter and left out all there was to watch.
        decision("page.held_uncounted", error=error)
        return rows, 0, 0
    return rows, found[_ROWS], found[_BYTES] or 0


def let_go(rows: DataFrame) -> None:
    """They are needed no more."""
    plan: Any = rows._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


def _bytes(field: StructField) -> str:
    """Spark SQL of the bytes that a column takes in a row, about."""
    name = f"`{field.name.replace('`', '``')}`"
    if isinstance(field.dataType, (ArrayType, MapType, StructType)):
        name = f"to_json({name})"
    elif not isinstance(field.dataType, (StringType, BinaryType)):
        return str(_WORD)
    return f"{_WORD} + coalesce(octet_length({name}), 0)"
