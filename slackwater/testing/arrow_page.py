"""ArrowPage: a page over polars, for whole scenarios in milliseconds.

Conditions and expressions are Spark SQL text; what polars' own SQL reads of that works here, the rest is Spark's.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.operators.element import Payload
from slackwater.progress.arrival import Arrival
from slackwater.windows.kernel import PANE, ROWS, PaneKernel
from slackwater.windows.partials import TIME
from slackwater.windows.rolling import CELL, PLACE, RollingKernel


class ArrowPage:
    """A page in this process; like a Spark page it is lazy, and knows its arrival only once something ran."""

    def __init__(
        self, rows: pl.DataFrame, number: int, at: int, time: str | None = None, run: list[Arrival] | None = None
    ) -> None:
        self._frame = rows if time is None else rows.with_columns(pl.sql_expr(time).cast(pl.Int64).alias(TIME))
        self.number = number
        self._at = at
        self._run: list[Arrival] = [] if run is None else run
        self._first = self._frame

    @property
    def rows(self) -> int | None:
        """Rows on arrival, once known."""
        return self._run[0].rows if self._run else None

    def where(self, condition: str) -> ArrowPage:
        """Filter."""
        return self._next(self._frame.filter(pl.sql_expr(condition)))

    def select(self, columns: Mapping[str, str]) -> ArrowPage:
        """Project, and keep the time."""
        made = [pl.sql_expr(sql).alias(name) for name, sql in columns.items()]
        return self._next(self._frame.select(*made, TIME))

    def fold(self, kernel: PaneKernel) -> pl.DataFrame:
        """Partials by pane and group."""
        self._execute()
        groups = [pl.sql_expr(g.sql).alias(g.name) for g in kernel.groups]
        pane = ((pl.col(TIME) - kernel.spec.offset) // kernel.spec.pane).alias(PANE)
        made = [pl.len().cast(pl.Int64).alias(ROWS)]
        for partial, names in kernel.columns.items():
            argument = pl.lit(1) if partial.argument == "*" else pl.sql_expr(partial.argument)
            made += [e.alias(n) for n, e in zip(names, partial.make(argument), strict=True)]
        timed = self._frame.filter(pl.col(TIME).is_not_null())
        return timed.group_by([pane, *groups]).agg(made)

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """Time, groups and arguments of each row."""
        self._execute()
        return self._frame.select(pl.sql_expr(sql).alias(name) for name, sql in kernel.row_sql().items())

    def time_spread(self) -> tuple[int, int]:
        """How many rows there are, and over how many ticks the middle nine tenths of them lie."""
        times = self._frame[TIME].drop_nulls().sort().to_list()
        few = len(times) // 20
        return len(times), times[-1 - few] - times[few] + 1 if times else 1

    def cells_of(self, width: int) -> int:
        """Into how many cells of this width the rows fall."""
        return (self._frame[TIME].drop_nulls() // width).n_unique()

    def spill_rows(self, kernel: RollingKernel, width: int, place: Any) -> pa.Schema:
        """The rows that have a time as Parquet files, in a folder for each `width` of it."""
        rows = self.rows_of(kernel).filter(pl.col(TIME).is_not_null())
        numbered = rows.with_row_index(PLACE).with_columns((pl.col(TIME) // width).alias(CELL))
        place.files.create_dir(place.path, recursive=True)
        for (cell,), part in numbered.group_by(CELL):
            place.files.create_dir(f"{place.path}/{CELL}={cell}")
            pq.write_table(
                part.drop(CELL).to_arrow(), f"{place.path}/{CELL}={cell}/0.parquet", filesystem=place.files
            )
        return rows.to_arrow().schema

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once something ran."""
        return self._run[0] if self._run else None

    def late(self, before: int) -> Payload:
        """Rows below `before`, or without a time."""
        self._execute()
        late = self._frame.filter(pl.col(TIME).is_null() | (pl.col(TIME) < before))
        return late.drop(TIME).to_arrow()

    def save(self) -> dict[str, Any]:
        """The rows as text in the record itself; enough for a test."""
        self._execute()
        arrival, rows = self._run[0], io.BytesIO()
        self._frame.write_ipc_stream(rows)
        return {
            "number": self.number,
            "rows": base64.b64encode(rows.getvalue()).decode(),
            "arrival": [arrival.rows, arrival.missing, arrival.lowest, arrival.highest, arrival.at],
        }

    @staticmethod
    def load(saved: dict[str, Any]) -> ArrowPage:
        """A page from what `save` gave."""
        frame = pl.read_ipc_stream(io.BytesIO(base64.b64decode(saved["rows"])))
        arrival = Arrival(*saved["arrival"])
        return ArrowPage(frame, saved["number"], arrival.at, run=[arrival])

    def _execute(self) -> None:
        if not self._run:
            times = self._first[TIME]
            low, high = times.min(), times.max()
            assert low is None or isinstance(low, int)
            assert high is None or isinstance(high, int)
            self._run.append(Arrival(len(times), times.null_count(), low, high, self._at))

    def _next(self, frame: pl.DataFrame) -> ArrowPage:
        page = ArrowPage(frame, self.number, self._at, run=self._run)
        page._first = self._first
        return page
