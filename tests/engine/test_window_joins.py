"""Joins of rows of the same window: random streams, windows and restarts, against every pair of every window."""

from __future__ import annotations

import tempfile
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import describe
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.engine.test_random_joins import KINDS_OF_JOINS, LEFT, RIGHT, left, of, right, same_g
from tests.kit.arcs import watched_arcs
from tests.kit.joins import Lived, Row, join, renamed, rows_of
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, EVENTS, Came, Kind, World
from tests.kit.streams import Stream, bounded_streams, frame
from tests.kit.streams_of_samples import A, B, C, plan, windows

BOUNDS = ("window_start", "window_end")


def spec_of(window: L.Window) -> WindowSpec:
    numbers: list[Any] = [window.range, window.slide, window.offset or 0]
    return CumulateSpec(numbers[0], window.step, numbers[2]) if window.step else WindowSpec(*numbers)  # type: ignore[arg-type]


def in_windows(rows: list[Lived], window: L.Window) -> list[Lived]:
    """Each row once in each of its windows, found by trying all windows."""
    spec, made = spec_of(window), list[Lived]()
    for t, _, row in rows:
        for n in range((t - spec.range) // spec.slide - 12, (t + spec.range) // spec.slide + 2):
            start, end = spec.bounds(n)
            if start <= t < end:
                made.append((end - 1, end, {**row, "window_start": start, "window_end": end}))
    return made


def meets(a: Row, b: Row) -> bool:
    return same_g(a, b) and (a["window_start"], a["window_end"]) == (b["window_start"], b["window_end"])


def kind(how: str, window: L.Window) -> Kind:
    query = L.Join((left(), right()), (window, window), "g = g2", how)
    columns = (*LEFT, *BOUNDS) if how in ("semi", "anti") else (*LEFT, *BOUNDS, *RIGHT)

    def wanted(came: Came) -> list[Row]:
        sides = in_windows(of(came["a"], "", 1), window), in_windows(of(came["b"], "2", 1), window)
        return rows_of(join(*sides, meets, how), *columns)

    return Kind(query, wanted, ())


def counted(window: L.Window) -> Kind:
    """A window over the pairs goes by the last tick of theirs."""
    query = windows(L.Join((left(), right()), (window, window), "g = g2"), 12, 12, "g")

    def wanted(came: Came) -> list[Row]:
        pairs = join(
            in_windows(of(came["a"], "", 1), window), in_windows(of(came["b"], "2", 1), window), meets, "inner"
        )
        rows = [{"t": t, "g": row["g"], "i": row["i"]} for t, _, row in pairs]
        made = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64})
        return recompute(made, WindowSpec(12, 12), ["g"], COUNT)

    return Kind(query, wanted, ("window_start", "g"))


def three(window: L.Window) -> Kind:
    pairs = L.Join((left(), right()), (window, window), "g = g2")
    query = L.Join((pairs, renamed(C, "3", "t", "g", "i")), (None, window), "g = g3", "left")

    def wanted(came: Came) -> list[Row]:
        a, b, c = (in_windows(of(came[n], s, 1), window) for n, s in (("a", ""), ("b", "2"), ("c", "3")))
        third = lambda x, y: same_g(x, {"g2": y["g3"]}) and all(x[n] == y[n] for n in BOUNDS)  # noqa: E731
        return rows_of(join(join(a, b, meets, "inner"), c, third, "left"), *LEFT, *BOUNDS, *RIGHT, "t3", "g3", "i3")

    return Kind(query, wanted, ())


def with_results(window: L.Window) -> Kind:
    """Rows beside what their own window gives."""
    counts = L.Select((windows(A, window.range, window.slide, "g", n="count(*)"),), ((None, "*"), ("g2", "g")))
    counts = L.Select((counts,), tuple((n, n) for n in ("g2", "n", *BOUNDS)))
    query = L.Join((left(), counts), (window, None), "g <=> g2")

    def wanted(came: Came) -> list[Row]:
        rows = in_windows(of(came["a"], "", 1), window)
        same = [[r for _, _, r in rows if all(r[n] == row[n] for n in (*BOUNDS, "g"))] for _, _, row in rows]
        return [
            {**{n: row[n] for n in (*LEFT, *BOUNDS)}, "g2": row["g"], "n": len(others)}
            for (_, _, row), others in zip(rows, same, strict=True)
        ]

    return Kind(query, wanted, ())


LENGTHS = st.one_of(
    st.builds(lambda n, o: L.Window(n, n, o), st.integers(1, 9), st.integers(0, 4)),
    st.builds(lambda n, s: L.Window(n, s), st.integers(2, 9), st.integers(1, 12)),
    st.builds(lambda n, s: L.Window(n * s, None, step=s), st.integers(1, 4), st.integers(1, 4)),
)
PLAIN = LENGTHS.filter(lambda window: window.step is None and window.slide <= window.range)
KINDS = st.one_of(
    st.builds(kind, st.sampled_from(KINDS_OF_JOINS), LENGTHS),
    st.builds(counted, LENGTHS),
    st.builds(three, LENGTHS),
    st.builds(with_results, PLAIN.filter(lambda window: not window.offset)),
)


@settings(max_examples=120)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    kinds=st.lists(KINDS, min_size=1, max_size=3),
    events=st.lists(EVENTS, max_size=25),
)
def test_pairs_are_those_of_the_same_window(
    streams: dict[str, Stream], kinds: list[Kind], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, None, kinds)
        world.play([*(("add", n) for n in range(len(kinds))), *events])
    world.check()


def test_a_late_row_meets_the_rows_of_its_window_until_it_closes() -> None:
    window = L.Window(10, 10)
    streams = {
        "a": Stream([frame([[t, "x", t, 0.0, t]]) for t in (3, 8, 4, 11, 5)], 0),
        "b": Stream([frame([[t, "x", t, 0.0, t]]) for t in (7, 9, 12)], 0),
        "c": Stream([], 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, streams, None, [kind("inner", window)])
        world.do_all([("add", 0), *((name, 1) for name in "ababaaba")])
        (late,) = [m["late_rows"] for label, m in world.executor.metrics().items() if "/join" in label]
        assert late == 1, "5 came when its window was over"
        world.executor.drain()
        pairs = {(row["t"], row["t2"]) for row in world.queries["q0"].sink.rows}
        assert pairs == {(t, u) for t in (3, 8, 4) for u in (7, 9)} | {(11, 12)}


def test_explain_says_the_window() -> None:
    text = describe(plan(L.Join((left(), right()), (L.Window(10, 5),) * 2, "g = g2")))
    assert text.count("rows in windows range 10 slide 5") == 2
    assert text.splitlines()[-1].startswith("inner join on g = g2 and window_start and window_end")


@pytest.mark.parametrize(
    ("sides", "wrong"),
    [
        ((L.Window(10, 10), L.Window(20, 20)), "the sides have different ones"),
        ((L.Window(10, 10), L.Window(10)), "the sides have different ones"),
        ((L.Window(10, 10), None), "the right side has none"),
        ((L.Window(gap=3), L.Window(gap=3)), "sessions of two streams"),
    ],
)
def test_sides_without_a_common_window_are_refused(sides: Any, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        plan(L.Join((left(A), right(B)), sides, "g = g2"))
