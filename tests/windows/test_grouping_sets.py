"""GROUPING SETS, CUBE and ROLLUP: the sets of a query against a query for each set, and a recomputation.

It catches sets that lose rows to each other, that close by another set's columns, and columns that are not NULL.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.grouping_sets import Sets, cross_product, cube, rollup
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.sql.write import to_sql
from slackwater.testing import ListSink, Script
from slackwater.testing.types import SampleRelation, SampleTypes
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.sql import SCOPE, logical
from tests.kit.sql import plan as sql_plan
from tests.kit.streams import SAMPLE, WINDOWS, Stream, bounded_streams, frame, same, unbounded_streams

NAMES = ("n", "whole", "mean", "high", "exact_i", "var")
GROUPS = ("g", "h")
Row = dict[str, Any]
SETS = st.one_of(
    st.sampled_from([cube([[0], [1]]), rollup([[0], [1]]), cross_product([((1,),), ((0,), ())])]),
    st.lists(st.sampled_from([(0, 1), (0,), (1,), ()]), min_size=1, max_size=4, unique=True).map(tuple),
)


def plan(
    window: L.Window,
    sets: Sets | None,
    groups: tuple[str, ...] = GROUPS,
    policy: Disorder | None = None,
    source: str | None = None,
    sample: pl.DataFrame = SAMPLE,
    over: L.Window | None = None,
    names: tuple[str, ...] = NAMES,
) -> PlanNode:
    relation, policy = SampleRelation(sample), policy or bounded(0)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    told = getattr(policy, "column", None)
    node = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, policy, source, told, relation.schema)
    aggregates = tuple((name, AGGREGATES[name][0]) for name in names)
    if sets is not None:
        aggregates += (("gid", "grouping_id()"), ("no_h", "grouping(h) + 0"))
    query = L.Aggregate((L.Scan("s"),), window, tuple((None, g) for g in groups), aggregates, sets)
    if over is not None:
        query = L.Aggregate((query,), over, (), (("rows_", "sum(n)"), ("sets_", "count(DISTINCT gid)")))
    return analyse(query, SampleTypes({"s": (node, relation)}))


def number(places: tuple[int, ...]) -> int:
    return sum(bit for place, bit in ((0, 2), (1, 1)) if place not in places)


def in_set(row: Row, places: tuple[int, ...]) -> Row:
    keys = {g: row.get(g) if n in places else None for n, g in enumerate(GROUPS)}
    return {**row, **keys, "gid": number(places), "no_h": int(1 not in places)}


def check(got: list[Row], wanted: list[Row], names: tuple[str, ...] = NAMES) -> None:
    keys = ("gid", *GROUPS, "window_start", "window_end")

    def by(rows: list[Row]) -> dict[str, Row]:
        found = {str([row[k] for k in keys]): row for row in rows}
        assert len(found) == len(rows), "two results of one set, window and group"
        return found

    ours, theirs = by(got), by(wanted)
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        for column in (*names, "no_h"):
            assert same(ours[key][column], row[column]), (key, column, ours[key][column], row[column])


def answers(made: PlanNode, pages: list[pl.DataFrame], stops: set[int]) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()
        script = Script(made, folder, sink)
        for place, page in enumerate(pages):
            script.page(page)
            if place in stops:
                script = Script(made, folder, sink)
        script.drain()
    return sink.rows


@given(stream=bounded_streams(), sizes=WINDOWS, sets=SETS, stops=st.sets(st.integers(0, 10)))
def test_each_set_is_that_of_a_recomputation(
    stream: Stream, sizes: tuple[int, int], sets: Sets, stops: set[int]
) -> None:
    spec, aggregates = WindowSpec(*sizes), {name: AGGREGATES[name] for name in NAMES}
    got = answers(plan(L.Window(*sizes), sets, policy=bounded(stream.slack)), stream.pages, stops)
    wanted = [
        in_set(row, places)
        for places in sets
        for row in recompute(stream.rows, spec, [GROUPS[n] for n in places], aggregates)
    ]
    check(got, wanted)


@settings(max_examples=30)
@given(
    stream=unbounded_streams(),
    window=st.sampled_from([L.Window(7, 3), L.Window(10, 10), L.Window(gap=4), L.Window(20, step=5)]),
    sets=SETS,
    stops=st.sets(st.integers(0, 10)),
)
def test_each_set_is_as_the_query_of_its_groups_with_late_rows(
    stream: Stream, window: L.Window, sets: Sets, stops: set[int]
) -> None:
    names = tuple(name for name in NAMES if window.gap is None or name != "exact_i")
    policy, wanted = bounded(stream.slack), []
    for places in sets:
        alone = plan(window, None, tuple(GROUPS[n] for n in places), policy, names=names)
        wanted += [in_set(row, places) for row in answers(alone, stream.pages, set())]
    check(answers(plan(window, sets, policy=policy, names=names), stream.pages, stops), wanted, names)


@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["a", "b"]), st.booleans()), max_size=25),
    cuts=st.sets(st.integers(0, 25)),
    stops=st.sets(st.integers(0, 10)),
)
def test_a_set_with_the_source_closes_by_source_and_others_by_the_stream(
    steps: list[tuple[int, str, bool]], cuts: set[int], stops: set[int]
) -> None:
    at, rows = {"a": 0, "b": 3}, []
    for step, g, tells in steps:
        at[g] += step + 1
        rows.append((at[g], g, at[g] if tells else None))
    bounds = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    sample = SAMPLE.with_columns(upto=pl.lit(0, pl.Int64))
    made = plan(L.Window(4, 4), cube([[0], [1]]), policy=punctuated("upto"), source="g", sample=sample)
    alone = {
        places: plan(L.Window(4, 4), None, tuple(GROUPS[n] for n in places), punctuated("upto"), "g", sample)
        for places in cube([[0], [1]])
    }
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()
        script, others = Script(made, folder, sink), {places: Script(one) for places, one in alone.items()}
        for place, (low, high) in enumerate(pairwise(bounds)):
            page = frame([[t, g, n % 2, 0.5, n] for n, (t, g, _) in enumerate(rows[low:high])])
            page = page.with_columns(upto=pl.Series([u for *_, u in rows[low:high]], dtype=pl.Int64))
            script.page(page)
            wanted = []
            for places, other in others.items():
                other.page(page)
                wanted += [in_set(row, places) for row in other.results]
            check(sink.rows, wanted)
            if place in stops:
                script = Script(made, folder, sink)


@settings(max_examples=30)
@given(stream=bounded_streams(), stops=st.sets(st.integers(0, 10)))
def test_windows_over_the_sets(stream: Stream, stops: set[int]) -> None:
    sets = cube([[0], [1]])
    made = plan(L.Window(5, 5), sets, policy=bounded(stream.slack), over=L.Window(10, 10))
    rows = stream.rows.drop_nulls("t")
    for row in answers(made, stream.pages, stops):
        inside = rows.filter(pl.col("t").is_between(row["window_start"], row["window_end"], closed="left"))
        assert (row["rows_"], row["sets_"]) == (len(sets) * inside.height, len(sets))


def test_early_answers_and_totals_of_sets() -> None:
    for window, emit in ((" [RANGE 10, SLIDE 10]", "EARLY EVERY"), ("", "EVERY")):
        text = f"SELECT g, count(*) AS n FROM s{window} GROUP BY ROLLUP (g) EMIT {emit} 10 SECONDS"
        script = Script.from_sql(text, {"s": ("t BIGINT, g STRING", bounded(0))})
        script.page([{"t": 1, "g": "a"}, {"t": 2, "g": "b"}, {"t": 2, "g": "b"}]).advance(10_000_000)
        early = sorted((row["n"], str(row["g"]), row["kind"]) for row in script.advance(10_000_000).new_rows())
        assert list(dict.fromkeys(early)) == [(1, "a", "early"), (2, "b", "early"), (3, "None", "early")]
        kinds = {row["kind"] for row in script.drain().new_rows()}
        assert kinds == ({"final"} if window else set())


def test_one_job_folds_all_sets() -> None:
    script = Script(plan(L.Window(10, 10), cube([[0], [1]])))
    fold, asked = script.executor.pages.fold, list[tuple[str, ...]]()

    def counted(page: Any, kernel: Any) -> Any:
        asked.append(tuple(kernel.keys))
        return fold(page, kernel)

    script.executor.pages.fold = counted  # type: ignore[method-assign]
    script.page(frame([[1, "a", 1, 0.5, 3], [2, "b", 1, 0.5, 3]])).drain()
    assert len(asked) == 1 and set(asked[0]) >= set(GROUPS)
    assert len(script.results) == 2 + 2 + 1 + 1


@pytest.mark.parametrize(
    ("written", "sets"),
    [
        ("GROUPING SETS ((carrier, dest), (carrier), ())", ((0, 1), (0,), ())),
        ("GROUPING SETS (carrier, dest)", ((0,), (1,))),
        ("CUBE (carrier, dest)", ((0, 1), (0,), (1,), ())),
        ("ROLLUP (carrier, dest)", ((0, 1), (0,), ())),
        ("carrier, dest WITH ROLLUP", ((0, 1), (0,), ())),
        ("carrier, dest WITH CUBE", ((0, 1), (0,), (1,), ())),
        ("carrier, ROLLUP (dest)", ((0, 1), (0,))),
        ("CUBE (carrier), ROLLUP (dest)", ((0, 1), (0,), (1,), ())),
        ("GROUPING SETS (ROLLUP (carrier), (carrier, dest))", ((0,), (), (0, 1))),
        ("ROLLUP ((carrier, dest))", ((0, 1), ())),
        ("window_start, window_end, GROUPING SETS ((carrier), (dest))", ((0,), (1,))),
        ("window(ts, '1 hour'), ROLLUP (carrier, dest)", ((0, 1), (0,), ())),
        ("ROLLUP (1, 2)", ((0, 1), (0,), ())),
    ],
)
def test_sql_names_the_sets(written: str, sets: Sets) -> None:
    window = "" if "window(" in written else " [RANGE 1 hour, SLIDE 1 hour]"
    text = f"SELECT carrier, dest, count(*) AS n FROM trips{window} GROUP BY {written}"
    found = logical(text)
    assert isinstance(found, L.Aggregate) and found.sets == sets
    again = to_sql(found, SCOPE)
    assert logical(again) == found
    assert sql_plan(again) == sql_plan(text)


def test_expressions_see_nulls_and_groups_may_be_expressions() -> None:
    text = (
        "SELECT upper(g) AS k, concat(coalesce(g, 'all'), ':', count(*)) AS said, grouping_id(upper(g), h) AS gid "
        "FROM s [RANGE 10, SLIDE 10] GROUP BY ROLLUP (upper(g), h) HAVING grouping(h) = 1"
    )
    with pytest.raises(QueryError, match="'g' is a column of single rows"):
        Script.from_sql(text, {"s": ("t BIGINT, g STRING, h INT", bounded(0))})
    script = Script.from_sql(
        text.replace("(g, 'all')", "(k, 'all')"), {"s": ("t BIGINT, g STRING, h INT", bounded(0))}
    )
    script.page([{"t": 1, "g": "a", "h": 1}, {"t": 2, "g": "a", "h": 2}, {"t": 3, "g": "b", "h": 2}]).drain()
    found = sorted((row["gid"], str(row["k"]), row["said"]) for row in script.results)
    assert found == [(1, "A", "A:2"), (1, "B", "B:1"), (3, "None", "all:3")]


@pytest.mark.parametrize(
    ("rest", "wrong"),
    [
        ("grouping(seats) AS x FROM {} GROUP BY ROLLUP (carrier)", "seats is no group; there are carrier"),
        ("grouping(carrier, dest) AS x FROM {} GROUP BY CUBE (carrier, dest)", "grouping takes one group"),
        ("grouping_id(dest) AS x FROM {} GROUP BY CUBE (carrier, dest)", "all groups in their order"),
        ("grouping(carrier) AS x FROM {} GROUP BY carrier", "tells grouping sets apart, and there are none"),
        ("count(*) AS n FROM {} GROUP BY GROUPING SETS ((window_start, carrier), ())", "write it before the sets"),
        (
            "count(*) AS n FROM {} GROUP BY CUBE (ts, carrier, dest, seats, delay, ok, 1+1, 2+1, 3)",
            "at most 256",
        ),
        ("count(*) AS n FROM {} GROUP BY ROLLUP (carrier) ORDER BY n", "or grouping sets, come at different times"),
        ("count(*) AS n FROM {} GROUP BY ROLLUP (carrier", "expected"),
    ],
)
def test_refused(rest: str, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        sql_plan("SELECT " + rest.format("trips [RANGE 1 HOUR, SLIDE 1 HOUR]"))
