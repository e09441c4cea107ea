"""Spilled panes give exact window numbers and exact decimals: as resident ones, and as Python's own numbers do.

Times lie where floating-point numbers have gaps, below zero, and at the ends of what a time can be. Decimals have
all 38 digits.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.aggregates.parse import parse_aggregate
from slackwater.operators.backend import Folded
from slackwater.operators.pane_store import ResidentPanes
from slackwater.operators.payload import Staged
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import FIRST_TIME, LAST_TIME, LONGEST_SPAN, TimeDomain
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.state.spilled_panes import SpilledPanes
from slackwater.spark.storage.embedded import private_copy
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import arrow_page
from slackwater.testing.pages import ArrowPages
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import result_schema
from slackwater.windows.spec import WindowSpec
from tests.kit.windows import window_of

pytestmark = pytest.mark.spark

_EXACT = Context(prec=90, rounding=ROUND_HALF_UP)
_PLACES = [0, 2**31, -(2**31), 2**53, -(2**53), 2**60, LAST_TIME - 30, FIRST_TIME + 30]
_WIDE, _NARROW = pa.decimal128(38, 10), pa.decimal128(20, 18)

Row = tuple[int, Decimal, Decimal]


def decimals(kind: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10**kind.precision - 1
    # One row's average fits; the sum of some may not.
    most = most // 10**4 if kind.precision == 38 else most
    return st.integers(-most, most).map(lambda units: Decimal(units).scaleb(-kind.scale, _EXACT))


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    base = draw(st.sampled_from(_PLACES))
    row = st.tuples(st.integers(base - 30, base + 30), decimals(_WIDE), decimals(_NARROW))
    return draw(st.lists(row, min_size=1, max_size=8))


def kernel_of(spec: WindowSpec) -> tuple[PaneKernel, pa.Schema]:
    types = {"w": _WIDE, "x": _NARROW, "avg(w)": pa.decimal128(38, 14), "avg(x)": pa.decimal128(24, 22)}
    written = {"n": "count(*)", "wide": "avg(w)", "narrow": "avg(x)"}
    parsed = (parse_aggregate(n, text, lambda sql: types.get(sql, pa.int64())) for n, text in written.items())
    kernel = PaneKernel(spec, (), tuple(parsed))
    return kernel, result_schema(kernel, TimeDomain.SEQUENCE, [])


def recomputed(spec: WindowSpec, rows: list[Row]) -> list[tuple[object, ...]]:
    windows = {
        w
        for t, _, _ in rows
        for p in [spec.pane_of(t)]
        for w in range(spec.first_window(p), spec.last_window(p) + 1)
    }
    found = []
    for window in sorted(windows):
        start, end = spec.bounds(window)
        inside = [row for row in rows if start <= row[0] < end]
        if inside:
            found.append((start, end, len(inside), average(inside, 1, 38, 14), average(inside, 2, 24, 22)))
    return found


def average(rows: list[Row], column: int, precision: int, scale: int) -> Decimal | None:
    total = Decimal(0)
    for row in rows:
        total = _EXACT.add(total, row[column])
    value = _EXACT.divide(total, Decimal(len(rows))).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return value if value.adjusted() < precision - scale else None


def answers(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [table[name].to_pylist() for name in ("window_start", "window_end", "n", "wide", "narrow")]
    return sorted(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def pages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkPages:
    return SparkPages(SparkBackend(private_copy(spark), StorageDir.of(tmp_path_factory.mktemp("pages"))))


@settings(max_examples=6, deadline=None)
@given(rows=rows(), length=st.integers(1, 12), step=st.integers(1, 12), offset=st.integers(0, 5))
@example(rows=[(2**53 + 1, Decimal(1), Decimal(1))], length=3, step=1, offset=0)
@example(rows=[(-(2**53) - 1, Decimal(1), Decimal(1))] * 3, length=1, step=1, offset=0)
@example(rows=[(0, Decimal("1234567890123456789012345.0123456789"), Decimal(2))] * 3, length=1, step=1, offset=0)
def test_spilled_windows_are_exact(pages: SparkPages, rows: list[Row], length: int, step: int, offset: int) -> None:
    spec = WindowSpec(max(length, step), min(length, step), offset % min(length, step))
    kernel, schema = kernel_of(spec)
    resident = ResidentPanes(kernel, schema)
    resident.ring.add(folded(kernel, rows).partials, Closed())
    spilled = SpilledPanes("q", ResidentPanes(kernel, schema), TimeDomain.SEQUENCE, pages)
    partials = pages.spark.spark.createDataFrame(folded(kernel, rows).partials.to_arrow())
    spilled._add(spilled._files.write_frame(partials))
    end = Closed().advanced(spec, Heartbeat.END, None)
    ours, theirs = (store.results(pages, Closed(), end, 0, None) for store in (spilled, resident))
    assert ours is not None and theirs is not None
    assert isinstance(ours.payload, Staged) and isinstance(theirs.payload, pa.Table)
    place = pages.spark.root.child(ours.payload.location)
    wanted = recomputed(spec, rows)
    assert answers(theirs.payload) == wanted
    assert answers(pq.read_table(place.path)) == wanted


def folded(kernel: PaneKernel, rows: list[Row]) -> Folded:
    kinds = {"t": pl.Int64(), "w": pl.Decimal(38, 10), "x": pl.Decimal(20, 18)}
    return ArrowPages().fold(arrow_page(pl.DataFrame(rows, schema=kinds, orient="row"), 0, 0, time="t"), kernel)


def test_rows_too_far_out_count_as_rows_without_a_time(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = [FIRST_TIME - 1, FIRST_TIME, 0, LAST_TIME, LAST_TIME + 1, -(2**63), 2**63 - 1, None]
    pl.DataFrame({"t": times}, schema={"t": pl.Int64}).write_parquet(tmp_path / "in/a.parquet")
    late = tmp_path / "late"
    with sw.Session(spark) as s:
        df = spark.readStream.schema("t BIGINT").parquet(str(tmp_path / "in"))
        stream = s.stream("rows", df, time="t", disorder=sw.bounded(0))
        run = stream.window(10).agg(n="count(*)").start(hold=True, late=late)
        s.run_available()
        starts = [FIRST_TIME // 10 * 10, 0, LAST_TIME // 10 * 10]
        assert sorted(run.results()["window_start"].to_pylist()) == starts
        assert run.metrics()["missing_time"] == 5
    assert set(pq.read_table(late)["t"].to_pylist()) == {FIRST_TIME - 1, LAST_TIME + 1, -(2**63), 2**63 - 1, None}


def test_a_range_may_be_too_long(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark) as s:
        df = spark.readStream.schema("t BIGINT").parquet(str(tmp_path))
        stream = s.stream("rows", df, time="t", disorder=sw.bounded(0))
        for window in ({"range": LONGEST_SPAN + 1}, {"range": LONGEST_SPAN + 1, "slide": 1}):
            with pytest.raises(sw.QueryError, match=f"too long; the longest is {LONGEST_SPAN}"):
                window_of(stream, **window)
