"""Random window joins of all kinds: of disordered streams, of joins, with itself, of results, and under windows.

Pages of the streams come in any interleaving, queries come and go, processes end and go on from the journal.
- Each query's results equal those of the definition, over the rows that came while it was there.
- The heartbeat of no arc is violated, and none goes back.
- That holds at each level of heartbeats (S1 section 7), and nothing waits for ever.
"""

from __future__ import annotations

import tempfile
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.plan import logical as L
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.joins import Lived, Row, alive, join, join_of, join_within, last_rows, renamed, rows_of
from tests.kit.labels import LEVELS
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, EVENTS, Came, Kind, World
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import Stream, bounded_streams, frame
from tests.kit.streams_of_samples import A, B, C, union, where, windows

KINDS_OF_JOINS = ("inner", "left", "right", "full", "semi", "anti")
LEFT, RIGHT = ("t", "g", "i"), ("t2", "g2", "i2")


def left(rows: L.Logical = A) -> L.Logical:
    return renamed(rows, "", "t", "g", "i")


def right(rows: L.Logical = B) -> L.Logical:
    return renamed(rows, "2", "t", "g", "i")


def of(rows: pl.DataFrame, suffix: str, window: int | L.Window) -> list[Lived]:
    if isinstance(window, L.Window):
        assert window.rows is not None
        lived = last_rows(rows, window.rows)
    else:
        lived = alive(rows, window)
    return [(t, e, {f"{c}{suffix}": row[c] for c in LEFT}) for t, e, row in lived]


def same_g(a: Row, b: Row) -> bool:
    return a["g"] is not None and a["g"] == b["g2"]


def less(a: Row, b: Row) -> bool:
    return None not in (a["i"], b["i2"]) and same_g(a, b) and a["i"] < b["i2"]


def kind(how: str, ranges: tuple[int | L.Window, int | L.Window]) -> Kind:
    query = join_of(left(), right(), ranges, "g = g2 AND i < i2", how)
    columns = LEFT if how in ("semi", "anti") else (*LEFT, *RIGHT)

    def wanted(came: Came) -> list[Row]:
        sides = of(came["a"], "", ranges[0]), of(came["b"], "2", ranges[1])
        return rows_of(join(*sides, less, how), *columns)

    return Kind(query, wanted, ())


def near(how: str, within: tuple[int, int]) -> Kind:
    """Rows that are at most this far apart."""
    query = L.Join((left(), right()), (None, None), "g = g2 AND i < i2", how, within)
    columns = LEFT if how in ("semi", "anti") else (*LEFT, *RIGHT)

    def wanted(came: Came) -> list[Row]:
        found = join_within(of(came["a"], "", 1), of(came["b"], "2", 1), less, how, within)
        return [{name: row.get(name) for name in columns} for row in found]

    return Kind(query, wanted, ())


def some(whole: Kind, *columns: str) -> Kind:
    """Some columns of a join: the others are not kept, unless another query asks for them."""
    query = L.Select((whole.query,), tuple((column, column) for column in columns))

    def wanted(came: Came) -> list[Row]:
        return [{column: row[column] for column in columns} for row in whole.wanted(came)]

    return Kind(query, wanted, ())


def counted(how: str) -> Kind:
    """A window over a join goes by the time of its rows."""
    query = windows(join_of(left(), right(), (8, 5), "g = g2", how), 6, 3, "g")

    def wanted(came: Came) -> list[Row]:
        lived = join(of(came["a"], "", 8), of(came["b"], "2", 5), same_g, how)
        rows = [{"t": t, "g": row.get("g"), "i": row.get("i")} for t, _, row in lived]
        made = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64})
        return recompute(made, WindowSpec(6, 3), ["g"], COUNT)

    return Kind(query, wanted, ("window_start", "g"))


def three() -> Kind:
    """A row of the third stream finds a pair for as long as both of its rows are alive."""
    pairs = join_of(left(), right(), (9, 6), "g = g2")
    query = join_of(pairs, renamed(C, "3", "t", "g", "i"), (None, 12), "g = g3 AND i <> i3", "left")

    def meets(a: Row, b: Row) -> bool:
        return None not in (a["i"], b["i3"]) and a["g"] == b["g3"] and a["i"] != b["i3"]

    def wanted(came: Came) -> list[Row]:
        pairs = join(of(came["a"], "", 9), of(came["b"], "2", 6), same_g, "inner")
        return rows_of(join(pairs, of(came["c"], "3", 12), meets, "left"), *LEFT, *RIGHT, "t3", "g3", "i3")

    return Kind(query, wanted, ())


def with_itself() -> Kind:
    query = join_of(left(where(A, "i > 0")), right(A), (7, 7), "g = g2 AND i < i2")

    def wanted(came: Came) -> list[Row]:
        rows = of(came["a"].filter(pl.col("i") > 0), "", 7)
        return rows_of(join(rows, of(came["a"], "2", 7), less, "inner"), *LEFT, *RIGHT)

    return Kind(query, wanted, ())


def of_results() -> Kind:
    """Results of windows that end together meet without a word about time."""
    one, two = windows(A, 6, 3, "g", n="count(*)"), windows(union(B, C), 6, 3, "g", m="count(*)")
    query = join_of(
        L.Select((one,), (("g", "g"), ("e", "window_end"), ("n", "n"))),
        L.Select((two,), (("g2", "g"), ("e2", "window_end"), ("m", "m"))),
        (None, None),
        "g = g2",
        "full",
    )

    def results(rows: pl.DataFrame, *names: str) -> list[Lived]:
        found = recompute(rows, WindowSpec(6, 3), ["g"], {"n": COUNT["n"]})
        values = [(r["window_end"], (r["g"], r["window_end"], r["n"])) for r in found]
        return [(e, e + 1, dict(zip(names, of_row, strict=True))) for e, of_row in values]

    def wanted(came: Came) -> list[Row]:
        ends = results(came["a"], "g", "e", "n"), results(pl.concat([came["b"], came["c"]]), "g2", "e2", "m")
        return rows_of(join(*ends, same_g, "full"), "g", "e", "n", "g2", "e2", "m")

    return Kind(query, wanted, ())


