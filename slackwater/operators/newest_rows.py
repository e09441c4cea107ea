"""The latest rows that a query gave to its sink, to look at: few, and of any query."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

#: The name under which a sink publishes them.
NEWEST = "newest_rows"
#: How many rows are kept: as many as a person scrolls through.
ROWS = 200
#: Bytes that they may have: of wider rows fewer are kept.
BYTES = 1 << 20


class NewestRows:
    """Keeps tables as they came. Who shows them makes them into text, in a thread of its own.

    >>> newest = NewestRows()
    >>> newest.take(pa.table({"n": range(150)})), newest.take(pa.table({"n": range(60)}))
    (None, None)
    >>> [table.num_rows for table in newest.tables], newest.tables is newest.tables
    ([140, 60], True)
    """

    def __init__(self) -> None:
        self.tables: tuple[pa.Table, ...] = ()
        """The oldest first. The same object until others have come: nobody changes it."""

    def take(self, rows: pa.Table) -> None:
        """Some rows have come."""
        kept: deque[pa.Table] = deque()
        left, room = ROWS, BYTES
        for table in (rows, *reversed(self.tables)):
            many = min(left, table.num_rows, table.num_rows * room // max(table.nbytes, 1))
            if not many:
                continue
            # A slice would keep all of its table.
            last = range(table.num_rows - many, table.num_rows)
            kept.appendleft(table if many == table.num_rows else table.take(pa.array(last)))
            left, room = left - many, room - kept[0].nbytes
        self.tables = tuple(kept)
