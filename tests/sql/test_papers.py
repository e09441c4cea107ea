"""Every query that S4 and S5 print runs as printed; those that S5 only tells or draws are written as it tells them.

Each runs in this process, over rows whose answer is known.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from slackwater.testing.types import SampleTypes
from tests.kit.papers import NOON, QUERIES, Printed
from tests.kit.sql import plan, stream


def rows(printed: Printed) -> pl.DataFrame:
    """The rows of its stream."""
    sample = printed.sample
    stamp = sample.schema[sample.columns[0]] == pl.Datetime
    filled = [
        [NOON + timedelta(seconds=v[0]) if stamp else v[0], *v[1:], *[None] * (len(sample.columns) - len(v))]
        for v in printed.rows
    ]
    return pl.DataFrame(filled, schema=sample.schema, orient="row")


def answers(printed: Printed) -> list[Any]:
    """The last column that the query itself gives, window after window."""
    sample, time = printed.sample, printed.sample.columns[0]
    slack = "0 seconds" if sample.schema[time] == pl.Datetime else 0
    types = SampleTypes({printed.stream: stream(printed.stream, sample, time, bounded(slack))})
    script = Script(plan(printed.text, types)).page(rows(printed)).drain()
    final = [r for r in script.results if r["kind"] == "final"]
    value = list(final[0])[list(final[0]).index("window_start") - 1]
    return [r[value] for r in sorted(final, key=lambda r: (r["window_end"], str(r)))]


@pytest.mark.parametrize("printed", QUERIES, ids=lambda printed: printed.where)
def test_a_printed_query_runs(printed: Printed) -> None:
    assert answers(printed) == pytest.approx(printed.answers)


@pytest.mark.parametrize(("size", "slide"), [(60, 20), (50, 20), (7, 3)])
def test_s5_section_2_2_windows_end_at_multiples_of_the_slide_with_an_offset(size: int, slide: int) -> None:
    """wid_from = ts / SLIDE, wid_to = (ts + RANGE) / SLIDE - 1; the window of an id ends at (id + 1) * SLIDE."""
    text = f"SELECT COUNT(*) AS n FROM S [RANGE {size}, SLIDE {slide}, OFFSET {-size % slide}]"
    for ts in (0, 25, 211, 230):
        script = Script.from_sql(text, {"S": ("ts BIGINT", bounded(0))}).page([{"ts": ts}]).drain()
        ids = [row["window_end"] // slide - 1 for row in script.results]
        assert all(row["window_end"] % slide == 0 for row in script.results)
        assert ids == list(range(ts // slide, (ts + size) // slide))
