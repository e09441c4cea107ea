"""Windows made of merged blocks of panes are the windows made of copies of partials."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windows import panes as module
from slackwater.windows.aggregates import parse_aggregate
from slackwater.windows.kernel import PANE, ROWS, WINDOW, Group, PaneKernel
from slackwater.windows.panes import PaneRing
from slackwater.windows.spec import WindowSpec

AGGREGATES = {"s": "sum(x)", "m": "max(x)", "v": "variance(x)", "f": "first(x)"}


def ring(spec: WindowSpec, rows: list[tuple[int, str, int]]) -> PaneRing:
    parsed = tuple(parse_aggregate(n, t, lambda sql: pa.float64()) for n, t in AGGREGATES.items())
    kernel = PaneKernel(spec, (Group("k", "k"),), parsed)
    frame = pl.DataFrame(rows, schema={PANE: pl.Int64, "k": pl.String, "x": pl.Int64}, orient="row")
    made = PaneRing(kernel)
    value = pl.col("x").cast(pl.Float64)
    columns = {ROWS: pl.lit(1, pl.Int64)}
    for partial, names in kernel.columns.items():
        parts = {1: [value], 2: [pl.col(PANE), value], 3: [pl.lit(1, pl.Int64), value, pl.lit(0.0)]}[len(names)]
        columns |= dict(zip(names, parts, strict=True))
        assert partial.argument == "x"
    made.add(frame.select(PANE, "k", **columns).unique([PANE, "k"], keep="first"))
    return made


@settings(max_examples=80, deadline=None)
@given(
    span=st.integers(1, 40),
    step=st.integers(1, 40),
    rows=st.lists(
        st.tuples(st.integers(-60, 60), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=60
    ),
    first=st.integers(-30, 10),
    count=st.integers(2, 25),
)
def test_blocks_give_what_copies_give(
    span: int, step: int, rows: list[tuple[int, str, int]], first: int, count: int
) -> None:
    spec = WindowSpec(max(span, step), min(span, step))
    last = first + count - 1
    made = ring(spec, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MANY_PANES", 1)
        blocks = made.windows(first, last)
        patch.setattr(module, "_MANY_PANES", 10**9)
        copies = made.windows(first, last)
    order = [WINDOW, "k"]
    assert blocks.height == copies.height
    for a, b in zip(blocks.select(copies.columns).sort(order).rows(), copies.sort(order).rows(), strict=True):
        assert a == pytest.approx(b)
