"""TablePage: rows in the driver as Arrow, such as results of windows. Spark gets them when it must work on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from slackwater.columns import NO_SOURCE, SOURCE, TIME
from slackwater.operators.page import Folded, Page, ResultsOf
from slackwater.operators.payload import Made, Payload, Recipe, Staged
from slackwater.operators.prod import Prod
from slackwater.plan.steps import Map, Step
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import TimeDomain
from slackwater.spark.pages.new_page import known, staged
from slackwater.spark.pages.shape import Shape
from slackwater.spark.pages.spark_page import SparkPage
from slackwater.spark.types import spark_schema
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_END

if TYPE_CHECKING:
    from slackwater.spark.pages.pages import SparkPages


class TablePage:
    """Few rows; a sink takes them as they are."""

    def __init__(
        self,
        table: pa.Table,
        number: int,
        at: int,
        pages: SparkPages,
        hidden: Mapping[str, str],
        prod: Prod | None = None,
        shape: Shape | None = None,
    ) -> None:
        self.number = number
        self.prod = prod
        self._table = table
        self._at = at
        self._pages = pages
        self._hidden = dict(hidden)
        """Spark SQL of the hidden columns."""
        self._shape = shape or Shape()

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self._table.num_rows)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return int(self._table.nbytes)

    @property
    def saved(self) -> dict[str, Any] | None:
        """They are in memory only."""
        return None

    def stamped(self, at: int) -> SparkPage:
        """The rows with another time."""
        return self._on_spark.stamped(at)

    def payload(self, about: int | None = None) -> Made:
        """The table itself."""
        return self._table

    def recipe(self) -> Recipe | None:
        """Its rows are there already."""
        return None

    def held(self) -> TablePage:
        """Its rows are what they are."""
        return self

    @property
    def kept(self) -> bool:
        """It need not be: what is saved is found again."""
        return False

    def save(self) -> dict[str, Any]:
        """Write the rows to the journal's file system, without Spark."""
        place = self._pages.new("pages")
        self._pages.write_table(self._table, place, "rows.parquet")
        return self._pages.note(place, self.number, self.measure(), self._hidden, self.prod, self.bytes)

    @cached_property
    def _on_spark(self) -> SparkPage:
        frame = self._pages.given(self._table, spark_schema(self._table.schema))
        return known(frame, self.number, self._hidden, self.measure(), self._shape, self._pages, self.prod)

    def with_step(self, step: Step) -> SparkPage:
        """By Spark."""
        return self._on_spark.with_step(step)

    def fold(self, kernel: PaneKernel) -> Folded:
        """By Spark."""
        return self._on_spark.fold(kernel)

    def fold_all(self, kernels: Sequence[PaneKernel]) -> Mapping[PaneKernel, Folded]:
        """By Spark."""
        return self._on_spark.fold_all(kernels)

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """By Spark."""
        return self._on_spark.rows_of(kernel)

    def map(self, node: Map) -> SparkPage:
        """By Spark."""
        return self._on_spark.map(node)

    @contextmanager
    def rows_with_time(self) -> Iterator[DataFrame]:
        """By Spark."""
        with self._on_spark.rows_with_time() as frame:
            yield frame

    def late(
        self, before: int, within: Sequence[tuple[int, int]] = (), by_source: pl.DataFrame | None = None
    ) -> Page | None:
        """By Spark."""
        return self._on_spark.late(before, within, by_source)

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """By Spark."""
        return self._on_spark.behind(heartbeat, by_source)

    def sample(self, rows: int) -> SparkPage:
        """By Spark."""
        return self._on_spark.sample(rows)

    def expect(self, needs: frozenset[str], at: int | None = None) -> None:
        """All that can be known is known."""

    def measure(self) -> Arrival:
        """What the table tells."""
        return self._arrival

    def arrival(self) -> Arrival | None:
        """What the table tells."""
        return self._arrival

    @cached_property
    def _arrival(self) -> Arrival:
        low = high = None
        if TIME in self._hidden and self.rows:
            ends = pc.min_max(self._table[WINDOW_END])
            low, high = (_tick(ends[which]) for which in ("min", "max"))
        return Arrival(self.rows, 0, low, high, self._at)


def _tick(end: pa.Scalar) -> int:
    """The last tick of a window, from its end."""
    if pa.types.is_timestamp(end.type):
        return int(end.value) - 1
    if pa.types.is_decimal(end.type):
        return int(end.as_py().scaleb(end.type.scale)) - 1
    return int(end.as_py()) - 1


def results_hidden(node: ResultsOf) -> dict[str, str]:
    """Spark SQL of the hidden columns of results: the last tick of a window, or the time of a row of its own."""
    domain = node.domain
    ends = f"CAST({WINDOW_END} AS BIGINT)"
    if domain is TimeDomain.TIMESTAMP:
        ends = f"unix_micros({WINDOW_END})"
    elif domain.scale is not None:
        ends = f"CAST({WINDOW_END} * {10**domain.scale}BD AS BIGINT)"
    hidden = {TIME: f"{ends} - {node.end_lag}L" if node.end_lag else ends}
    source = node.kernel.source
    if source is not None:
        hidden[SOURCE] = f"coalesce(CAST(`{source}` AS STRING), '{NO_SOURCE}')"
    return hidden


def results_page(
    payload: Payload, node: ResultsOf, number: int, at: int, prod: Prod | None, pages: SparkPages, shape: Shape
) -> TablePage | SparkPage:
    """A page of results, in the driver or staged as files."""
    hidden = results_hidden(node)
    if isinstance(payload, Staged):
        return staged(payload, number, at, hidden, prod, pages)
    return TablePage(payload, number, at, pages, hidden, prod, shape)


def rows_page(payload: Payload, number: int, at: int, pages: SparkPages) -> TablePage | SparkPage:
    """A page of rows that only a sink will take."""
    if isinstance(payload, Staged):
        return staged(payload, number, at, {}, None, pages)
    return TablePage(payload, number, at, pages, {})
