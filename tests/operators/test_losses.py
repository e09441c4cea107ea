"""Lost rows by minute and source, against a recount of the rows that were given late."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.operators.losses import MOST, OTHERS, Losses
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

MINUTE = 60_000_000
SPEC = WindowSpec(range=30_000_000, slide=10_000_000)


def late(rows: list[tuple[int, str | None, int]]) -> pl.DataFrame:
    schema = {PANE: pl.Int64, SOURCE: pl.String, ROWS: pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


lost_rows = st.lists(st.tuples(st.integers(-50, 50), st.sampled_from(["a", "b", None]), st.integers(1, 9)))


@given(st.lists(lost_rows, max_size=4))
def test_each_lost_row_is_counted_under_its_minute_and_its_source(pages: list[list[tuple[int, str, int]]]) -> None:
    losses, wanted = Losses(SPEC, TimeDomain.TIMESTAMP), Counter[tuple[str, str]]()
    for page in pages:
        losses.count(late(page))
        for pane, source, rows in page:
            minute = pane * 10_000_000 // MINUTE * MINUTE
            wanted[TimeDomain.TIMESTAMP.show(minute), source or "null"] += rows
    again = Losses(SPEC, TimeDomain.TIMESTAMP)
    again.restore(losses.state())
    for each in (losses, again):
        found = {(f["minute"], f["source"]): f["rows"] for f in each.figures()}
        assert found == {key: wanted[key] for key in found}
        assert len(found) == min(len(wanted), 30)
        assert sorted((f["minute"] for f in each.figures()), reverse=True) == [f["minute"] for f in each.figures()]


def test_a_burst_of_many_late_sources_is_kept_small_and_no_row_is_forgotten() -> None:
    losses = Losses(SPEC, TimeDomain.TIMESTAMP)
    losses.count(late([(0, f"s{n}", 1 + (n < 5)) for n in range(100_000)]))
    kept = losses.state()
    assert len(kept) <= MOST and sum(rows for *_, rows in kept) == 100_005
    assert [source for _, source, rows in kept if rows > 2] == [OTHERS]
    assert {source for _, source, rows in kept if rows == 2} == {f"s{n}" for n in range(5)}


def test_only_the_latest_minutes_are_kept() -> None:
    losses = Losses(SPEC, TimeDomain.TIMESTAMP)
    for minute in range(MOST + 50):
        losses.count(late([(minute * 6, "a", 1)]))
    assert [at // MINUTE for at, *_ in losses.state()] == list(range(50, MOST + 50))


def test_where_time_is_a_number_rows_are_counted_by_slide_and_without_sources() -> None:
    losses = Losses(WindowSpec(range=20, slide=10), TimeDomain.SEQUENCE)
    losses.count(pl.DataFrame({PANE: [0, 1, 1], ROWS: [1, 2, 3]}))
    assert losses.figures() == [
        {"minute": "10", "source": None, "rows": 5},
        {"minute": "0", "source": None, "rows": 1},
    ]
