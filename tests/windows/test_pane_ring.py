"""Windows over sorted panes are the merges of the partials that each window covers."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.aggregates.distinct import Distinct, hll_estimate, hll_of
from slackwater.aggregates.first_last import First
from slackwater.aggregates.min_max import Max
from slackwater.aggregates.parse import parse_aggregate
from slackwater.aggregates.partial import Partial
from slackwater.aggregates.percentile import Quantiles, kll_of, kll_quantile
from slackwater.aggregates.spread import Moments
from slackwater.aggregates.sum import Sum
from slackwater.columns import PANE, ROWS, WINDOW
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.panes import PaneRing
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
