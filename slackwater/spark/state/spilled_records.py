"""Rows too many for the driver: the slack buffer's cells stay Parquet files, and are released one after another.

spill/<query>/cells/…              rows that wait
spill/<query>/window-3.parquet     released rows, as partials: the window buffer again
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.columns import CELL, ROW_ORDER, TIME
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload, Staged
from slackwater.operators.record_store import (
    SPILLED,
    PageLateness,
    ResidentRecords,
    elements_of,
    results_of,
    rows_with_results,
    trial_of,
)
from slackwater.operators.slack_buffer import in_time_order
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.spark.state.partitioned_files import FilesValues, PartFile, PartitionedFiles
from slackwater.spark.storage.storage_dir import StorageDir, file_name
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend
    from slackwater.spark.backend.pages import SparkPages
    from slackwater.spark.backend.work import PageJobs

#: About how many rows a cell has, and the most cells that a page falls into.
_CELL_ROWS = 500_000
_MOST_CELLS = 200
#: Results of fewer rows than this go on as a table, of more as files.
_FEW = 200_000
#: How many changes of the window buffer are kept beside the whole of it, and twice what it holds.
_FEW_CHANGES = 200_000


class SpilledValues(TypedDict):
    """The journaled values."""

    cells: FilesValues
    widths: list[tuple[int, int]]
    next: int
    out: NotRequired[int]
    width: int | None
    window: list[tuple[str, int]]
    schema: str | None


class SpilledRecords:
    """The slack buffer on the journal's file system; the driver holds a cell at a time, and the window buffer."""

    kind = SPILLED

    def __init__(self, label: str, resident: ResidentRecords, pages: SparkPages) -> None:
        self._kernel = resident.kernel
        self._schema = resident.schema
        self._windows = resident.windows
        self._pages = pages
        self._backend = pages.spark
        self._root = pages.spark.root.child("spill").child(file_name(label))
        self._width: int | None = None
        self._rows_schema: pa.Schema | None = None
        self._files = PartitionedFiles(self._root.child("cells"), pages.spark, CELL)
        self._widths: dict[int, int] = {}
        """The width of each piece's cells, in ticks."""
        self._kept: list[tuple[str, int]] = []
        """Files of the window buffer that the journal knows of, with their rows: a whole one, then changes."""
        self._fresh: list[tuple[str, int]] = []
        self._next_file = 0
        self._out = 0
        """Of earlier pieces the rows of the instant after the heartbeat have their results."""
        self._whole_due = True
        self._doomed_files: list[str] = []
        rows = resident.slack.all()
        if rows is not None:
            self._write_resident(in_time_order(rows))

    def absorb(self, pages: Pages, page: Page, heartbeat: int) -> PageLateness:
        """One Spark job writes the page's rows by cell; the late ones among them go to the window buffer."""
        for work in self._pages.works(page):
            width, (piece, place) = self._fit(work), self._files.new_piece()
            self._rows_schema = work.spill_rows(self._kernel, width, place)
        cells = self._add(self._files.written(place), piece, width)
        order = sorted(cells)
        ends = np.array(order, np.int64) + width - 1
        late = self._take_late(piece, heartbeat)
        self._forget(MIN_TICK, heartbeat, piece)
        return PageLateness(ends, np.array([cells[c] for c in order], np.int64), late)

    def release(self, before: int, heartbeat: int, emitted_at: int) -> Payload:
        """Cell after cell through the window buffer; many results are staged as files."""
        parts = _Parts(self._backend, self._schema)
        width = self._width or 1
        upto = min(heartbeat + self.takes_next, MAX_TICK)
        fresh = [file for file in self._files.files if heartbeat > before or file.piece >= self._out]
        starts = {c // width * width for file in fresh if (c := self._start(file)) <= upto}
        for start in sorted(starts):
            last = min(upto, start + width - 1)
            rows = self._read(start, before, last, width)
            if rows.height:
                parts.add(results_of(self._kernel, self._windows, rows, self._schema, emitted_at))
                self._keep_released(elements_of(self._kernel, rows))
            self._forget(start, last)
        self._windows.advance(heartbeat)
        self._out = self._files.pieces
        return parts.payload()

    def early(self, before: int, emitted_at: int) -> Iterator[tuple[pl.DataFrame, pa.Table]]:
        """A cell at a time."""
        width, windows = self._width or 1, trial_of(self._windows, self._kernel)
        for start in sorted({self._start(file) // width * width for file in self._files.files}):
            rows = self._read(start, before, start + width - 1, width)
            if rows.height:
                yield rows_with_results(self._kernel, windows, rows, self._schema, emitted_at)

    @property
    def takes_next(self) -> bool:
        """As the rows in the driver do: a query may spill at any time."""
        return self._kernel.spec.rows is not None

    def state(self, whole: bool, heartbeat: int) -> State:
        """Which files there are: small, so always all of it."""
        changed = sum(n for _, n in self._kept[1:]) + sum(n for _, n in self._fresh)
        if self._whole_due or changed > 2 * self._windows.rows + _FEW_CHANGES:
            self._doomed_files += [name for name, _ in (*self._kept, *self._fresh)]
            self._kept, self._fresh, self._whole_due = [], [], False
            elements = self._windows.elements(heartbeat)
            if elements is not None and elements.height:
                self._keep_released(elements)
        self._kept, self._fresh = self._kept + self._fresh, []
        schema = None if self._rows_schema is None else base64.b64encode(self._rows_schema.serialize()).decode()
        return State(
            SpilledValues(
                cells=self._files.state(),
                widths=list(self._widths.items()),
                next=self._next_file,
                out=self._out,
                width=self._width,
                window=list(self._kept),
                schema=schema,
            )
        )

    def restore(self, states: Sequence[State], heartbeat: int) -> None:
        """Continue with the journaled files; those that no record speaks of are deleted."""
        values = states[-1].read(SpilledValues)
        self._files.restore(values["cells"])
        self._widths = {piece: width for piece, width in values["widths"]}
        self._next_file, self._width = values["next"], values["width"]
        self._kept = [(name, rows) for name, rows in values["window"]]
        self._whole_due, self._out = False, values.get("out", 0)
        if values["schema"] is not None:
            self._rows_schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(values["schema"])))
        self._windows.advance(heartbeat)
        for name, _ in self._kept:
            table = pq.read_table(f"{self._root.path}/{name}", filesystem=self._root.files)
            self._windows.absorb(frame_of(table))
        known = {name for name, _ in self._kept}
        for name in self._root.names():
            if name.endswith(".parquet") and name not in known:
                self._root.files.delete_file(f"{self._root.path}/{name}")

    def settle(self) -> None:
        """Delete the files that are needed no more; without a journal, also those kept for it."""
        self._files.settle()
        if self._fresh:
            self._doomed_files += [name for name, _ in self._fresh]
            self._fresh, self._whole_due = [], True
        for name in self._doomed_files:
            self._root.files.delete_file(f"{self._root.path}/{name}")
        self._doomed_files = []

    @property
    def bytes(self) -> int:
        """The window buffer's."""
        return self._windows.bytes

    def next_time(self, after: int) -> int | None:
        """The end of the first cell that ends above this time."""
        ends = map(self._end, self._files.files)
        return min((end for end in ends if end > after), default=None)

    @property
    def waiting(self) -> int:
        """Rows in files, of the cell that the heartbeat cuts all of them."""
        return self._files.rows

    @property
    def size(self) -> dict[str, int]:
        """Rows that wait (of the cell that the heartbeat cuts all of them) and rows of the window buffer."""
        return {"slack_rows": self.waiting, "window_rows": self._windows.rows, "state_bytes": self._windows.bytes}

    def _fit(self, work: PageJobs) -> int:
        """The width of a cell: by the first rows, and wider when a page would fall into too many cells.

        A new width is a multiple of the ones before, so that their cells lie within its own.
        """
        if self._width is None:
            self._choose(*work.time_spread())
        assert self._width is not None
        cells = work.cells_of(self._width)
        if cells > 4 * _MOST_CELLS:
            self._width *= -(-cells // _MOST_CELLS)
        return self._width

    def _choose(self, rows: int, span: int) -> None:
        self._width = max(1, span * _CELL_ROWS // max(rows, 1), span // _MOST_CELLS)

    def _start(self, file: PartFile) -> int:
        """The first tick of a file's cell."""
        return file.key * self._widths[file.piece]

    def _end(self, file: PartFile) -> int:
        """The last one."""
        return self._start(file) + self._widths[file.piece] - 1

    def _add(self, files: list[PartFile], piece: int, width: int) -> dict[int, int]:
        """Files of a piece count from now on; gives their rows by the first tick of their cell."""
        self._files.add(files)
        self._widths[piece] = width
        cells: dict[int, int] = {}
        for file in files:
            cells[self._start(file)] = cells.get(self._start(file), 0) + file.rows
        return cells

    def _write_resident(self, rows: pl.DataFrame) -> None:
        time = rows[TIME].to_numpy()
        middle = time[rows.height // 20 : -(rows.height // 20) or None]
        self._choose(rows.height, int(middle[-1]) - int(middle[0]) + 1)
        assert self._width is not None
        self._rows_schema = rows.to_arrow().schema
        numbered = rows.with_columns((pl.col(TIME) // self._width).alias(CELL)).with_row_index(ROW_ORDER)
        tables = {
            int(str(cell)): part.drop(CELL).with_columns(pl.col(ROW_ORDER).cast(pl.Int64)).to_arrow()
            for (cell,), part in numbered.group_by(CELL, maintain_order=True)
        }
        files = self._files.write_tables(tables)
        self._add(files, files[0].piece, self._width)

    def _take_late(self, piece: int, heartbeat: int) -> int:
        if heartbeat <= MIN_TICK:
            return 0
        late = 0
        mine = (file for file in self._files.files if file.piece == piece)
        for start in sorted({c for file in mine if (c := self._start(file)) <= heartbeat}):
            rows = self._read(start, MIN_TICK, heartbeat, self._widths[piece], piece)
            late += rows.height
            if rows.height:
                elements = elements_of(self._kernel, rows)
                self._windows.absorb(elements)
                self._keep_released(elements)
        return late

    def _read(self, start: int, before: int, last: int, width: int, piece: int | None = None) -> pl.DataFrame:
        """Rows of a cell, or of one piece of it, above `before` and up to `last`, by time and arrival."""
        assert self._rows_schema is not None
        parts = [self._rows_schema.empty_table()]
        for file in self._within(start, start + width - 1, piece):
            after = before + (self.takes_next and file.piece < self._out)
            table = pq.read_table(
                f"{self._files.root.path}/{file.name}",
                filesystem=self._root.files,
                columns=[*self._rows_schema.names, ROW_ORDER],
                filters=(pc.field(TIME) > after) & (pc.field(TIME) <= last),
                partitioning=None,
            )
            parts.append(table.sort_by(ROW_ORDER).drop_columns([ROW_ORDER]).cast(self._rows_schema))
        return in_time_order(frame_of(pa.concat_tables(parts)))

    def _within(self, first: int, last: int, piece: int | None = None) -> list[PartFile]:
        """The files of the cells that begin from `first` to `last`, in the order of arrival."""
        mine = (f for f in self._files.files if first <= self._start(f) <= last and piece in (None, f.piece))
        return sorted(mine, key=lambda file: (file.piece, self._start(file), file.name))

    def _keep_released(self, elements: pl.DataFrame) -> None:
        """Write partials of released rows, for the window buffer after a restart."""
        name = f"window-{self._next_file}.parquet"
        self._next_file += 1
        self._backend.write_table(elements.to_arrow(), self._root, name)
        self._fresh.append((name, elements.height))

    def _forget(self, first: int, last: int, piece: int | None = None) -> None:
        """Drop the cells from `first` on that end by `last`, or those of one piece."""
        self._files.drop([file for file in self._within(first, last, piece) if self._end(file) <= last])
        pieces = {file.piece for file in self._files.files}
        self._widths = {piece: width for piece, width in self._widths.items() if piece in pieces}


class _Parts:
    """Results cell by cell: a table while they are few, files from then on."""

    def __init__(self, backend: SparkBackend, schema: pa.Schema) -> None:
        self._backend = backend
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._place: StorageDir | None = None
        self._files = self._rows = 0

    def add(self, results: pa.Table) -> None:
        """Add the results of a cell."""
        self._tables.append(results)
        self._rows += results.num_rows
        if self._place is not None or self._rows > _FEW:
            self._write()

    def payload(self) -> Payload:
        """All of them."""
        if self._place is None:
            return pa.concat_tables([self._schema.empty_table(), *self._tables])
        return Staged(self._place.path.removeprefix(self._backend.root.path + "/"), self._rows)

    def _write(self) -> None:
        if self._place is None:
            self._place = self._backend.new("staged")
        for table in self._tables:
            self._backend.write_table(table, self._place, f"part-{self._files:05d}.parquet")
            self._files += 1
        self._tables = []