KINDS = [
    *(kind(how, (8, 5)) for how in KINDS_OF_JOINS),
    *(kind(how, (1, 20)) for how in KINDS_OF_JOINS),
    *(kind(how, (L.Window(rows=3), 6)) for how in KINDS_OF_JOINS),
    *(kind(how, (5, L.Window(rows=1))) for how in KINDS_OF_JOINS),
    *(kind(how, (L.Window(rows=2), L.Window(rows=4))) for how in KINDS_OF_JOINS),
    *(counted(how) for how in ("inner", "left", "full", "semi")),
    some(kind("full", (8, 5)), "t"),
    some(kind("full", (8, 5)), "i2", "g"),
    some(kind("full", (L.Window(rows=3), 6)), "g2"),
    some(kind("full", (L.Window(rows=3), 6)), "t", "t2"),
    three(),
    some(three(), "i3"),
    with_itself(),
    of_results(),
]
FIRST = KINDS.index(next(k for k in KINDS if isinstance(k.query, L.Select)))


NEAR = [near(how, within) for within in ((0, 0), (2, 7), (6, 0)) for how in KINDS_OF_JOINS]


@settings(max_examples=60)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    which=st.lists(st.integers(0, len(NEAR) - 1), min_size=1, max_size=4),
    events=st.lists(EVENTS, max_size=25),
)
def test_joins_within_a_distance_equal_their_definition(
    streams: dict[str, Stream], which: list[int], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, None, NEAR)
        world.play([*(("add", n) for n in which), *events])
    world.check()


@pytest.mark.parametrize("how", KINDS_OF_JOINS)
def test_both_ends_of_a_distance_are_included(how: str) -> None:
    """A row at 100; partners two before, seven after, and one tick further on each side."""
    streams = {
        "a": Stream([frame([[100, "x", 0, 0.0, 1]])], 0),
        "b": Stream([frame([[t, "x", 0, 0.0, t]]) for t in (97, 98, 107, 108)], 0),
        "c": Stream([], 0),
    }
    kind = near(how, (2, 7))
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, [kind])
        world.play([("add", 0)])
    world.check()
    rows = world.queries["q0"].sink.rows
    pairs = {row["t2"] for row in rows if row["t"] is not None} if how not in ("semi", "anti") else None
    assert pairs in (None, {98, 107})
    assert len(rows) == {"inner": 2, "left": 2, "right": 4, "full": 4, "semi": 1, "anti": 0}[how]


@settings(max_examples=100)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    first=st.integers(0, 80),
    second=st.none() | st.integers(0, 3),
    events=st.lists(EVENTS, max_size=25),
    strategy=st.sampled_from(STRATEGIES),
    heartbeats=st.sampled_from(LEVELS),
)
def test_joins_of_random_streams_equal_their_definition(
    streams: dict[str, Stream],
    first: int,
    second: int | None,
    events: list[tuple[str, int]],
    strategy: Any,
    heartbeats: Any,
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, strategy, KINDS, heartbeats)
        beside = [] if second is None else [("add", first + second)]
        world.play([("add", first), *beside, *events])
    world.check()


def test_equal_joins_of_queries_that_begin_together_are_one() -> None:
    """A query that comes later has a join of its own: it must not meet rows from before its time."""
    streams = {name: Stream([frame([[t, "a", 1 + (name == "b")]]) for t in (1, 4, 7)], 0) for name in "abc"}
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, KINDS)
        world.do_all([("add", 1), ("add", 1), ("add", 7), ("a", 1), ("b", 1), ("add", 1)])
        assert joins_of(world) == {"q0/join2": ["q0", "q1"], "q2/join2": ["q2"], "q3/join2": ["q3"]}
        world.do_all([("remove", 0), ("restart", 0)])
        assert joins_of(world) == {"q0/join2": ["q1"], "q2/join2": ["q2"], "q3/join2": ["q3"]}
        world.play([])
    world.check()
    assert len(world.queries["q1"].sink.rows) > len(world.queries["q3"].sink.rows) > 0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_join_keeps_the_columns_that_its_queries_ask_for(restarts: bool) -> None:
    streams = {name: Stream([frame([[t, "a", 1 + (name == "b")]]) for t in (1, 4, 30)], 0) for name in "abc"}
    again = [("restart", 0)] if restarts else []
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, KINDS)
        world.do_all([("add", FIRST + 1), *again])
        assert kept_of(world) == [["g", "i"], ["g2", "i2"]], "the condition needs g and i"
        world.do_all([("add", FIRST), *again, ("a", 1), ("b", 1), *again])
        assert kept_of(world) == [["t", "g", "i"], ["g2", "i2"]]
        world.do_all([("remove", 1), *again, ("a", 1)])
        assert kept_of(world) == ([["g", "i"], ["g2", "i2"]] if restarts else [["t", "g", "i"], ["g2", "i2"]])
        world.play([])
    world.check()


def kept_of(world: World) -> list[list[str]]:
    (label,) = joins_of(world)
    operator: Any = world.executor.graph.nodes[label].operator
    return [schema.names for schema in operator._node.kept]


def joins_of(world: World) -> dict[str, list[str]]:
    return {node.label: sorted(node.queries) for node in world.executor.graph if "/join" in node.label}
