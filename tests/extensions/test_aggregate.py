"""An aggregate of one's own: `peak_to_peak(x)`, the largest value less the smallest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import polars as pl
import pytest

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.min_max import Max, Min
from slackwater.aggregates.partial import Partial
from slackwater.aggregates.registry import BY_FUNCTION
from slackwater.errors import QueryError
from slackwater.testing import Script, arrow_plan
from tests.kit.sql import plan
from tests.kit.streams import SAMPLE, frame


@dataclass(frozen=True)
class PeakToPeak(AggregateFunction):
    """Made of partials that min() and max() have too: in one query with these they are computed once."""

    functions: ClassVar[tuple[str, ...]] = ("peak_to_peak",)
    growth: ClassVar[Growth] = Growth.RISES

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        # Spark does not know the function, so it cannot be asked for the type.
        return cls(call.name, call.text, call.first, cls.type_of_argument(call))

    def partials(self) -> tuple[Partial, ...]:
        return Min(self.argument), Max(self.argument)

    def value(self, *columns: str) -> pl.Expr:
        low, high = columns
        return pl.col(high) - pl.col(low)

    def value_sql(self, *columns: str) -> str:
        low, high = columns
        return f"{high} - {low}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    BY_FUNCTION["peak_to_peak"] = PeakToPeak
    yield
    del BY_FUNCTION["peak_to_peak"]


def test_windows_and_windows_for_each_row_give_it() -> None:
    pages = [
        frame([[1, "a", 0, 3.0], [2, "a", 0, 10.0], [4, "b", 0, 1.0]]),
        frame([[6, "a", 0, 5.0], [25, "b", 0, 9.0]]),
    ]
    script = Script(arrow_plan(SAMPLE, 10, 10, group_by=["g"], p="peak_to_peak(x)", low="min(x)"))
    for page in pages:
        script.page(page)
    found = {(r["window_start"], r["g"]): (r["p"], r["low"]) for r in script.drain().results}
    assert found == {(0, "a"): (7.0, 3.0), (0, "b"): (0.0, 1.0), (20, "b"): (0.0, 9.0)}
    rolling = Script(arrow_plan(SAMPLE, 10, group_by=["g"], p="peak_to_peak(x)")).page(pages[0]).drain()
    assert [row["p"] for row in rolling.results] == [0.0, 7.0, 0.0]


def test_sql_and_expressions_know_it() -> None:
    assert (
        "peak_to_peak(delay)"
        in plan("SELECT peak_to_peak(delay) AS p FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR]").describe()
    )
    script = Script(arrow_plan(SAMPLE, 10, 10, p="peak_to_peak(x) / 2")).page(
        frame([[1, "a", 0, 3.0], [2, "a", 0, 9.0]])
    )
    assert script.drain().results[0]["p"] == 3.0


def test_what_it_does_not_take_is_refused_and_messages_name_it() -> None:
    with pytest.raises(QueryError, match="peak_to_peak takes one expression"):
        arrow_plan(SAMPLE, 10, 10, p="peak_to_peak(x, i)")
    with pytest.raises(QueryError, match=r"known are count, .*peak_to_peak"):
        arrow_plan(SAMPLE, 10, 10, p="peek_to_peak(x)")
