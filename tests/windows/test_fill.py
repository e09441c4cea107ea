"""`fill=`: the same query without it, and from its answers the windows that each group lacks.

It catches windows that are filled before they have ended, twice, or not at all, groups that are known too long or
forgotten too early, and what a restart loses of them.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import QueryError
from slackwater.operators.prod_request import check_sideline
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame, unbounded_streams

AGGREGATES = (("n", "count(*)"), ("total", "sum(i)"), ("tail", "last(s)"))
Row = dict[str, Any]


def plan(
    window: L.Window,
    policy: Disorder,
    groups: tuple[str, ...] = ("g",),
    source: str | None = None,
    over: L.Window | None = None,
    sample: pl.DataFrame = SAMPLE,
) -> PlanNode:
    relation = SampleRelation(sample)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    told = getattr(policy, "column", None)
    node = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, policy, source, told, relation.schema)
    query = L.Aggregate((L.Scan("s"),), window, tuple((None, g) for g in groups), AGGREGATES)
    if over is not None:
        query = L.Aggregate((query,), over, (), (("groups", "count(*)"), ("least", "min(n)")))
    return analyse(query, SampleTypes({"s": (node, relation)}))


def with_gaps(rows: list[Row], groups: tuple[str, ...], slide: int, fill: Any, forget: int | None) -> list[Row]:
    """The rows of a query without `fill`, and those that it would add."""
    last = max((row["window_start"] for row in rows), default=0)
    by_group: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["window_start"]):
        by_group.setdefault(tuple(row[g] for g in groups), []).append(row)
    made = list(rows)
    for mine in by_group.values():
        starts = [row["window_start"] for row in mine[1:]] + [last + slide]
        for row, after in zip(mine, starts, strict=True):
            for start in range(row["window_start"] + slide, after, slide):
                if forget is not None and (start - row["window_start"]) // slide > forget // slide:
                    break
                gap = dict(row, window_start=start, window_end=start + row["window_end"] - row["window_start"])
                if fill != "last":
                    gap.update(n=fill, total=fill, tail=None)
                made.append(gap)
    return made


def comparable(rows: list[Row]) -> list[str]:
    columns = ("g", "h", "window_start", "window_end", "n", "total", "tail", "completeness")
    return sorted(str([row.get(c) for c in columns]) for row in rows if row["kind"] == "final")


def answers(made: PlanNode, pages: list[pl.DataFrame], stops: set[int], drain: bool) -> ListSink:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False) if stops else None
            return Script(made, journal, sink)

        script = begin()
        for number, page in enumerate(pages):
            script.page(page)
            if number in stops:
                script = begin()
        if drain:
            script.prod()
            script.drain()
    return sink


@given(
    stream=st.one_of(bounded_streams(), unbounded_streams()),
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 4)),
    fill=st.sampled_from([0, None, "last"]),
    forget=st.sampled_from([None, 9, 30]),
    groups=st.sampled_from([("g",), ("g", "h"), ()]),
    stops=st.sets(st.integers(0, 10)),
)
def test_each_window_between_the_answers_of_a_group_is_filled(
    stream: Stream, sizes: tuple[int, int], fill: Any, forget: int | None, groups: tuple[str, ...], stops: set[int]
) -> None:
    slide, times = sizes
    size, policy = slide * times, bounded(stream.slack)
    plain = answers(plan(L.Window(size, slide), policy, groups), stream.pages, set(), drain=True)
    window = L.Window(size, slide, fill=fill, forget=forget)
    filled = answers(plan(window, policy, groups), stream.pages, stops, drain=True)
    finals = [row for row in plain.rows if row["kind"] == "final"]
    assert comparable(filled.rows) == comparable(with_gaps(finals, groups, slide, fill, forget))


@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["a", "b"]), st.booleans()), max_size=25),
    cuts=st.sets(st.integers(0, 25)),
    stops=st.sets(st.integers(0, 10)),
)
def test_a_source_is_filled_by_its_own_heartbeat(
    steps: list[tuple[int, str, bool]], cuts: set[int], stops: set[int]
) -> None:
    at, rows = {"a": 0, "b": 3}, []
    for step, g, tells in steps:
        at[g] += step + 1
        rows.append((at[g], g, at[g] if tells else None))
    bounds = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    pages, policy = [], punctuated("upto")
    for low, high in pairwise(bounds):
        page = frame([[t, g, 0, 0.0, 1] for t, g, _ in rows[low:high]])
        pages.append(page.with_columns(upto=pl.Series([u for *_, u in rows[low:high]], dtype=pl.Int64)))
    sample = SAMPLE.with_columns(upto=pl.lit(0, pl.Int64))
    plain = answers(plan(L.Window(4, 4), policy, source="g", sample=sample), pages, set(), drain=True)
    window = L.Window(4, 4, fill=0)
    early = answers(plan(window, policy, source="g", sample=sample), pages, stops, drain=False)
    promised = {g: max((u for _, k, u in rows if k == g and u is not None), default=-1) for g in ("a", "b")}
    assert all(row["window_end"] - 1 <= promised[row["g"]] for row in early.rows)
    filled = answers(plan(window, policy, source="g", sample=sample), pages, stops, drain=True)
    assert comparable(filled.rows) == comparable(with_gaps(plain.rows, ("g",), 4, 0, None))


def test_a_window_is_filled_when_it_has_ended_and_not_before() -> None:
    script = Script(plan(L.Window(10, 10, fill=0), bounded(0))).page(frame([[1, "a"], [2, "b"]]))
    script.page(frame([[11, "a"]])).page(frame([[29, "a"]]))
    found = [(r["g"], r["window_start"], r["n"], r["total"]) for r in script.results]
    assert sorted(found) == [("a", 0, 1, None), ("a", 10, 1, None), ("b", 0, 1, None), ("b", 10, 0, 0)]
    script.page(frame([[30, "a"]]))
    assert sorted((r["g"], r["n"]) for r in script.results[4:]) == [("a", 1), ("b", 0)]


@given(stream=bounded_streams(), stops=st.sets(st.integers(0, 10)))
def test_windows_over_filled_ones_see_zeros(stream: Stream, stops: set[int]) -> None:
    inner, policy = L.Window(5, 5, fill=0), bounded(stream.slack)
    below = [r for r in answers(plan(inner, policy), stream.pages, set(), drain=True).rows if r["kind"] == "final"]
    found = answers(plan(inner, policy, over=L.Window(10, 10)), stream.pages, stops, drain=True).rows
    for row in found:
        if row["kind"] == "final":
            mine = [r["n"] for r in below if row["window_start"] < r["window_end"] <= row["window_end"]]
            assert (row["groups"], row["least"]) == (len(mine), min(mine))


def test_in_sql_and_refused() -> None:
    text = "SELECT g, count(*) AS n FROM s [RANGE 10, SLIDE 10, FILL {}, FORGET 30] GROUP BY g"
    for word, fill in (("0", 0), ("NULL", None), ("LAST", "last")):
        script = Script.from_sql(text.format(word), {"s": (SAMPLE.to_arrow().schema, bounded(0))})
        assert f"fill {word} forget 30" in script.plan.describe()
        assert (
            plan(L.Window(10, 10, fill=fill, forget=30), bounded(0))
            .describe()
            .startswith(script.plan.describe().partition(" group")[0])
        )
    with pytest.raises(QueryError, match="write fill=0, fill=None or fill='last'"):
        plan(L.Window(10, 10, fill="mean"), bounded(0))
    with pytest.raises(QueryError, match="groups are known for one slide at least"):
        plan(L.Window(10, 10, fill=0, forget=5), bounded(0))
    with pytest.raises(QueryError, match="forget=5 says how long groups are known"):
        plan(L.Window(10, 10, forget=5), bounded(0))
    with pytest.raises(QueryError, match="fill=: sessions and windows for each row are never empty"):
        plan(L.Window(gap=10, fill=0), bounded(0))


def test_a_query_that_comes_back_with_another_aggregate_has_no_last_value_of_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin(aggregates: dict[str, str]) -> Script:
            made = arrow_plan(SAMPLE, 10, 10, group_by=("g",), fill="last", **aggregates)
            return Script(made, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink)

        begin({"n": "count(*)"}).page(frame([[1, "a"]])).page(frame([[12, "a"]]))
        script = begin({"n": "count(*)", "most": "max(t)"})
        script.page(frame([[25, "b"]])).page(frame([[45, "b"]]))
    found = [(r["g"], r["window_start"], r["n"], r.get("most")) for r in sink.rows]
    assert found[0] == ("a", 0, 1, None)
    assert sorted(found[1:]) == [
        ("a", 10, 1, None),
        ("a", 20, 1, None),
        ("a", 30, 1, None),
        ("b", 20, 1, 25),
        ("b", 30, 1, 25),
    ]


def test_a_sideline_is_refused() -> None:
    with pytest.raises(QueryError, match="sideline=: windows without rows are filled in the order of time"):
        check_sideline(plan(L.Window(10, 10, fill=0), bounded(0)))
