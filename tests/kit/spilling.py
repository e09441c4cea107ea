"""Rows in process that go to files as Spark's do, for the store of spilled rows without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.columns import CELL, ROW_ORDER, TIME
from slackwater.operators.page import Page
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ArrowPages
from slackwater.windows.per_row.rolling import RollingKernel


class RowsHere:
    """What the store asks of work on a page."""

    def __init__(self, pages: ArrowPages, page: Page) -> None:
        self._pages, self._page = pages, page
        self._times = pages.timed(page)[TIME]

    def time_spread(self) -> tuple[int, int]:
        """How many rows there are, and over how many ticks the middle nine tenths of them lie."""
        times = self._times.sort().to_list()
        few = len(times) // 20
        return len(times), times[-1 - few] - times[few] + 1 if times else 1

    def cells_of(self, width: int) -> int:
        """Into how many cells of this width the rows fall."""
        return (self._times // width).n_unique()

    def spill_rows(self, kernel: RollingKernel, width: int, place: StorageDir) -> pa.Schema:
        """The rows that have a time as Parquet files, in a folder for each `width` of it."""
        rows = self._pages.rows_of(self._page, kernel).filter(pl.col(TIME).is_not_null())
        numbered = rows.with_row_index(ROW_ORDER).with_columns((pl.col(TIME) // width).alias(CELL))
        place.files.create_dir(place.path, recursive=True)
        for (cell,), part in numbered.group_by(CELL):
            folder = f"{place.path}/{CELL}={cell}"
            place.files.create_dir(folder)
            pq.write_table(part.drop(CELL).to_arrow(), f"{folder}/0.parquet", filesystem=place.files)
        return rows.to_arrow().schema


class SpillingPages(SparkPages):
    """Spark's files, without Spark; the rows are those of pages in process."""

    def __init__(self, folder: Path, pages: ArrowPages) -> None:
        super().__init__(SparkBackend(None, StorageDir.of(folder)))  # type: ignore[arg-type]
        self._here = pages

    def works(self, page: Page) -> Iterator[RowsHere]:  # type: ignore[override]
        yield RowsHere(self._here, page)
