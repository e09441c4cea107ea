"""Random streams for the tests: rows within or behind a bound, cut into pages anyhow; one profile for them all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

settings.register_profile(
    "slackwater", deadline=None, max_examples=80, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slackwater")

#: Columns of every random stream; `t` is its time.
SCHEMA = {"t": pl.Int64, "g": pl.String, "h": pl.Int64, "x": pl.Float64, "i": pl.Int64, "s": pl.String}
SAMPLE = pl.DataFrame({"t": [0], "g": ["a"], "h": [0], "x": [0.0], "i": [0], "s": [""]}, schema=SCHEMA)

#: Range and slide: tumbling, sliding, a tick a slide, and pairs that are no multiples of one another.
WINDOWS = st.one_of(
    st.sampled_from([(7, 3), (10, 10), (30, 10), (5, 1), (1, 1), (12, 8), (20, 15)]),
    st.integers(1, 24).flatmap(lambda r: st.tuples(st.just(r), st.integers(1, r))),
)

# Quarters: their sums are exact, so a difference is a mistake and not a rounding.
NUMBERS = st.one_of(st.none(), st.integers(-4000, 4000).map(lambda n: n / 4))
_VALUES = {
    "g": st.sampled_from(["a", "b", "c", None]),
    "h": st.one_of(st.none(), st.integers(0, 2)),
    "x": NUMBERS,
    "i": st.one_of(st.none(), st.integers(-100, 100)),
    "s": st.one_of(st.none(), st.sampled_from(["", "p", "q", "é"])),
}


def frame(rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Rows in the order of `SCHEMA` as a frame; of a short row the last columns are null."""
    padded = [[*row, *[None] * (len(SCHEMA) - len(row))] for row in rows]
    return pl.DataFrame(padded, schema=SCHEMA, orient="row")


@dataclass
class Stream:
    """Pages of one stream, with the slack that they keep to."""

    pages: list[pl.DataFrame]
    slack: int

    @property
    def rows(self) -> pl.DataFrame:
        """All rows in the order of arrival."""
        return pl.concat([SAMPLE.clear(), *self.pages])


def _cut(draw: st.DrawFn, rows: list[list[Any]]) -> list[pl.DataFrame]:
    """Pages of any size, the empty one included."""
    at = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=10)))
    return [frame(rows[a:b]) for a, b in zip([0, *at], [*at, len(rows)], strict=True)]


@st.composite
def bounded_streams(draw: st.DrawFn, most: int = 30) -> Stream:
    """No row is more than the slack behind the largest time before it; times may be negative."""
    slack = draw(st.integers(0, 12))
    high = draw(st.integers(-60, 60))
    rows = []
    moves = st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 5, 40]), st.integers(0, slack), *_VALUES.values())
    for step, back, *values in draw(st.lists(moves, max_size=most)):
        high += step
        rows.append([high if step else high - back, *values])
    return Stream(_cut(draw, rows), slack)


@st.composite
def unbounded_streams(draw: st.DrawFn, most: int = 30) -> Stream:
    """Rows as late as they like, some without a time."""
    slack = draw(st.integers(0, 8))
    times = st.one_of(st.integers(-30, 30), st.integers(-30, 30), st.none())
    rows = [[t, *values] for t, *values in draw(st.lists(st.tuples(times, *_VALUES.values()), max_size=most))]
    return Stream(_cut(draw, rows), slack)


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results without the instant at which they were given."""
    return [{k: v for k, v in row.items() if k != "emitted_at"} for row in rows]


def finals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The final ones among results, without the instant at which they were given. Final pairs have no kind."""
    return timeless([row for row in rows if row.get("kind") in (None, "final")])


def same(one: Any, other: Any, rel: float = 1e-9, absolute: float = 1e-6) -> bool:
    """Whether two values of a result are equal; NaN is NaN, null is null."""
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=rel, abs_tol=absolute)
    return one == other


def assert_same_rows(got: list[dict[str, Any]], wanted: list[dict[str, Any]], keys: Sequence[str]) -> None:
    """Both are the same rows in any order; the keys name a row."""

    def by_key(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
        named = {tuple(row[k] for k in keys): row for row in rows}
        assert len(named) == len(rows), "two results for one window and group"
        return named

    ours, theirs = by_key(got), by_key(wanted)
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        for column, value in row.items():
            assert same(ours[key][column], value), f"{column} of {key}: {ours[key][column]!r}, not {value!r}"
