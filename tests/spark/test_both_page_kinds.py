"""The same scenarios on in-process pages and on Spark: answers, instants of emission and figures are equal."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.testing import ListSink, Script, arrow_plan

pytestmark = pytest.mark.spark

PAGE = 10_000_000
ALL = {
    "n": "count(*)",
    "some": "count(v)",
    "total": "sum(v)",
    "whole": "sum(t)",
    "mean": "avg(v)",
    "low": "min(v)",
    "top": "max(v)",
    "var": "variance(v)",
    "sd": "stddev_pop(v)",
    "head": "first(v)",
    "tail": "last(k)",
    "half": "approx_percentile(v, 0.5)",
}


@dataclass
class Scenario:
    """Pages, and a query over them."""

    pages: list[list[tuple[int | None, str | None, float | None]]]
    window: dict[str, int]
    slack: int = 5
    group_by: tuple[str, ...] = ("k",)
    where: str | None = None
    select: dict[str, str] | None = None
    aggregates: dict[str, str] = field(default_factory=lambda: ALL)

    def frame(self, page: int) -> pl.DataFrame:
        return pl.DataFrame(self.pages[page], schema={"t": pl.Int64, "k": pl.String, "v": pl.Float64}, orient="row")


def scattered(seed: int, window: dict[str, int], **more: Any) -> Scenario:
    """Disordered pages with null times, groups and values, some rows behind the bound."""
    source = random.Random(seed)
    pages = []
    for p in range(5):
        rows = []
        for _ in range(source.randrange(0, 25)):
            time = p * 12 - 40 + source.randrange(-12, 14)
            rows.append(
                (
                    None if source.random() < 0.05 else time,
                    source.choice(["a", "b", None]),
                    source.choice([None, float("nan"), 1.0, -2.5, float(time)]),
                )
            )
        pages.append(rows)
    return Scenario(pages, window, **more)


SCENARIOS = {
    "sliding": scattered(1, {"range": 9, "slide": 3}),
    "seven by three": scattered(2, {"range": 7, "slide": 3}),
    "tumbling with an offset": scattered(3, {"range": 10, "slide": 10, "offset": 4}),
    "no groups": scattered(4, {"range": 8, "slide": 2}, group_by=()),
    "filtered": scattered(5, {"range": 8, "slide": 4}, where="v > 0 OR k = 'a'"),
    "projected": scattered(6, {"range": 6, "slide": 6}, select={"k": "k", "v": "v * 2", "t": "t + 1"}),
    "sorted": scattered(7, {"range": 5, "slide": 1}, slack=0),
    "one row": Scenario([[(3, "a", 1.0)]], {"range": 10, "slide": 5}),
    "nothing but empty pages": Scenario([[], []], {"range": 10, "slide": 10}),
    "only rows without a time": Scenario([[(None, "a", 1.0)], [(None, None, None)]], {"range": 10, "slide": 10}),
}


def on_arrow(s: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    sample = pl.DataFrame({"t": [1], "k": ["a"], "v": [1.0]})
    plan = arrow_plan(
        sample,
        group_by=s.group_by,
        where=s.where,
        select=s.select,
        disorder=sw.bounded(s.slack),
        **s.window,
        **s.aggregates,
    )
    late = ListSink()
    script = Script(plan, late=late)
    for n in range(len(s.pages)):
        if s.pages[n]:
            script.page(s.frame(n), number=n, at=(n + 1) * PAGE)
    script.drain()
    figures = script.metrics()
    return script.results, late.rows, {**figures["source:s"], **figures["q/window"]}


def on_spark(spark: SparkSession, s: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    stamped = [
        s.frame(n).with_columns(at=pl.lit(n * PAGE).cast(pl.Datetime("us", "UTC"))) for n in range(len(s.pages))
    ]
    df = spark.createDataFrame(pl.concat(stamped).to_arrow())
    late: list[dict[str, Any]] = []

    def keep(rows: Any, commit_id: int) -> None:
        late.extend(rows.drop("at").toArrow().to_pylist())

    with sw.Session(spark) as session:
        rows = session.stream("s", df, time="t", arrival="at", page="10 seconds", disorder=sw.bounded(s.slack))
        rows = rows if s.where is None else rows.where(s.where)
        rows = rows if s.select is None else rows.select(**s.select)
        run = rows.window(**s.window).group_by(*s.group_by).agg(**s.aggregates).start(late=keep)
        session.run_available()
        return run.results().to_pylist(), late, run.metrics()


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(((k, _round(v)) for k, v in r.items()), key=str)) for r in rows)


def _round(value: Any) -> Any:
    return float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    scenario = SCENARIOS[name]
    rows, late, figures = on_arrow(scenario)
    spark_rows, spark_late, spark_figures = on_spark(spark, scenario)
    assert comparable(spark_rows) == comparable(rows)
    assert comparable(spark_late) == comparable(late)
    for key in ("rows", "missing_time", "late_rows", "lost_pairs", "windows", "results", "pages"):
        assert spark_figures[key] == figures[key], key


def test_the_scenarios_reach_the_corners() -> None:
    figures = [on_arrow(s)[2] for s in SCENARIOS.values()]
    assert sum(f["late_rows"] > 0 for f in figures) >= 4
    assert sum(f["missing_time"] > 0 for f in figures) >= 4
