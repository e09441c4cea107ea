"""Groups without aggregates: SELECT DISTINCT within a window, against a set of the rows that came."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from tests.kit.streams import SAMPLE, Stream, bounded_streams

COLUMNS = pa.schema([(n, t) for n, t in zip(SAMPLE.columns, SAMPLE.to_arrow().schema.types, strict=True)])


@given(stream=bounded_streams(), slide=st.integers(1, 6), times=st.integers(1, 4))
def test_select_distinct_gives_each_group_of_a_window_once(stream: Stream, slide: int, times: int) -> None:
    text = f"SELECT DISTINCT g, h + 1 AS k FROM s [RANGE {slide * times}, SLIDE {slide}] WHERE i IS NOT NULL"
    script = Script.from_sql(text, {"s": (COLUMNS, bounded(stream.slack))})
    for page in stream.pages:
        script.page(page.to_dicts())
    script.prod()
    early = [r for r in script.results if r["kind"] == "early"]
    script.drain()
    wanted = {
        (row["g"], None if row["h"] is None else row["h"] + 1, (row["t"] // slide - n) * slide)
        for row in stream.rows.drop_nulls(["t", "i"]).to_dicts()
        for n in range(times)
    }
    found = [(r["g"], r["k"], r["window_start"]) for r in script.results if r["kind"] == "final"]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert {(r["g"], r["k"], r["window_start"]) for r in early} <= wanted
