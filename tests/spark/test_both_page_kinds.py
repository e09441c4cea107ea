"""The same scenarios on in-process pages and on Spark: answers, instants of emission and figures are equal."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.progress.disorder import Disorder
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.windows import window_of

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
#: Those that come out the same to the last bit however partials are merged.
EXACT = {name: text for name, text in ALL.items() if name not in ("half", "var", "sd")}
SCHEMA = {"t": pl.Int64, "k": pl.String, "v": pl.Float64, "p": pl.Int64}


@dataclass(eq=False)
class Scenario:
    """Pages, and a query over them."""

    pages: list[list[tuple[int | None, str | None, float | None, int | None]]]
    window: dict[str, int]
    slack: int = 5
    group_by: tuple[str, ...] = ("k",)
    where: str | None = None
    select: dict[str, str] | None = None
    aggregates: dict[str, str] = field(default_factory=lambda: ALL)
    source: str | None = None
    punctuated: bool = False
    policy: Disorder | None = None
    own: Disorder | None = None
    resident_limit: int = 2**28

    @property
    def disorder(self) -> Disorder:
        return sw.punctuated("p") if self.punctuated else self.policy or sw.bounded(self.slack)

    def frame(self, page: int) -> pl.DataFrame:
        return pl.DataFrame(self.pages[page], schema=SCHEMA, orient="row")


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
                    source.choice([None, time - 4, time, time + 3]),
                )
            )
        pages.append(rows)
    return Scenario(pages, window, **more)


SCENARIOS = {
    "sliding": scattered(1, {"range": 9, "slide": 3}),
    "seven by three": scattered(2, {"range": 7, "slide": 3}),
    "tumbling with an offset": scattered(3, {"range": 10, "slide": 10, "offset": 4}),
    "growing": scattered(23, {"range": 12, "step": 3, "offset": 5}),
    "growing, by source, spilled": scattered(
        24, {"range": 6, "step": 2}, punctuated=True, source="k", resident_limit=0, aggregates=EXACT
    ),
    "with gaps": scattered(25, {"range": 3, "slide": 8, "offset": 2}),
    "with gaps, spilled": scattered(26, {"range": 2, "slide": 7}, resident_limit=0, aggregates=EXACT),
    "no groups": scattered(4, {"range": 8, "slide": 2}, group_by=()),
    "filtered": scattered(5, {"range": 8, "slide": 4}, where="v > 0 OR k = 'a'"),
    "projected": scattered(6, {"range": 6, "slide": 6}, select={"k": "k", "v": "v * 2", "t": "t + 1"}),
    "sorted": scattered(7, {"range": 5, "slide": 1}, slack=0),
    "punctuated": scattered(8, {"range": 8, "slide": 4}, punctuated=True, source="k"),
    "punctuated as a whole": scattered(9, {"range": 8, "slide": 4}, punctuated=True),
    "by source, filtered": scattered(
        10, {"range": 8, "slide": 4}, punctuated=True, source="k", where="v > 0 OR k = 'a'"
    ),
    "by source, spilled": scattered(
        11, {"range": 7, "slide": 3}, punctuated=True, source="k", resident_limit=0, aggregates=EXACT
    ),
    "by source, passed by the stream": scattered(21, {"range": 7, "slide": 3}, slack=2, source="k"),
    "by source, passed by the stream, spilled": scattered(
        22, {"range": 7, "slide": 3}, slack=2, source="k", resident_limit=0, aggregates=EXACT
    ),
    "by another column": scattered(12, {"range": 6, "slide": 3}, punctuated=True, source="k", group_by=("p",)),
    "by a number": scattered(
        13,
        {"range": 6, "slide": 3},
        punctuated=True,
        source="p",
        group_by=("p",),
        where="p IS NOT NULL",
        select={"p": "p", "k": "k", "v": "v", "t": "t"},
    ),
    "skew": scattered(
        15,
        {"range": 6, "slide": 3},
        source="k",
        policy=sw.skew({("a", "b"): (0, 9), ("b", "a"): (0, 9)}, timeout=1),
    ),
    "sensors": scattered(16, {"range": 6, "slide": 3}, source="k", policy=sw.sensors(4, timeout="1 minute")),
    "counter": scattered(
        17, {"range": 6, "slide": 3}, source="k", policy=sw.papers.global_counter(("1 second", "15 seconds"))
    ),
    "learned": scattered(18, {"range": 6, "slide": 3}, source="k", policy=sw.learned(window=20)),
    "controlled": scattered(19, {"range": 6, "slide": 3}, policy=sw.papers.disorder_control("20%")),
    "at most a share": scattered(20, {"range": 6, "slide": 3}, policy=sw.drop_ratio("20%")),
    "a policy of its own": scattered(14, {"range": 6, "slide": 3}, slack=30, own=sw.bounded(1)),
    "one row": Scenario([[(3, "a", 1.0, 2)]], {"range": 10, "slide": 5}),
    "nothing but empty pages": Scenario([[], []], {"range": 10, "slide": 10}),
    "only rows without a time": Scenario(
        [[(None, "a", 1.0, None)], [(None, None, None, None)]], {"range": 10, "slide": 10}
    ),
}


@cache
def on_arrow(s: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    sample = pl.DataFrame({"t": [1], "k": ["a"], "v": [1.0], "p": [1]}, schema=SCHEMA)
    plan = arrow_plan(
        sample,
        group_by=s.group_by,
        where=s.where,
        select=s.select,
        disorder=s.disorder,
        source=s.source,
        own_disorder=s.own,
        **s.window,
        **s.aggregates,
    )
    late = ListSink()
    script = Script(plan, late=late)
    for n in range(len(s.pages)):
        if s.pages[n]:
            script.until((n + 1) * PAGE).page(s.frame(n), number=n)
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

    with sw.Session(spark, resident_limit=s.resident_limit) as session:
        rows = session.stream(
            "s", df, time="t", source=s.source, arrival="at", page="10 seconds", disorder=s.disorder
        )
        rows = rows if s.where is None else rows.where(s.where)
        rows = rows if s.select is None else rows.select(**s.select)
        run = window_of(rows, **s.window, disorder=s.own).group_by(*s.group_by).agg(**s.aggregates).start(late=keep)
        session.run_available()
        return run.results().to_pylist(), late, run.metrics()


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(((k, _round(v)) for k, v in r.items()), key=str)) for r in rows)


def _round(value: Any) -> Any:
    return float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value


#: What each of them shows, two others show together.
BOTH = ("by source, passed by the stream, spilled", "by source, filtered", "seven by three")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in BOTH else []) for name in SCENARIOS]
)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    scenario = SCENARIOS[name]
    rows, late, figures = on_arrow(scenario)
    spark_rows, spark_late, spark_figures = on_spark(spark, scenario)
    assert comparable(spark_rows) == comparable(rows)
    assert comparable(spark_late) == comparable(late)
    same = ["rows", "missing_time", "late_rows", "lost_pairs", "lost_share", "results", "pages", "late_by_source"]
    same += ["lost_by_window", "ungrammatical_rows"] if scenario.punctuated else ["lost_by_window"]
    same += ["windows"] if scenario.resident_limit else []  # counted without looking at the files
    for key in same:
        assert spark_figures[key] == figures[key], key


#: By group: sums that wrap, that leave their type, that do not; averages that fit their type, and do not.
LARGE = {
    "wraps": [(2**62 + i, Decimal("2.5"), Decimal(-7)) for i in range(12)],
    "leaves": [(1, Decimal("-9e35"), Decimal("9e37"))] * 5,
    "fits": [(None, Decimal("5e31"), None), (-(2**63), None, Decimal("5e31")), (3, Decimal("0.01"), Decimal(1))],
    "no average": [(7, Decimal("5e32"), Decimal("9" * 38))],
    "nothing": [(None, None, None)] * 2,
}
SUMS = {
    "whole": "sum(i)", "mean": "avg(i)", "short": "avg(CAST(i AS SMALLINT))", "n": "count(m)",
    "money": "sum(m)", "share": "avg(m)", "units": "sum(u)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("window", "resident_limit"),
    [
        ({"range": "1 minute", "slide": "1 minute"}, 2**28),
        ({"range": "1 minute", "slide": "1 minute"}, 0),
        ({"range": "1 minute"}, 2**28),
    ],
    ids=["resident", "spilled", "for each row"],
)
def test_sums_and_averages_that_leave_their_type_are_those_of_spark(
    spark: SparkSession, window: dict[str, Any], resident_limit: int
) -> None:
    rows = [(k, n, *row) for k, group in LARGE.items() for n, row in enumerate(group)]
    df = spark.createDataFrame(rows, "k STRING, n INT, i BIGINT, m DECIMAL(38, 2), u DECIMAL(38, 0)")
    df = df.selectExpr("timestamp_seconds(600 + n) t", "*")
    made = df.groupBy("k").agg(*(F.expr(sql).alias(name) for name, sql in SUMS.items()))
    wanted = {r["k"]: r.asDict() for r in made.collect()}
    assert (wanted["wraps"]["whole"], wanted["wraps"]["mean"]) == (66, 2.0**62)
    assert wanted["leaves"]["money"] is wanted["leaves"]["units"] is wanted["no average"]["share"] is None
    assert wanted["no average"]["units"] == Decimal("9" * 38)
    with sw.Session(spark, resident_limit=resident_limit) as session:
        stream = session.stream("s", df, time="t", arrival="t", page="4 seconds", disorder=sw.bounded("2 seconds"))
        early = sw.early(every="6 seconds") if "slide" in window else None
        run = window_of(stream, **window).group_by("k").agg(**SUMS).start(early=early)
        session.run_available()
        results = run.results().to_pylist()
    # Of windows that end with a row, the last has all rows of its group.
    got = {r["k"]: {c: r[c] for c in ("k", *SUMS)} for r in results if r["kind"] == "final"}
    for k, row in wanted.items():
        assert {c: _round(v) for c, v in got[k].items()} == {c: _round(v) for c, v in row.items()}, k


def test_the_scenarios_reach_the_corners() -> None:
    figures = [on_arrow(s)[2] for s in SCENARIOS.values()]
    assert sum(f["late_rows"] > 0 for f in figures) >= 4
    assert sum(f["missing_time"] > 0 for f in figures) >= 4
    assert sum(f.get("ungrammatical_rows", 0) > 0 for f in figures) >= 3
    assert sum(len(f["late_by_source"]) > 1 for f in figures) >= 4
