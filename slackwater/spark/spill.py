"""Panes too large for the driver: partials stay Parquet files, Spark merges them when their windows close.

spill/<query>/__piece=7/__pane=42/part-….parquet     what page 7 gave to pane 42
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.operators.element import Payload
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pane_store import ResidentPanes
from slackwater.progress.time import TimeDomain
from slackwater.spark.page import SparkPage, stage
from slackwater.spark.store import Place, SparkPages
from slackwater.windows.kernel import PANE, ROWS, WINDOW, PaneKernel
from slackwater.windows.results import EMITTED_AT, result_sql


class SpilledPanes:
    """Panes on the journal's file system. The driver knows only which page gave something to which pane."""

    kind = "spilled"

    def __init__(self, label: str, resident: ResidentPanes, domain: TimeDomain, pages: SparkPages) -> None:
        self._kernel: PaneKernel = resident.kernel
        self._schema = resident.schema
        self._domain = domain
        self._pages = pages
        self._root = pages.root.child("spill").child(label.replace("/", "-"))
        self._pieces: dict[int, dict[int, int]] = {}
        """For each piece the panes it has and their bytes."""
        self._next = 0
        self._doomed: list[Place] = []
        table = resident.ring.all()
        if table is not None:
            self._write(pages.spark.createDataFrame(table))

    def absorb(self, page: Page, below: int | None) -> pl.DataFrame:
        """One Spark job writes the page's partials; rows are counted for late panes only."""
        assert isinstance(page, SparkPage)
        piece = self._next
        page.spill(self._kernel, self._place(piece))
        self._register(piece)
        late = [p for p in self._pieces[piece] if below is not None and p < below]
        rows = [self._count(piece, pane) for pane in late]
        return pl.DataFrame({PANE: late, ROWS: rows}, schema={PANE: pl.Int64, ROWS: pl.Int64})

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        panes = [p for piece in self._pieces.values() for p in piece]
        return (min(panes), max(panes)) if panes else None

    def results(self, first: int, last: int, emitted_at: int) -> Payload:
        """One Spark job merges the panes of these windows into staged result rows."""
        started = time.perf_counter()
        spec = self._kernel.spec
        low, high = spec.panes(first)[0], spec.panes(last)[1]
        paths = [
            self._place(piece).child(f"{PANE}={pane}").address
            for piece, panes in self._pieces.items()
            for pane in panes
            if low <= pane < high
        ]
        if not paths:
            return self._schema.empty_table()
        partials = self._pages.spark.read.option("basePath", self._root.address).parquet(*paths)
        # First window = ceil((pane - panes_per_window + 1) / panes_per_slide), by floors of negatives.
        last_of = f"CAST(floor({PANE} / {spec.panes_per_slide}D) AS BIGINT)"
        first_of = f"CAST(ceil(({PANE} - {spec.panes_per_window - 1}) / {spec.panes_per_slide}D) AS BIGINT)"
        windows = f"sequence(greatest({first_of}, {first}L), least({last_of}, {last}L))"
        keys = [F.col(WINDOW), *(F.col(f"`{k}`") for k in self._kernel.keys)]
        merged = (
            partials.withColumn(WINDOW, F.explode(F.expr(windows)))
            .groupBy(*keys)
            .agg(*(F.expr(sql).alias(name) for name, sql in self._kernel.merge_sql().items()))
            .withColumn(EMITTED_AT, F.lit(emitted_at))
        )
        kinds = _spark_types(self._schema)
        columns = [
            F.expr(sql).cast(kinds[name]).alias(name)
            for name, sql in result_sql(self._kernel, self._domain).items()
        ]
        staged = stage(merged.select(*columns), self._pages)
        self._pages.spent(time.perf_counter() - started)
        return staged

    def purge(self, low: int) -> None:
        """Forget the panes below `low`; their files go once nothing can ask for them again."""
        for piece, panes in list(self._pieces.items()):
            gone = [p for p in panes if p < low]
            for pane in gone:
                del panes[pane]
            if not panes:
                del self._pieces[piece]
                self._doomed.append(self._place(piece))
            else:
                self._doomed += [self._place(piece).child(f"{PANE}={p}") for p in gone]

    def state(self, whole: bool) -> State:
        """Which pieces there are: small, so always all of it."""
        pieces = [[piece, [[p, b] for p, b in panes.items()]] for piece, panes in self._pieces.items()]
        return State({"pieces": pieces, "next": self._next})

    def restore(self, states: Sequence[State], low: int | None) -> None:
        """Continue with the journaled pieces; files that no record speaks of are deleted."""
        values = states[-1].values
        self._pieces = {piece: {p: b for p, b in panes} for piece, panes in values["pieces"]}
        self._next = values["next"]
        known = {f"__piece={piece}" for piece in self._pieces}
        for name in self._root.names():
            if name not in known:
                self._root.child(name).delete()

    def settle(self) -> None:
        """Delete the files of purged panes."""
        for place in self._doomed:
            place.delete()
        self._doomed = []

    @property
    def bytes(self) -> int:
        """Next to nothing in the driver."""
        return 0

    @property
    def size(self) -> dict[str, int]:
        """Panes and bytes on the file system; how many partials that is, the driver does not know."""
        panes = {p for piece in self._pieces.values() for p in piece}
        total = sum(b for piece in self._pieces.values() for b in piece.values())
        return {"panes": len(panes), "state_bytes": self.bytes, "spilled_bytes": total}

    def _place(self, piece: int) -> Place:
        return self._root.child(f"__piece={piece}")

    def _write(self, partials: DataFrame) -> None:
        partials.write.mode("overwrite").partitionBy(PANE).parquet(self._place(self._next).address)
        self._register(self._next)

    def _register(self, piece: int) -> None:
        place = self._place(piece)
        panes: dict[int, int] = {}
        for info in place.files.get_file_info(fs.FileSelector(place.path, recursive=True)):
            folder, _, name = info.path.rpartition("/")
            if name.endswith(".parquet"):
                pane = int(folder.rpartition("=")[2])
                panes[pane] = panes.get(pane, 0) + info.size
        self._pieces[piece] = panes
        self._next = piece + 1

    def _count(self, piece: int, pane: int) -> int:
        place = self._place(piece).child(f"{PANE}={pane}")
        rows = pq.read_table(place.path, filesystem=place.files, columns=[ROWS])[ROWS]
        return int(pa.compute.sum(rows).as_py() or 0)


def _spark_types(schema: pa.Schema) -> dict[str, str]:
    from pyspark.sql.pandas.types import from_arrow_type

    return {f.name: from_arrow_type(f.type).simpleString() for f in schema}
