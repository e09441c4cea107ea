"""S5 section 3.3, prods through Join: at a prod, a window over a join is the query over the rows that have come.

Random streams in random pages, prods anywhere, restarts in the middle. Final results are those of all rows, however
often the query was asked: early rows do not stay in a join.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.engine.build import add_query
from slackwater.plan import logical as L
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script
from slackwater.windows.spec import WindowSpec
from tests.kit.joins import Lived, Row, alive, join, join_of, last_rows, renamed
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.several_streams import Came
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, finals, frame, timeless
from tests.kit.streams_of_samples import A, B, C, plan, union, windows

HOWS = ("inner", "left", "right", "full", "semi", "anti")
TOP, INNER = (12, 6), (6, 3)
TEXTS = {"n": "count(*)", "whole": "sum(i)", "other": "sum(i2)"}
#: How long rows of both sides live: in ticks, or until a number of others has come.
LIVES: list[tuple[Any, Any]] = [
    (8, 5),
    (1, 20),
    (L.Window(rows=2), 6),
    (6, L.Window(rows=1)),
    (L.Window(rows=3), L.Window(rows=2)),
]


@dataclass(frozen=True)
class Joined:
    """A window over a join, and what it counts of the rows that have come."""

    query: L.Logical
    rows: Callable[[Came], list[Lived]]
    """Of a join, with their times."""
    semi: bool = False
    """Whether its rows have the columns of the left side only."""

    def wanted(self, came: Came) -> list[Row]:
        rows = [{"t": t, "g": row.get("g"), "i": row.get("i"), "x": row.get("i2")} for t, _, row in self.rows(came)]
        table = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64, "x": pl.Int64})
        sums = {
            name: ("", pl.when(pl.col(column).count() > 0).then(pl.col(column).sum()))
            for name, column in (("whole", "i"), *(() if self.semi else (("other", "x"),)))
        }
        return recompute(table, WindowSpec(*TOP), ["g"], {"n": AGGREGATES["n"], **sums})


def raw(rows: L.Logical, suffix: str) -> L.Logical:
    return renamed(rows, suffix, "g", "i")


def counted(rows: L.Logical, suffix: str) -> L.Logical:
    """Results of windows as rows like those of a stream."""
    found = windows(rows, *INNER, "g", n="count(*)")
    return L.Select((found,), ((f"g{suffix}", "g"), (f"i{suffix}", "n")))


def lived(rows: pl.DataFrame, suffix: str, life: Any) -> list[Lived]:
    found = last_rows(rows, life.rows) if isinstance(life, L.Window) and life.rows else alive(rows, life)
    return [(t, end, {f"g{suffix}": row["g"], f"i{suffix}": row["i"]}) for t, end, row in found]


def results(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the inner windows, each at its last tick, in the order in which they are given."""
    found = recompute(rows, WindowSpec(*INNER), ["g"], {"n": AGGREGATES["n"]})
    made = [{"t": r["window_end"] - 1, "g": r["g"], "i": r["n"]} for r in found]
    return pl.DataFrame(made, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64}).sort("t", "g")


def same_g(a: Row, b: Row) -> bool:
    return a["g"] is not None and a["g"] == b["g2"]


def over(pairs: L.Logical, rows: Callable[[Came], list[Lived]], how: str) -> Joined:
    semi = how in ("semi", "anti")
    texts = tuple((name, text) for name, text in TEXTS.items() if not (semi and name == "other"))
    return Joined(L.Aggregate((pairs,), L.Window(*TOP), (("g", "g"),), texts), rows, semi)


def of(left: bool, right: bool, lives: tuple[Any, Any], how: str) -> Joined:
    """A join of streams or, where True, of results."""
    sides = (counted if left else raw)(A, ""), (counted if right else raw)(B, "2")

    def rows(came: Came) -> list[Lived]:
        one, two = (results(came[s]) if early else came[s] for s, early in (("a", left), ("b", right)))
        return join(lived(one, "", lives[0]), lived(two, "2", lives[1]), same_g, how)

    return over(join_of(*sides, lives, "g = g2", how), rows, how)


def ending_together(how: str) -> Joined:
    """Results of windows that end together, without a word about how long they live."""
    pairs = join_of(counted(A, ""), counted(union(B, C), "2"), (None, None), "g = g2", how)

    def rows(came: Came) -> list[Lived]:
        two = results(pl.concat([came["b"], came["c"]]))
        return join(lived(results(came["a"]), "", 1), lived(two, "2", 1), same_g, how)

    return over(pairs, rows, how)


def joined_again(how: str) -> Joined:
    """Early rows of a join go through another one."""
    first = join_of(counted(A, ""), counted(B, "2"), (9, 6), "g = g2", "left")
    pairs = join_of(first, renamed(C, "3", "g", "i"), (None, 7), "g = g3", how)

    def rows(came: Came) -> list[Lived]:
        one = join(lived(results(came["a"]), "", 9), lived(results(came["b"]), "2", 6), same_g, "left")
        return join(one, lived(came["c"], "3", 7), lambda a, b: a["g"] is not None and a["g"] == b["g3"], how)

    return over(pairs, rows, "inner")


def nested(how: str) -> Joined:
    """Results of a join of results."""
    pairs = join_of(counted(A, ""), counted(B, "2"), (8, 5), "g = g2", how)
    below = windows(pairs, *INNER, "g", i="count(*)")

    def rows(came: Came) -> list[Lived]:
        found = join(lived(results(came["a"]), "", 8), lived(results(came["b"]), "2", 5), same_g, how)
        schema = {"t": pl.Int64, "g": pl.String}
        table = pl.DataFrame([{"t": t, "g": row.get("g")} for t, _, row in found], schema=schema)
        return lived(results(table), "", 1)

    return over(L.Select((below,), (("g", "g"), ("i", "i"))), rows, "semi")


