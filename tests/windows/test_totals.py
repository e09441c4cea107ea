"""Totals without a window against a recomputation over all rows that have come.

It catches groups that are answered twice or not at all, totals that lose or repeat rows over a restart, and groups
that are forgotten too early or never.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.query_state import query_state
from slackwater.errors import QueryError
from slackwater.estimates.early import early
from slackwater.operators.prod_request import check_settings, read_prod
from slackwater.operators.total_store import total_rows
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.plan.request import ProdRequest
from slackwater.plan.result_keys import result_keys
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.sql.write import to_sql
from slackwater.testing import ListSink, Script
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.oracle import AGGREGATES
from tests.kit.sql import SCOPE, logical
from tests.kit.sql import plan as sql_plan
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame, same, unbounded_streams

NAMES = ("n", "nx", "whole", "mean", "high", "low_s", "ends", "exact_i", "var", "least_at")
NEVER = -(2**63)
Row = dict[str, Any]


def plan(
    groups: tuple[str, ...] = ("g",),
    forget: int | None = None,
    policy: Disorder | None = None,
    source: str | None = None,
    sample: pl.DataFrame = SAMPLE,
) -> PlanNode:
    relation = SampleRelation(sample)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    told = getattr(policy, "column", None)
    node = StreamNode(
        "s", columns, "t", "t", TimeDomain.SEQUENCE, policy or bounded(0), source, told, relation.schema
    )
    aggregates = tuple((name, AGGREGATES[name][0]) for name in NAMES)
    window = L.Window(L.UNBOUNDED, forget=forget)
    query = L.Aggregate((L.Scan("s"),), window, tuple((None, g) for g in groups), aggregates)
    return analyse(query, SampleTypes({"s": (node, relation)}))


class Oracle:
    """All rows of each group, and the groups that have changed since the last answer."""

    def __init__(self, groups: tuple[str, ...], forget: int | None = None) -> None:
        self.groups, self.forget = groups, forget
        self.rows: dict[tuple[Any, ...], list[Row]] = {}
        self.changed = set[tuple[Any, ...]]()

    def page(self, page: pl.DataFrame) -> None:
        for row in page.drop_nulls("t").to_dicts():
            key = tuple(row[g] for g in self.groups)
            self.rows.setdefault(key, []).append(row)
            self.changed.add(key)

    def answer(self, beat: Callable[[tuple[Any, ...]], int]) -> list[Row]:
        found = [self.total(key) for key in self.changed]
        self.changed = set()
        for key in list(self.rows):
            if self.forget is not None and max(r["t"] for r in self.rows[key]) + self.forget <= beat(key):
                del self.rows[key]
        return found

    def total(self, key: tuple[Any, ...]) -> Row:
        rows = pl.DataFrame(self.rows[key], schema=SAMPLE.schema, infer_schema_length=None)
        made = {}
        for name in NAMES:
            means = AGGREGATES[name][1]
            if isinstance(means, pl.Expr):
                made[name] = rows.select(means.alias("v"))["v"].to_list()[0]
            else:
                made[name] = means(rows["x"].drop_nulls().to_list())
        return {**dict(zip(self.groups, key, strict=True)), **made}


def check(rows: list[Row], wanted: list[Row], groups: tuple[str, ...]) -> None:
    def by(some: list[Row]) -> dict[str, Row]:
        assert len({str([row[g] for g in groups]) for row in some}) == len(some), "a group is answered twice"
        return {str([row[g] for g in groups]): row for row in some}

    got, other = by(rows), by(wanted)
    assert got.keys() == other.keys()
    for key, row in got.items():
        assert (row["kind"], row["window_start"], row["window_end"], row["completeness"]) == ("early", *[None] * 3)
        for name in NAMES:
            assert same(row[name], other[key][name]), (key, name, row[name], other[key][name])


@settings(max_examples=50)
@given(
    stream=st.one_of(bounded_streams(), unbounded_streams()),
    groups=st.sampled_from([("g",), ("g", "h"), ()]),
    forget=st.sampled_from([None, 3, 20]),
    prods=st.sets(st.integers(0, 10)),
    stops=st.sets(st.integers(0, 10)),
)
def test_totals_are_those_of_a_recomputation(
    stream: Stream, groups: tuple[str, ...], forget: int | None, prods: set[int], stops: set[int]
) -> None:
    forget = forget if groups else None
    with tempfile.TemporaryDirectory() as folder:
        sink, looked = ListSink(), 0

        def begin() -> Script:
            made = plan(groups, forget, bounded(stream.slack))
            return Script(made, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink)

        script, oracle = begin(), Oracle(groups, forget)
        for number, page in enumerate(stream.pages):
            script.page(page)
            oracle.page(page)
            if number in prods:
                beat = script.metrics()["source:s"]["heartbeat"]
                script.prod()
                wanted = oracle.answer(lambda _, beat=beat: NEVER if beat is None else beat)
                check(sink.rows[looked:], wanted, groups)
                looked = len(sink.rows)
            if number in stops:
                script = begin()
                assert len(sink.rows) == looked
        script.drain()
        check(sink.rows[looked:], oracle.answer(lambda _: NEVER), groups)


@pytest.mark.parametrize("runs", [1, 2, 3, 64])
@pytest.mark.parametrize("restart", [False, True])
def test_a_commit_between_two_runs_delays_no_forgetting(runs: int, restart: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            return Script(plan(forget=20), journal, sink, commit_every=runs)

        sink = ListSink()
        script = begin().page(frame([[60, "a", 1, 1.0, 1, "p"]])).page(frame([[115, "b", 1, 1.0, 1, "p"]]))
        script = begin() if restart else script
        script.prod()
        script.page(frame([[116, "a", 1, 1.0, 1, "p"]])).prod()
    assert [(row["g"], row["n"]) for row in sink.rows] == [("a", 1), ("b", 1), ("a", 1)]


@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["a", "b"]), st.booleans()), max_size=25),
    cuts=st.sets(st.integers(0, 25)),
    prods=st.sets(st.integers(0, 10)),
    stops=st.sets(st.integers(0, 10)),
)
@example(
    steps=[(0, "a", False), (8, "a", True), (0, "b", False), (0, "a", False)],
    cuts={1, 2, 3},
    prods={0, 1, 2, 3},
    stops={2},
)
def test_a_source_is_forgotten_by_its_own_heartbeat(
    steps: list[tuple[int, str, bool]], cuts: set[int], prods: set[int], stops: set[int]
) -> None:
    at, rows = {"a": 0, "b": 3}, []
    for step, g, tells in steps:
        at[g] += step + 1
        rows.append((at[g], g, at[g] if tells else None))
    bounds = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    sample = SAMPLE.with_columns(upto=pl.lit(0, pl.Int64))
    made = plan(("g",), 4, punctuated("upto"), "g", sample)
    with tempfile.TemporaryDirectory() as folder:
        sink, looked = ListSink(), 0
        script, oracle = Script(made, folder, sink), Oracle(("g",), 4)
        for number, (low, high) in enumerate(pairwise(bounds)):
            page = frame([[t, g, n, 0.5, n] for n, (t, g, _) in enumerate(rows[low:high])])
            script.page(page.with_columns(upto=pl.Series([u for *_, u in rows[low:high]], dtype=pl.Int64)))
            oracle.page(page)
            if number in prods:
                told = {g: max((u for _, k, u in rows[:high] if k == g and u), default=NEVER) for g in ("a", "b")}
                script.prod()
                check(sink.rows[looked:], oracle.answer(lambda key, told=told: told[key[0]]), ("g",))
                looked = len(sink.rows)
            if number in stops:
                script = Script(made, folder, sink)
        script.drain()
        check(sink.rows[looked:], oracle.answer(lambda _: NEVER), ("g",))


def test_a_prod_with_a_condition_looks_groups_up() -> None:
    script = Script(plan()).page(frame([[1, "a"], [2, "b"]])).prod()
    assert len(script.new_rows()) == 2
    script.page(frame([[3, "a"]]))
    for _ in range(2):
        assert [(r["g"], r["n"]) for r in script.prod(where="g = 'b'").new_rows()] == [("b", 1)]
    assert [(r["g"], r["n"]) for r in script.prod().new_rows()] == [("a", 2)]
    assert script.prod().new_rows() == []


def test_the_clock_asks_and_the_end_does() -> None:
    text = "SELECT g, count(*) + 1 AS n FROM s GROUP BY g HAVING count(*) > 1 EMIT EVERY 10 SECONDS"
    script = Script.from_sql(text, {"s": ("t BIGINT, g STRING", bounded(0))})
    script.page([{"t": 1, "g": "a"}, {"t": 2, "g": "a"}, {"t": 1, "g": "b"}])
    assert script.advance(9_000_000).new_rows() == []
    assert [(r["g"], r["n"], r["kind"]) for r in script.advance(1_000_000).new_rows()] == [("a", 3, "early")]
    script.page([{"t": 0, "g": "a"}])
    assert script.advance(9_000_000).new_rows() == []
    assert [(r["g"], r["n"]) for r in script.advance(1_000_000).new_rows()] == [("a", 4)]
    script.page([{"t": 0, "g": "b"}])
    assert [(r["g"], r["n"]) for r in script.drain().new_rows()] == [("b", 3)]


def test_a_drain_for_now_answers_and_totals_go_on() -> None:
    script = Script(plan()).page(frame([[1, "a"]]))
    script.executor.drain(for_good=False)
    script.page(frame([[0, "a"], [2, "b"]]))
    script.executor.drain(for_good=False)
    assert [(r["g"], r["n"]) for r in script.results] == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize(("how", "lone"), [("JOIN", False), ("LEFT JOIN", True), ("FULL JOIN", True)])
def test_totals_over_a_join_count_each_row_once(how: str, lone: bool) -> None:
    streams = {"a": ("t BIGINT, k STRING", bounded(0)), "b": ("t BIGINT, k STRING, v INT", bounded(0))}
    text = (
        f"SELECT x.k, count(*) AS n, count(y.v) AS m FROM a [RANGE 10] x {how} b [RANGE 10] y ON x.k = y.k "
        "WINDOW [RANGE UNBOUNDED] GROUP BY x.k"
    )
    script = Script.from_sql(text, streams)

    def said() -> set[tuple[Any, ...]]:
        return {(row["k"], row["n"], row["m"]) for row in script.new_rows()}

    script.page([{"t": 1, "k": "p"}, {"t": 2, "k": "q"}], stream="a").prod()
    assert said() == set()
    script.page([{"t": 3, "k": "p", "v": 1}], stream="b").prod()
    assert said() == {("p", 1, 1)}
    script.prod()
    script.page([{"t": 30, "k": "r"}], stream="a")
    script.page([{"t": 30, "k": "s", "v": 1}], stream="b").prod()
    assert said() == ({("q", 1, 0)} if lone else set())
    script.drain()
    assert said() == ({("r", 1, 0)} if lone else set()) | ({(None, 1, 1)} if how == "FULL JOIN" else set())


def test_the_state_is_the_totals_of_all_groups() -> None:
    script = Script(plan())
    assert query_state(script.executor.graph, "q").num_rows == 0
    script.page(frame([[1, "a"], [2, "b"]])).prod().page(frame([[3, "a"]]))
    rows = query_state(script.executor.graph, "q").to_pylist()
    assert [(row["g"], row["n"], row["window_end"], row["heartbeat"]) for row in rows] == [
        ("a", 2, None, 2),
        ("b", 1, None, 2),
    ]


def test_totals_over_a_union() -> None:
    text = "SELECT k, count(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM b) [RANGE UNBOUNDED] GROUP BY k"
    script = Script.from_sql(text, {name: ("t BIGINT, k STRING", bounded(0)) for name in "ab"})
    script.page([{"t": 1, "k": "p"}], stream="a").page([{"t": 5, "k": "p"}], stream="b").prod()
    assert [(row["k"], row["n"]) for row in script.drain().results] == [("p", 2)]


def test_an_answer_has_no_window_of_any_kind_of_time() -> None:
    for kind in (pa.int64(), pa.timestamp("us", tz="UTC"), pa.decimal128(19, 2)):
        bounds = [pa.field("window_start", kind), pa.field("window_end", kind)]
        schema = pa.schema([*bounds, ("kind", pa.string()), ("completeness", pa.float64())])
        rows = total_rows(pl.DataFrame({"n": [1, 2]}), schema, 5)
        assert rows.schema == schema
        assert rows.to_pylist() == [dict(window_start=None, window_end=None, kind="early", completeness=None)] * 2


def test_python_and_sql_are_the_same_query() -> None:
    bare = "SELECT carrier, count(*) AS n FROM trips GROUP BY carrier EMIT EVERY 10 SECONDS"
    written = "SELECT carrier, count(*) AS n FROM trips [RANGE UNBOUNDED{}] GROUP BY carrier"
    query = L.Aggregate((L.Scan("trips"),), L.Window(L.UNBOUNDED), ((None, "carrier"),), (("n", "count(*)"),))
    assert logical(bare) == logical(written.format("")) == query
    assert to_sql(query, SCOPE) == written.format("")
    assert to_sql(logical(written.format(", FORGET 1 DAY")), SCOPE) == written.format(", FORGET 1 day")
    made = sql_plan(written.format(", FORGET 1 DAY"))
    assert made.describe().startswith("window range unbounded forget 1 day group by carrier")
    assert result_keys(made) == ("carrier",)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("SELECT count(*) AS n FROM trips", "or for totals without one EMIT EVERY 10 SECONDS"),
        ("SELECT count(*) AS n FROM trips [RANGE UNBOUNDED, FORGET 1 DAY]", "one total of all rows has no groups"),
        (
            "SELECT carrier, count(*) AS n FROM trips [RANGE UNBOUNDED, SLIDE 1 DAY] GROUP BY 1",
            "have no window; keep",
        ),
        (
            "SELECT carrier, count(*) AS n FROM trips [RANGE UNBOUNDED, FORGET 0 DAYS] GROUP BY 1",
            "must be positive",
        ),
        (
            "SELECT carrier, count(*) AS n FROM trips [RANGE UNBOUNDED] GROUP BY 1 ORDER BY n",
            "only the groups that",
        ),
        (
            "SELECT max(n) AS m FROM (SELECT carrier, count(*) AS n FROM trips [RANGE UNBOUNDED] GROUP BY 1) "
            "[RANGE 1 DAY, SLIDE 1 DAY]",
            "answers that replace one another",
        ),
        (
            "SELECT count(*) AS n FROM (SELECT avg(delay) FROM trips [RANGE 1 DAY, SLIDE 1 DAY]) [RANGE UNBOUNDED]",
            "totals are of the rows of streams",
        ),
        (
            "SELECT a.dest FROM trips [RANGE UNBOUNDED] a JOIN gates [RANGE 1 DAY] b USING (carrier)",
            "would keep rows for good",
        ),
        ("SELECT * FROM trips [RANGE UNBOUNDED]", "name the groups and the aggregates"),
    ],
)
def test_refused(text: str, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        sql_plan(text)


def test_settings_that_make_no_sense_are_refused() -> None:
    made = plan()
    for wanted in (None, early(at=0.5)):
        with pytest.raises(QueryError, match=r"write how often, as in start\(early=sw.early\(every="):
            check_settings(made, wanted, None)
    check_settings(made, early(every="1 second"), None)
    with pytest.raises(QueryError, match="a total without a window has no end; write when to ask"):
        check_settings(made, early(at=0.5, every="1 second"), None)
    with pytest.raises(QueryError, match="a total without a window has no end, so no page can wait"):
        check_settings(made, early(every="1 second"), sw.sideline(ratio=4))
    with pytest.raises(QueryError, match="no row is too late"):
        check_settings(made, early(every="1 second"), None, late=object())
    for asked in (ProdRequest(until=5), ProdRequest(at=5)):
        with pytest.raises(QueryError, match="totals without a window have no time"):
            read_prod(made, asked, ArrowBackend())
    assert read_prod(made, ProdRequest(where="g = 'a'"), ArrowBackend()).where == "g = 'a'"
