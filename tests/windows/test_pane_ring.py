"""Windows over sorted panes are the merges of the partials that each window covers."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.aggregates.distinct import Distinct, hll_estimate
from slackwater.aggregates.first_last import First
from slackwater.aggregates.min_max import Max
from slackwater.aggregates.parse import parse_aggregate
from slackwater.aggregates.partial import Partial
from slackwater.aggregates.percentile import Quantiles, kll_quantile
from slackwater.aggregates.spread import Moments
from slackwater.aggregates.sum import Sum
from slackwater.columns import PANE, ROWS, WINDOW
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import FIRST_TIME, LAST_TIME
from slackwater.testing.aggregates import hll_of, kll_of, partials_of
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.panes import PaneRing, rows_by_pane
from slackwater.windows.sliding import slide
from slackwater.windows.spec import WindowSpec

AGGREGATES = {
    "s": "sum(x)",
    "m": "max(x)",
    "v": "variance(x)",
    "f": "first(x)",
    "d": "approx_count_distinct(x)",
    "p": "approx_percentile(x, 1.0)",
}
VALUE = pl.col("x").cast(pl.Float64)


def columns(partial: Partial) -> list[pl.Expr]:
    """A partial over a single row."""
    if isinstance(partial, First):
        return [pl.col(PANE), VALUE]
    if isinstance(partial, Moments):
        return [pl.lit(1, pl.Int64), VALUE, pl.lit(0.0)]
    if isinstance(partial, Distinct):
        return [pl.col("x").map_elements(lambda v: hll_of([v]), return_dtype=pl.Binary)]
    if isinstance(partial, Quantiles):
        return [pl.col("x").map_elements(lambda v: kll_of([float(v)]), return_dtype=pl.Binary)]
    assert isinstance(partial, Sum | Max)
    return [VALUE]


def ring(spec: WindowSpec, rows: pl.DataFrame, keys: list[str]) -> PaneRing:
    parsed = tuple(parse_aggregate(n, t, lambda sql: pa.float64()) for n, t in AGGREGATES.items())
    kernel = PaneKernel(spec, tuple(Group(k, k) for k in keys), parsed)
    made = {n: e for p, names in kernel.columns.items() for n, e in zip(names, columns(p), strict=True)}
    ring = PaneRing(kernel)
    ring.add(rows.select(PANE, *keys, pl.lit(1, pl.Int64).alias(ROWS), **made), Closed())
    return ring


@settings(max_examples=120, deadline=None)
@given(
    span=st.integers(1, 40),
    step=st.integers(1, 40),
    rows=st.lists(st.tuples(st.integers(-60, 60), st.sampled_from(["a", None]), st.integers(0, 9)), min_size=1),
    first=st.integers(-60, 10),
    count=st.integers(1, 80),
    grouped=st.booleans(),
)
def test_each_window_is_the_merge_of_what_it_covers(
    span: int, step: int, rows: list[tuple[int, str | None, int]], first: int, count: int, grouped: bool
) -> None:
    spec = WindowSpec(max(span, step), min(span, step))
    frame = pl.DataFrame(rows, schema={PANE: pl.Int64, "k": pl.String, "x": pl.Int64}, orient="row")
    keys = ["k"] if grouped else []
    made = ring(spec, frame, keys).windows(Closed(first - 1), Closed(first + count - 1))
    wanted = {}
    for window in range(first, first + count):
        low, high = spec.panes(window)
        for key in {k for _, k, _ in rows} if grouped else [None]:
            inside = [(p, x) for p, k, x in rows if low <= p < high and (not grouped or k == key)]
            if inside:
                values = [x for _, x in inside]
                wanted[(window, key)] = (
                    len(values),
                    sum(values),
                    max(values),
                    min(inside)[1],
                    len(set(values)),
                    pytest.approx(sum(values) / len(values)),
                )
    got = {}
    for row in made.iter_rows(named=True) if made is not None else ():
        assert kll_quantile(row["__p5"], 1.0) == row["__p1"]
        got[(row[WINDOW], row["k"] if grouped else None)] = (
            row[ROWS],
            row["__p0"],
            row["__p1"],
            row["__p3_v"],
            hll_estimate(row["__p4"]),
            row["__p2_mean"],
        )
    assert got == wanted


PAIRED = {
    "s": "sum(x)",
    "i": "sum(i)",
    "c": "count(x)",
    "low": "min(x)",
    "top": "max(x)",
    "text": "max(k)",
    "v": "variance(x)",
    "f": "first(x)",
    "l": "last(x)",
}
TYPES = {"x": pa.float64(), "i": pa.int64(), "k": pa.string()}
NUMBERS = st.one_of(st.none(), st.integers(-9, 9).map(float), st.just(float("nan")))


def approx(value: object) -> object:
    return pytest.approx(value, nan_ok=True) if isinstance(value, float) else value


@settings(max_examples=150, deadline=None)
@given(
    span=st.integers(2, 20),
    pages=st.lists(
        st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["a", None]), NUMBERS), min_size=1, max_size=60),
        min_size=1,
        max_size=3,
    ),
    first=st.integers(-20, 8),
    count=st.integers(1, 30),
    keys=st.sampled_from([[], ["k"], ["k", "g"]]),
)
@patch("slackwater.windows.sliding._PLACES_A_ROW", 1_000)
def test_windows_made_from_each_other_are_merges_of_their_panes(
    span: int,
    pages: list[list[tuple[int, str | None, float | None]]],
    first: int,
    count: int,
    keys: list[str],
) -> None:
    parsed = tuple(
        parse_aggregate(n, t, lambda sql: next(kind for name, kind in TYPES.items() if name in sql.split("(")[-1]))
        for n, t in PAIRED.items()
    )
    kernel = PaneKernel(WindowSpec(span, 1), tuple(Group(k, k) for k in keys), parsed)
    schema = {PANE: pl.Int64, "k": pl.String, "x": pl.Float64}
    panes = PaneRing(kernel)
    folded = []
    for page in pages:
        rows = pl.DataFrame(page, schema=schema, orient="row").with_columns(
            i=pl.col("x").fill_nan(3).cast(pl.Int64), g=pl.col("x").is_null(), __time=pl.col(PANE)
        )
        partials = partials_of(rows, [pl.col(key) for key in (PANE, *keys)], kernel.columns)
        folded.append(partials)
        panes.add(partials, Closed())
    got = panes.windows(Closed(first - 1), Closed(first + count - 1))
    everything = pl.concat(folded)
    wanted = [
        kernel.merge(
            everything.filter(pl.col(PANE).is_between(window, window + span, closed="left"))
            .with_columns(pl.lit(window, pl.Int64).alias(WINDOW))
            .group_by(WINDOW, *keys)
        )
        for window in range(first, first + count)
    ]
    whole = pl.concat(wanted).sort(WINDOW, *keys)
    if got is None:
        assert whole.height == 0
        return
    assert got.schema == whole.schema
    rows_of = [[approx(v) for v in row] for row in whole.rows()]
    assert [list(row) for row in got.sort(WINDOW, *keys).rows()] == rows_of


def test_windows_made_from_each_other_take_sparse_groups_and_repeated_partials() -> None:
    spec = WindowSpec(8, 1)
    kernel = PaneKernel(spec, (Group("k", "k"),), (parse_aggregate("s", "sum(x)", lambda sql: pa.float64()),))
    keys = [0.0, -0.0, float("nan"), None]
    rows = [(pane, key, 1, 1.0) for _ in range(2) for pane in range(20) for key in keys]
    frame = pl.DataFrame(rows, schema=[PANE, "k", ROWS, "__p0"], orient="row")
    dense = slide(kernel, frame, -7, 19)
    assert dense is not None
    assert dense.height == 27 * 3
    assert dense[ROWS].sum() == 160 * 8
    assert dense.equals(dense.sort(WINDOW, "k"))
    apart = frame.with_columns(pl.int_range(pl.len()).cast(pl.Float64).alias("k"))
    assert slide(kernel, apart, -7, 19) is None


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int32, pl.Int64])
@pytest.mark.parametrize("keys", [[-128, 3, 127], [0], [5, 6, None], [-(2**63), 2**63 - 1, 0]])
def test_windows_made_from_each_other_take_whole_numbers_as_any_other_groups(
    kind: type[pl.DataType], keys: list[int | None]
) -> None:
    if any(k is not None and k.bit_length() > 32 for k in keys):
        kind = pl.Int64
    kernel = PaneKernel(
        WindowSpec(8, 1), (Group("k", "k"),), (parse_aggregate("s", "sum(x)", lambda sql: pa.float64()),)
    )
    rows = [(pane, key, 1, float(pane)) for pane in range(20) for key in keys if (pane + (key or 0)) % 3]
    schema = {PANE: pl.Int64, "k": pl.Int64, ROWS: pl.Int64, "__p0": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row").cast({"k": kind})
    for some in (frame, frame.filter(pl.col("k").is_not_null())):
        made = slide(kernel, some, -7, 19)
        wanted = slide(kernel, some.with_columns(pl.col("k").cast(pl.String)), -7, 19)
        assert made is not None and wanted is not None
        assert made.schema["k"] == kind
        assert made.equals(made.sort(WINDOW, "k"))
        assert made.equals(wanted.with_columns(pl.col("k").cast(kind)).sort(WINDOW, "k"))


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 9, -4, FIRST_TIME, LAST_TIME]), st.integers(1, 2**40))))
def test_the_rows_of_each_pane_are_the_sums_over_its_groups(partials: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(partials, schema={PANE: pl.Int64, ROWS: pl.Int64}, orient="row")
    counts = rows_by_pane(frame)
    assert counts.schema == frame.schema
    assert counts.sort(PANE).equals(frame.group_by(PANE).agg(pl.col(ROWS).sum()).sort(PANE))


@pytest.mark.timeout(20)
def test_panes_at_both_ends_of_time_are_laid_without_the_windows_between_them() -> None:
    rows = pl.DataFrame({PANE: [FIRST_TIME, 0, LAST_TIME], "k": ["a"] * 3, "x": [1, 2, 3]})
    spec = WindowSpec(3, 2)
    made = ring(spec, rows, ["k"]).windows(Closed(), Closed(spec.last_window(LAST_TIME)))
    assert made is not None
    wanted = {w for p in (FIRST_TIME, 0, LAST_TIME) for w in (spec.first_window(p), spec.last_window(p))}
    assert set(made[WINDOW]) == wanted


def test_a_piece_without_a_closed_pane_is_not_copied() -> None:
    """Rows on time bring only such pieces: a heartbeat looks at all of them."""
    spec = WindowSpec(20, 10)
    closed = Closed().advanced(spec, Heartbeat(49), None)
    first = spec.panes(4)[0]
    for panes, left in (([first, first + 3], 2), ([first - 1, first], 1), ([first - 1], 0), ([], 0)):
        piece = pl.DataFrame({PANE: panes}, schema={PANE: pl.Int64})
        kept = closed.open_panes(piece, spec, PANE, pl.lit(None))
        assert kept[PANE].to_list() == panes[len(panes) - left :]
        assert (kept is piece) == (left == len(panes))


NEAR = st.integers(-30, 30)
FAR = st.sampled_from([-(2**40), 2**40])


@given(pages=st.lists(st.lists(NEAR | FAR, min_size=1, max_size=60, unique=True), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_whole_state_has_one_partial_for_each_pane(pages: list[list[int]]) -> None:
    kernel = PaneKernel(WindowSpec(10, 10), (), (parse_aggregate("s", "sum(x)", lambda sql: pa.int64()),))
    ((total,),) = kernel.columns.values()
    state = PaneRing(kernel)
    for panes in pages:
        state.add(pl.DataFrame({PANE: panes, ROWS: [1] * len(panes), total: panes}), Closed())
    kept = state.all()
    assert kept is not None
    counts = Counter(pane for panes in pages for pane in panes)
    expected = [(pane, rows, pane * rows) for pane, rows in sorted(counts.items())]
    assert sorted(zip(*(kept[name].to_pylist() for name in (PANE, ROWS, total)), strict=True)) == expected
