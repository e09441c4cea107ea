"""One job for many window aggregates gives what a job for each gives."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from datasketches import kll_doubles_sketch
from polars.testing import assert_frame_equal
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.aggregates.parse import parse_aggregate
from slackwater.columns import PANE, ROWS
from slackwater.operators.backend import Folded, PartialsTooLarge
from slackwater.operators.shared_fold import SharedFold
from slackwater.plan.nodes import StreamNode
from slackwater.plan.steps import Where
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.arrival_statistics import glance
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.layout import Layout, TaskLayout
from slackwater.spark.backend.locations.files import Files
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import arrived, by_reference
from slackwater.spark.backend.wide_fold import WideFold
from slackwater.spark.backend.wide_sql import WideSql
from slackwater.spark.backend.work import PageJobs
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec

pytestmark = pytest.mark.spark

TYPES = {"v": pa.float64(), "w": pa.int64(), "d": pa.decimal128(10, 2), "k": pa.string()}


def kernel(spec: tuple[int, ...], groups: str, source: str | None = None, **aggregates: str) -> PaneKernel:
    def type_of(sql: str) -> pa.DataType:
        return next((t for name, t in TYPES.items() if name in sql.partition("(")[2]), pa.int64())

    made = tuple(parse_aggregate(n, t, lambda sql: TYPES.get(sql, type_of(sql))) for n, t in aggregates.items())
    return PaneKernel(WindowSpec(*spec), tuple(Group(g, g) for g in groups.split()), made, source)


KERNELS = [
    kernel((20, 4), "k", "k", a="sum(v)", n="count(v)", m="max(v)"),
    kernel((30, 6), "k", "k", a="sum(v)", low="min(w)"),
    kernel((9, 3, 1), "k", "k", s="stddev_pop(v)", n="count(*)"),
    kernel((20, 4), "w", a="avg(w)", d="sum(d)"),
    kernel((20, 4), "w", a="max(w)"),
    kernel((20, 4), "w k", a="max(d)"),
    kernel((10, 10), "", n="count(*)"),
    kernel((1, 1), "d", a="sum(v)"),
    kernel((10, 10), "w", q="approx_percentile(v, 0.5)"),
    kernel((10, 10), "w", a="max(k)"),
]


def rows(seed: int, count: int) -> pl.DataFrame:
    source = random.Random(seed)
    made = [
        (
            None if source.random() < 0.05 else source.randrange(-40, 40),
            source.choice(["a", "b", None]),
            source.choice([None, 1.0, -2.5, 7.0]),
            source.choice([None, 1, 2, 3]),
            source.choice([None, "1.25", "2.50"]),
            source.choice([None, 5, 6]),
        )
        for _ in range(count)
    ]
    frame = pl.DataFrame(made, schema=["t", "k", "v", "w", "d", "p"], orient="row")
    kinds = {"t": pl.Int64, "k": pl.String, "v": pl.Float64, "w": pl.Int64, "d": pl.Decimal(10, 2), "p": pl.Int64}
    return frame.cast(kinds)  # type: ignore[arg-type]


TOTAL, GLANCE = frozenset({"total"}), frozenset({"glance"})


def page(
    spark: SparkSession, folder: Path, frame: pl.DataFrame, needs: frozenset[str] = TOTAL, **stream: Any
) -> PageJobs:
    node = StreamNode("rows", (), "t", "t", TimeDomain.SEQUENCE, sw.bounded(5), **stream)
    made = arrived(spark.createDataFrame(frame.to_arrow()), node, 0, 7)
    return SparkBackend(spark, StorageDir.of(folder)).work(replace(made, needs=needs))


def of_files(
    spark: SparkSession, folder: Path, frame: pl.DataFrame, needs: frozenset[str] = TOTAL, **stream: Any
) -> PageJobs:
    """The same page as one of three files, that times of one pane are in more than one of."""
    place = folder / f"{uuid.uuid4().hex}"
    place.mkdir()
    for n, start in enumerate(range(0, 3 * (third := frame.height // 3 + 1), third)):
        frame.slice(start, third).write_parquet(place / f"{n}.parquet")
    paths = tuple(str(file) for file in sorted(place.iterdir()))
    files = Files("parquet", (), spark.createDataFrame(frame.to_arrow()).schema.json(), paths, 1)
    node = StreamNode("rows", (), "t", "t", TimeDomain.SEQUENCE, sw.bounded(5), **stream)
    backend = SparkBackend(spark, StorageDir.of(folder))
    backend.streams = lambda name: spark.createDataFrame(frame.to_arrow())
    return backend.work(by_reference(files, node, 0, 7, "note", ["*"], needs))


def measured(work: PageJobs) -> Arrival:
    work.measure()
    assert work.arrival is not None
    return work.arrival


def assert_same(found: Folded, expected: Folded, check_dtypes: bool = True) -> None:
    for mine, theirs in ((found.partials, expected.partials), (found.counts, expected.counts)):
        assert_frame_equal(mine, theirs, check_row_order=False, check_dtypes=check_dtypes, abs_tol=1e-9)


STREAMS: list[dict[str, str]] = [{}, {"source": "k"}, {"source": "w", "punctuation": "p"}]


@pytest.mark.parametrize(
    ("stream", "before"),
    [
        (STREAMS[1], "w > 1"),
        (STREAMS[2], None),
        pytest.param(STREAMS[0], None, marks=pytest.mark.long),
        *(
            pytest.param(stream, before, marks=pytest.mark.long)
            for stream, before in zip(STREAMS, ("w > 1", None, "w > 1"), strict=True)
        ),
    ],
)
def test_equals_a_job_for_each(
    spark: SparkSession,
    tmp_path: Path,
    stream: dict[str, str],
    before: str | None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if before is None:
        request.getfixturevalue("whole_stages")
    kernels = KERNELS
    if stream.get("source") != "k":
        kernels = [PaneKernel(k.spec, k.groups, k.aggregates) for k in KERNELS]
    shared = [k for k in kernels if shares(k)]
    frames = [rows(seed, count) for seed, count in ((1, 300), (2, 40), (3, 0))]

    def arrived(frame: pl.DataFrame, make: Callable[..., PageJobs] = page) -> PageJobs:
        made = make(spark, tmp_path, frame, **stream)
        return made if before is None else made.backend.work(made.page.with_step(Where(before)))

    def alone(
        frame: pl.DataFrame, make: Callable[..., PageJobs] = page
    ) -> dict[PaneKernel, tuple[PageJobs, Folded]]:
        pages = {kernel: arrived(frame, make) for kernel in shared}
        return {kernel: (other, other.fold(kernel)) for kernel, other in pages.items()}

    by_jobs = [alone(frame) for frame in frames]
    for cut in (None, *Layout):
        if cut is not None:
            monkeypatch.setattr(TaskLayout, "large", True)
            monkeypatch.setattr(TaskLayout, "way", lambda self, files, way=cut: way)
        wide = WideFold(kernels)
        for frame, each in zip(frames, by_jobs, strict=True):
            mine = arrived(frame, of_files if cut is Layout.PARTS else page)
            found = wide.fold(mine)
            assert set(found) == set(shared), cut
            for kernel, one in found.items():
                other, wanted = each[kernel]
                assert_same(one, wanted)
                assert repr(mine.arrival) == repr(other.arrival) or stream
                one_arrival, its = measured(mine), measured(other)
                assert one_arrival.rows == its.rows and one_arrival.lowest == its.lowest
    # The job of one kernel is cut by rows and by files as well.
    for cut, make in ((Layout.MANY, page), (Layout.PARTS, of_files)):
        monkeypatch.setattr(TaskLayout, "way", lambda self, files, way=cut: way)
        for kernel, (_, several) in alone(frames[0], make).items():
            assert_same(several, by_jobs[0][kernel][1])


@pytest.mark.usefixtures("whole_stages")
def test_panes_spread_over_the_hash_map_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    wide = 10**7
    kernels = [kernel((2 * wide, wide), groups, n="count(*)") for groups in ("k", "w", "d", "w k", "")]
    frame = rows(5, 300).with_columns(pl.col("t") * (wide // 5) + 3)
    found = WideFold(kernels).fold(page(spark, tmp_path, frame))
    timed = frame.filter(pl.col("t").is_not_null()).with_columns(pl.col("t").floordiv(wide).alias(PANE))
    assert timed[PANE].min() == -8  # type: ignore[comparison-overlap]
    for each in kernels:
        expected = timed.group_by([PANE, *each.keys]).agg(pl.len().cast(pl.Int64).alias(ROWS))
        alone = page(spark, tmp_path, frame).fold(each)
        for partials in (found[each].partials, alone.partials):
            assert_frame_equal(
                partials.select(expected.columns), expected, check_row_order=False, check_dtypes=False
            )


def test_the_largest_kernel_takes_the_statistics_of_large_pages_along_in_a_job_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskLayout, "large", True)
    monkeypatch.setattr(TaskLayout, "way", lambda self, files: Layout.PARTS)
    asked: list[tuple[tuple[int, ...], bool]] = []
    text_of = WideSql.job

    def job(self: WideSql, view: str, places: Sequence[int], *more: Any) -> str:
        text = text_of(self, view, places, *more)
        asked.append((tuple(places), "__low" in text))
        return text

    monkeypatch.setattr(WideSql, "job", job)
    kernels = [kernel((20, 20), groups, n="count(*)") for groups in ("k", "", "w k d", "w")]
    wide = WideFold(kernels)
    for seed, jobs in ((1, {((0, 1, 2, 3), True)}), (2, {((0, 1, 3), False), ((2,), True)})):
        asked.clear()
        frame = rows(seed, 300)
        mine = of_files(spark, tmp_path, frame)
        found = wide.fold(mine)
        assert set(asked) == jobs and len(asked) == 2 * len(jobs)
        arrival = measured(mine)
        assert (arrival.rows, arrival.missing) == (300, frame["t"].null_count())
        assert (arrival.lowest, arrival.highest) == (frame["t"].min(), frame["t"].max())
        for each in kernels:
            assert found[each].partials[ROWS].sum() == 300 - arrival.missing


@pytest.mark.parametrize("cut", [None, Layout.ONE, Layout.PARTS])
def test_brings_the_sketch_of_times_along(
    spark: SparkSession, tmp_path: Path, cut: Layout | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cut is not None:
        monkeypatch.setattr(TaskLayout, "large", True)
        monkeypatch.setattr(TaskLayout, "way", lambda self, files: cut)
    mine = (of_files if cut is Layout.PARTS else page)(spark, tmp_path, rows(1, 300), frozenset({"sketch"}))
    WideFold([PaneKernel(k.spec, k.groups, k.aggregates) for k in KERNELS if shares(k)]).fold(mine)
    arrival = measured(mine)
    assert arrival.sketch is not None
    assert kll_doubles_sketch.deserialize(arrival.sketch).n == arrival.rows - arrival.missing


@pytest.mark.parametrize(("most", "share"), [(5_000, 1.0), (150, 1 / 16)])
@pytest.mark.parametrize("make", [page, of_files])
def test_a_glance_at_files_is_a_sketch_of_some_rows_by_a_job_of_its_own(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., PageJobs],
    most: int,
    share: float,
) -> None:
    monkeypatch.setattr("slackwater.spark.backend.arrival_statistics._GLANCE", most)
    mine = make(spark, tmp_path, frame := rows(1, 2_000), GLANCE)
    jobs = mine.backend.jobs
    found = mine.fold(KERNELS[0])
    arrival = measured(mine)
    assert found.partials[ROWS].sum() == arrival.timed == frame["t"].count()
    assert arrival.sketch is not None
    sketch = kll_doubles_sketch.deserialize(arrival.sketch)
    if make is page:  # which cannot be read again
        assert (mine.backend.jobs - jobs, sketch.n) == (1, arrival.timed)
    else:
        assert mine.backend.jobs - jobs == 2
        assert sketch.n == pytest.approx(share * arrival.timed, rel=0.0 if share == 1 else 0.5)
    times = frame["t"].drop_nulls()
    assert times.quantile(0.3) < sketch.get_quantile(0.5) < times.quantile(0.7)  # type: ignore[operator]


def test_a_glance_that_meets_no_time_is_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.spark.backend.arrival_statistics._GLANCE", 1)
    frame = rows(1, 300)
    one = frame.with_columns(t=pl.when(pl.int_range(300) == 150).then(7))
    mine = of_files(spark, tmp_path, one, GLANCE)
    mine.fold(KERNELS[0])
    arrival = measured(mine)
    assert (arrival.timed, arrival.sketch) == (1, None)


def test_files_that_are_gone_after_the_work_on_them_harm_only_the_glance(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = of_files(spark, tmp_path, frame := rows(1, 300), GLANCE)

    def gone(rows: DataFrame, about: int) -> bytes | None:
        for path in tmp_path.glob("*/*.parquet"):
            path.unlink()
        return glance(rows, about)

    monkeypatch.setattr("slackwater.spark.backend.page_rows.glance", gone)
    found = mine.fold(KERNELS[0])
    assert found.partials[ROWS].sum() == frame["t"].count()
    assert measured(mine).sketch is None


def shares(kernel: PaneKernel) -> bool:
    """Sketches and texts as arguments have jobs of their own."""
    return not any(a.text in ("approx_percentile(v, 0.5)", "max(k)") for a in kernel.aggregates)


def test_kernels_that_are_too_large_together_are_folded_each_by_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: WideFold, work: PageJobs) -> None:
        raise PartialsTooLarge

    monkeypatch.setattr(WideFold, "_run", refuse)
    monkeypatch.setattr("slackwater.spark.backend.backend.FEW_KERNELS", 0)
    shared, kernels = SharedFold(), [k for k in KERNELS if shares(k)]
    for kernel in kernels:
        shared.join(kernel)
    mine, other = (page(spark, tmp_path, rows(1, 50)) for _ in range(2))
    pages = SparkPages(mine.backend)
    for kernel in kernels:
        # A merge gives decimals all their digits.
        assert_same(shared.fold(pages, mine.page, kernel), other.fold(kernel), check_dtypes=False)
