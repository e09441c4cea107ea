"""Random queries over several streams: unions of unions, of windows, diamonds, nested aggregates over them.

Pages of the streams come in any interleaving, queries come and go, processes end and go on from the journal.
- Each query's results equal a recomputation over the pages that came while it was there.
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

from slackwater.engine.build import source_label
from slackwater.plan import logical as L
from slackwater.testing import arrow_page
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.labels import LEVELS
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, EVENTS, Came, Kind, Seen, World, over
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import Stream, bounded_streams, frame
from tests.kit.streams_of_samples import A, B, C, union, where, windows


def both(came: Came) -> pl.DataFrame:
    return pl.concat([came["a"], came["b"]])


def every(came: Came) -> pl.DataFrame:
    return pl.concat([came["a"], came["b"].filter(pl.sql_expr("h >= 1")), came["c"], came["c"]])


EVERY = union(union(A, where(B, "h >= 1")), union(C, C))
HALVES = union(where(A, "g = 'a'"), where(A, "g <> 'a' OR g IS NULL"), B)
RESULTS = union(windows(A, 7, 3, "g"), windows(where(B, "h >= 1"), 10, 5, "g"), windows(A, 7, 3, "g"))


def results(came: Came) -> list[dict[str, Any]]:
    a = recompute(came["a"], WindowSpec(7, 3), ["g"], COUNT)
    return [*a, *recompute(came["b"].filter(pl.sql_expr("h >= 1")), WindowSpec(10, 5), ["g"], COUNT), *a]


def over_results(came: Came) -> list[dict[str, Any]]:
    rows = [{"t": r["window_end"] - 1, "g": r["g"], "n": r["n"]} for r in results(came)]
    made = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "n": pl.Int64})
    most = {"most": ("max(n)", pl.col("n").max()), "m": ("count(*)", pl.len().cast(pl.Int64))}
    return recompute(made, WindowSpec(6, 6), ["g"], most)


KINDS = [
    over(union(A, B), both, (7, 3), "g"),
    over(union(A, B), both, (12, 8), "g"),
    over(HALVES, both, (10, 10), "g", "h"),
    over(EVERY, every, (10, 5), "g"),
    over(EVERY, every, (5, 1)),
    Kind(windows(RESULTS, 6, 6, "g", most="max(n)", m="count(*)"), over_results, ("window_start", "g")),
    Kind(RESULTS, results, ()),
    over(L.Union((A, B), ordered=True), both, (7, 3), "g"),
    Kind(where(union(A, B), "h >= 1"), lambda came: both(came).filter(pl.sql_expr("h >= 1")).to_dicts(), ()),
]


@settings(max_examples=60)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    first=st.integers(0, 40),
    events=st.lists(EVENTS, max_size=25),
    strategy=st.sampled_from(STRATEGIES),
    heartbeats=st.sampled_from(LEVELS),
)
def test_queries_over_several_streams_see_what_is_theirs(
    streams: dict[str, Stream], first: int, events: list[tuple[str, int]], strategy: Any, heartbeats: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, strategy, KINDS, heartbeats)
        world.play([("add", first), *events])
    world.check()


def test_results_that_follow_from_an_older_page_are_not_lost() -> None:
    """A stream's time may come from a page that was admitted before the query was there."""
    times: dict[str, list[list[int]]] = {"a": [[], [5, 10]], "b": [[5]], "c": [[], [2, 4], [9, 14]]}
    streams = {n: Stream([frame([[t, "x", 1, 0.0, 1] for t in page]) for page in of], 0) for n, of in times.items()}
    for kind in range(len(KINDS)):
        with tempfile.TemporaryDirectory() as folder:
            world = World(folder, streams, None, KINDS)
            world.play([("add", kind), ("b", 0), ("add", kind)])
        world.check()


@pytest.mark.parametrize("heartbeats", LEVELS, ids=lambda level: level.name)
def test_what_waits_at_a_union_outlives_a_restart_at_every_step(heartbeats: Any) -> None:
    """Step by step: after each run the process dies, the next one goes on, and no row is lost or comes twice."""
    times = {"a": (1, 8, 21), "b": (3, 14)}
    pages = {name: [frame([[t, "x", 0]]) for t in of] for name, of in times.items()}
    kind = over(union(where(A, "h = 0"), B), both, (10, 5), "g")
    for steps in (1, 2, 3, 5):
        with tempfile.TemporaryDirectory() as folder:
            streams = {name: Stream(pages.get(name, []), 0) for name in "abc"}
            world = World(folder, streams, None, KINDS, heartbeats)
            world.queries["q"] = Seen(kind, dict(world.came))
            world.build("q")
            for name, number in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)):
                world.executor.admit(source_label(name), arrow_page(pages[name][number], number, 0, "t"))
            world.came = {name: len(pages.get(name, [])) for name in "abc"}
            left = 3  # a process that finds nothing to do, and what it may have left to say
            while left:
                for _ in range(steps):
                    node = world.executor._cycle.next()
                    if hasattr(node, "operator"):
                        world.executor._cycle.run(node)
                        left = 3
                left -= 1
                world.executor.commit()
                world.begin()
            world.executor.drain()
            world.check()


@pytest.mark.parametrize("what", ["prod", "a"])
def test_what_waits_for_a_query_that_is_removed_after_a_restart_holds_up_nobody(what: str) -> None:
    """Its parts stay, for another query shares them; its own window is gone, and with it what waits there."""
    streams = {name: Stream([frame([[t, "x", 1, 0.0, 1]]) for t in (1, 8, 30)], 0) for name in "abc"}
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, KINDS)
        world.do_all([("add", 3), ("add", 4), ("a", 1), (what, 0)])
        while not len(world.executor.graph.nodes["q0/window"].inputs[0]):
            world.executor._run(world.executor._next())
        world.do_all([("restart", 0), ("remove", 0)])
        world.play([])
    world.check()
