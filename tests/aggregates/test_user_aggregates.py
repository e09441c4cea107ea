"""Aggregates of the user's own in process: a function over a group, and a mergeable one, which is folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from slackwater.aggregates.registry import BY_FUNCTION
from slackwater.aggregates.user import user_aggregate
from slackwater.errors import QueryError
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame


class Mean:
    """Of those that are not null."""

    def init(self) -> list[float]:
        return [0, 0.0]

    def add(self, state: list[float], x: pa.Array) -> list[float]:
        return self.merge(state, [len(x) - x.null_count, pc.sum(x).as_py() or 0.0])

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        return [one[0] + other[0], one[1] + other[1]]

    def value(self, state: list[float]) -> float | None:
        return state[1] / state[0] if state[0] else None


def spelled(s: pa.Array, h: pa.Array) -> str:
    """All texts in the order of time."""
    return "".join(f"{text}{number}" for text, number in zip(s.to_pylist(), h.to_pylist(), strict=True))


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    user_aggregate("my_mean", Mean(), pa.float64())
    user_aggregate("spelled", spelled, pa.string())
    yield
    del BY_FUNCTION["my_mean"], BY_FUNCTION["spelled"]


def test_a_function_gets_the_rows_of_a_group_in_the_order_of_time() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, group_by=["g"], v="spelled(s, h)", n="count(*)"))
    script.page(frame([[3, "a", 1, 0.0, 0, "r"], [1, "a", 2, 0.0, 0, "p"], [2, "b", 3, 0.0, 0, "x"]]))
    script.page(frame([[2, "a", 1, 0.0, 0, "q"], [2, "a", 0, 0.0, 0, "q"]]))
    assert {r["g"]: (r["v"], r["n"]) for r in script.drain().results} == {"a": ("p2q0q1r1", 4), "b": ("x3", 1)}


@given(bounded_streams())
def test_a_mergeable_one_is_what_avg_is(stream: Stream) -> None:
    texts = {"v": "my_mean(x)", "w": "my_mean(x) FILTER (WHERE i > 0)"}
    like = {f"like_{name}": text.replace("my_mean", "avg") for name, text in texts.items()}
    script = Script(arrow_plan(SAMPLE, 12, 8, group_by=["g"], **texts, **like))
    for page in stream.pages:
        script.page(page)
    for row in script.drain().results:
        assert (row["v"], row["w"]) == (row["like_v"], row["like_w"])


def test_a_filter_leaves_rows_out() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, v="spelled(s, h) FILTER (WHERE h > 1)"))
    script.page(frame([[1, "a", 2, 0.0, 0, "p"], [2, "a", 1, 0.0, 0, "q"], [3, "a", 3, 0.0, 0, "r"]]))
    assert script.drain().results[0]["v"] == "p2r3"


@pytest.mark.parametrize(
    ("name", "aggregate", "wrong"),
    [
        ("Mine", spelled, "write a plain name in small letters"),
        ("sum", spelled, "choose another one"),
        ("mine", Mean, "neither a function nor an object with init, add, merge and value"),
        ("mine", 3, "neither a function nor an object"),
    ],
)
def test_what_cannot_be_called_is_refused(name: str, aggregate: Any, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        user_aggregate(name, aggregate, pa.int64())


def test_a_call_is_of_plain_expressions() -> None:
    with pytest.raises(QueryError, match=r"spelled takes expressions, as in spelled\(x, y\)"):
        arrow_plan(SAMPLE, 10, 10, v="spelled(DISTINCT s, h)")