def in_order() -> Joined:
    """Rows that wait in an ordered union count for a prod, also under a window of inner results."""
    rows = L.Select((L.Union((A, B, C), ordered=True),), (("g", "g"), ("i", "i")))

    def came(came: Came) -> list[Lived]:
        return lived(pl.concat([came["a"], came["b"], came["c"]]), "", 1)

    return over(rows, came, "semi")


KINDS: dict[str, Joined] = {
    "in order": in_order(),
    **{
        f"{how} {left}-{right} {n}": of(left, right, lives, how)
        for how in HOWS
        for n, lives in enumerate(LIVES)
        for left in (False, True)
        for right in (False, True)
    },
    **{f"{how} together": ending_together(how) for how in HOWS},
    **{f"{how} again": joined_again(how) for how in ("inner", "left")},
    **{f"{how} nested": nested(how) for how in HOWS},
}
EVENTS = st.one_of(
    st.tuples(st.sampled_from("abc"), st.just(0)),
    st.tuples(st.just("prod"), st.none() | st.integers(-60, 100)),
    st.tuples(st.just("restart"), st.just(0)),
)


def check(kind: Joined, streams: dict[str, Stream], events: list[tuple[str, Any]], commit_every: int) -> int:
    """Play the events, then what is left of the streams. Gives how many early rows there were."""
    sink, came, asked = ListSink(), {name: SAMPLE.clear() for name in "abc"}, 0
    made = plan(kind.query, {name: bounded(stream.slack) for name, stream in streams.items()})
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            return Script(made, journal, sink, commit_every=commit_every)

        script = begin()
        left = {name: list(stream.pages) for name, stream in streams.items() if name in script._streams}
        rest = [(name, 0) for name, pages in left.items() for _ in pages]
        for what, until in [*events, *rest, ("prod", None)]:
            if what == "restart":
                script = begin()
            elif what == "prod":
                before = len(sink.rows)
                script.prod(until)
                early = sink.rows[before:]
                asked += len(early)
                closed = {(row["window_start"], row["g"]) for row in finals(sink.rows)}
                wanted = [
                    row
                    for row in kind.wanted(came)
                    if (row["window_start"], row["g"]) not in closed
                    and (until is None or row["window_end"] <= until)
                ]
                assert all(row["kind"] == "early" for row in early)
                got = [{**row, **{n: row[f"{n}_seen"] for n in TEXTS if n in row}} for row in early]
                assert_same_rows(got, wanted, ["window_start", "g"])
            elif left.get(what):
                page = left[what].pop(0)
                came[what] = pl.concat([came[what], page])
                script.page(page, stream=what)
        script.drain()
    assert_same_rows(finals(sink.rows), kind.wanted(came), ["window_start", "g"])
    return asked


@given(
    kind=st.sampled_from(sorted(KINDS)),
    streams=st.fixed_dictionaries({name: bounded_streams(most=12) for name in "abc"}),
    events=st.lists(EVENTS, max_size=25),
    commit_every=st.sampled_from([1, 2, 3, 64]),
)
def test_early_answers_over_joins_equal_a_recomputation(
    kind: str, streams: dict[str, Stream], events: list[tuple[str, Any]], commit_every: int
) -> None:
    check(KINDS[kind], streams, events, commit_every)


def busy(seed: int) -> Stream:
    """Many rows for a few groups, up to 9 ticks out of order."""
    rows = [[10 * n // 4 - 7 * (seed + n) % 10, "abc"[(n * seed) % 3], 0, 0.0, n] for n in range(24)]
    return Stream([frame(rows[n : n + 4]) for n in range(0, 24, 4)], 12)


OFTEN = ("in order", "together", "again", "nested", "True-True 0", "False-False 3", "True-True 4")


@pytest.mark.parametrize("kind", [name for name in KINDS if name.endswith(OFTEN)])
def test_each_kind_of_join_is_right_at_every_prod(kind: str) -> None:
    streams = {"a": busy(1), "b": busy(2), "c": busy(5)}
    order: list[tuple[str, Any]] = [(name, 0) for _ in range(6) for name in "abc"]
    prods: list[tuple[str, Any]] = [("prod", None), ("prod", 30), ("restart", 0), ("prod", 18)]
    events = [event for n, page in enumerate(order) for event in (page, prods[n % len(prods)])]
    assert check(KINDS[kind], streams, events, 2) > 0


@pytest.mark.parametrize("how", HOWS)
def test_queries_that_share_a_join_are_asked_apart(how: str) -> None:
    """The early rows of a join go to the query that was asked: the other one waits for nothing."""
    query, policies = KINDS[f"{how} False-False 3"].query, {name: bounded(50) for name in "ab"}
    script, other = Script(plan(query, policies)), ListSink()
    add_query(script.executor, "r", plan(query, policies), other)
    for t in (1, 2, 9):
        left = frame([[t, "a", 0, 0.0, t], [t, "b", 0, 0.0, t]])
        script.page(left, stream="a").page(left[:1], stream="b").prod()
    assert script.results and {row["kind"] for row in script.results} == {"early"} and not other.rows
    script.drain()
    assert other.rows and finals(script.results) == finals(other.rows) == timeless(other.rows)
