"""A join whose ON compares the times of both rows keeps rows for as long as ON says: random conditions.

The results equal those of the definition: every pair of rows that meets the condition, however far apart.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError, QueryWarning
from slackwater.plan import logical as L
from slackwater.plan.node import describe
from tests.engine.test_random_joins import KINDS_OF_JOINS, LEFT, RIGHT, left, of, right
from tests.kit.arcs import watched_arcs
from tests.kit.joins import Row, join_within, renamed
from tests.kit.several_streams import EVENTS, Came, Kind, World
from tests.kit.streams import Stream, bounded_streams
from tests.kit.streams_of_samples import C, plan, windows

FAR = 10**6
#: How a user may write that the right row is between `low` and `high` after the left one.
FORMS = (
    "t2 BETWEEN t + {low} AND t + {high}",
    "t2 >= t + {low} AND t2 <= t + {high}",
    "t + {low} <= t2 AND t2 < t + {high} + 1",
    "t2 - t > {low} - 1 AND t >= t2 - {high}",
    "t2 > t + {low} - 1 AND t2 - {high} <= t",
    "-t2 <= -t - {low} AND NOT (t2 IS NULL) AND (t2 - t <= {high})",
)


def by_condition(how: str, low: int, high: int, form: str) -> Kind:
    on = f"g = g2 AND {form.format(low=f'({low})', high=f'({high})')}"
    columns = LEFT if how in ("semi", "anti") else (*LEFT, *RIGHT)

    def meets(a: Row, b: Row) -> bool:
        return a["g"] is not None and a["g"] == b["g2"] and low <= b["t2"] - a["t"] <= high

    def wanted(came: Came) -> list[Row]:
        found = join_within(of(came["a"], "", 1), of(came["b"], "2", 1), meets, how, (FAR, FAR))
        return [{name: row.get(name) for name in columns} for row in found]

    return Kind(L.Join((left(), right()), (None, None), on, how), wanted, ())


def three(first: tuple[int, int], second: tuple[int, int]) -> Kind:
    """The third row is compared with the first one of a pair, whose own time may be the second one's."""
    pairs = L.Join((left(), right()), (None, None), f"g = g2 AND t2 BETWEEN t - {first[0]} AND t + {first[1]}")
    third = f"g = g3 AND t3 >= t - {second[0]} AND t3 <= t + {second[1]}"
    query = L.Join((pairs, renamed(C, "3", "t", "g", "i")), (None, None), third)

    def wanted(came: Came) -> list[Row]:
        sides = [of(came[name], suffix, 1) for name, suffix in (("a", ""), ("b", "2"), ("c", "3"))]
        return [
            {**a, **b, **c}
            for t, _, a in sides[0]
            for u, _, b in sides[1]
            for v, _, c in sides[2]
            if a["g"] is not None and a["g"] == b["g2"] == c["g3"]
            if -first[0] <= u - t <= first[1] and -second[0] <= v - t <= second[1]
        ]

    return Kind(query, wanted, ())


CONDITIONS = st.builds(
    lambda how, ends, form: by_condition(how, min(ends), max(ends), form),
    st.sampled_from(KINDS_OF_JOINS),
    st.tuples(st.integers(-6, 9), st.integers(-6, 9)),
    st.sampled_from(FORMS),
)
LENGTHS = st.tuples(st.integers(0, 6), st.integers(0, 6))


@settings(max_examples=80)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    kinds=st.lists(CONDITIONS | st.builds(three, LENGTHS, LENGTHS), min_size=1, max_size=3),
    events=st.lists(EVENTS, max_size=25),
)
def test_pairs_are_those_that_the_condition_lets_meet(
    streams: dict[str, Stream], kinds: list[Kind], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, None, kinds)
        world.play([*(("add", n) for n in range(len(kinds))), *events])
    world.check()


def joined(on: str, windows: tuple[Any, Any] = (None, None), **more: Any) -> L.Join:
    return L.Join((left(), right()), windows, on, **more)


@pytest.mark.parametrize(
    ("on", "ranges"),
    [
        ("t2 BETWEEN t - 5 AND t + 10", "range 10 (end included) and range 5 (end included)"),
        ("t2 > t AND t2 < t + 10", "range 9 (end included) and range 0 (end included)"),
        ("abs(t2 - t) <= 5", "range 5 (end included) and range 5 (end included)"),
        ("t = t2", "range 0 (end included) and range 0 (end included)"),
    ],
)
def test_explain_says_how_long_rows_are_kept(on: str, ranges: str) -> None:
    assert describe(plan(joined(on))).splitlines()[-1] == f"inner join on {on} of {ranges}"


@pytest.mark.parametrize(
    ("on", "wrong"),
    [
        ("g = g2 AND t2 >= t", "the left side has no window; say how far rows may be apart"),
        ("g = g2 AND t2 <= t + 5", "the right side has no window"),
        ("g = g2 AND (t2 = t OR i = i2)", "the left side has no window"),
        ("g = g2 AND t2 + t <= 5", "the left side has no window"),
        ("t > 3 AND t2 < 7", "the left side has no window"),
    ],
)
def test_a_condition_that_keeps_rows_for_ever_is_refused(on: str, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        plan(joined(on))


def test_windows_that_lose_pairs_of_the_condition_are_warned_of() -> None:
    """Half-open [RANGE 5] beside a BETWEEN whose ends are included loses the pairs that are exactly 5 apart."""
    both = (L.Window(5), L.Window(6))
    with pytest.warns(
        QueryWarning, match="ON lets rows be 5 apart, but a row of the left side finds partners for "
    ):
        plan(joined("t2 BETWEEN t - 5 AND t + 5", both))
    with pytest.warns(QueryWarning, match="how far apart g = g2 OR t2 - t <= 5 lets rows be is not understood"):
        plan(joined("i = i2 AND (g = g2 OR t2 - t <= 5)", both))
    with pytest.warns(QueryWarning, match="right side finds partners for range 2 .end included.: pairs"):
        plan(joined("t2 >= t - 3", within=(2, 7)))
    for wide in (6, 100):
        plan(joined("t2 BETWEEN t - 5 AND t + 5", (L.Window(wide), L.Window(wide))))
    plan(joined("t2 > t", both))


def test_results_meet_by_the_bounds_of_their_windows() -> None:
    """Without a word about time those of the same end meet; with one, those that it says."""
    one = L.Select((windows(C, 6, 6, n="count(*)"),), (("e", "window_end"), ("n", "n")))
    two = L.Select((windows(C, 3, 3, m="count(*)"),), (("e2", "window_end"), ("s2", "window_start"), ("m", "m")))

    def last_line(on: str) -> str:
        return describe(plan(L.Join((one, two), (None, None), on))).splitlines()[-1]

    assert last_line("n = m").endswith("of range 1 and range 1")
    assert last_line("e2 BETWEEN e - 3 AND e").endswith("of range 0 (end included) and range 3 (end included)")
    assert last_line("s2 = e").endswith("of range 3 (end included) and range 0 (end included)")
    with pytest.raises(QueryError, match="the left side has no window"):
        last_line("e2 > e")
