"""Skew bounds, their sets, product and closure, and Theorem 3.3 (S1 sections 2 and 3)."""

from __future__ import annotations

from itertools import pairwise
from itertools import product as combinations
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import (
    Bound,
    BoundSet,
    Pair,
    SkewMatrix,
    TuplePair,
    irredundant,
    product,
    timeout_needed,
)
from slackwater.progress.source_numbers import LARGEST
from tests.kit.emissions import STEADY, guarantees, matrices, pairs, tuple_pairs

SETS = st.lists(st.one_of(pairs(6), tuple_pairs(6)), max_size=6)


def strongest(bounds: list[Bound] | BoundSet, t: int, n: int) -> int | None:
    """The δ that a set gives after t ticks and n tuples."""
    given = [b.delta for b in bounds if (b.t <= t if isinstance(b, Pair) else b.n <= n)]
    return min(given, default=None)


# --- sets


@STEADY
@given(SETS)
def test_removing_redundant_pairs_takes_away_no_guarantee_and_leaves_none_twice(bounds: list[Bound]) -> None:
    small = irredundant(bounds)
    for t, n in combinations(range(8), range(8)):
        assert strongest(small, t, n) == strongest(bounds, t, n)
    for left_out in small:
        rest = tuple(b for b in small if b != left_out)
        t, n = (left_out.t, -1) if isinstance(left_out, Pair) else (0, left_out.n)
        assert strongest(rest, t, n) != strongest(small, t, n)


@STEADY
@given(SETS)
def test_a_set_has_one_form(bounds: list[Bound]) -> None:
    small = irredundant(bounds)
    assert irredundant(reversed([*bounds, *bounds])) == small
    assert irredundant(small) == small


def test_no_tuples_to_count_is_no_time_to_wait() -> None:
    assert irredundant([TuplePair(0, 1)]) == (Pair(0, 1),)


@STEADY
@given(st.lists(pairs(4), max_size=3), st.lists(pairs(4), max_size=3))
def test_the_product_adds_every_pair_to_every_other(first: list[Pair], then: list[Pair]) -> None:
    sums = [Pair(a.t + b.t, a.delta + b.delta) for a in first for b in then]
    assert product(irredundant(first), irredundant(then)) == irredundant(sums)


@STEADY
@given(SETS, SETS, SETS)
def test_the_product_is_associative(a: list[Bound], b: list[Bound], c: list[Bound]) -> None:
    x, y, z = irredundant(a), irredundant(b), irredundant(c)
    assert product(product(x, y), z) == product(x, product(y, z))


# --- matrices


def test_the_example_of_section_3_2() -> None:
    b = SkewMatrix([[None, (1, 1), (1, 3)], [None, None, (1, 1)], [None, None, None]])
    closed = b.closure()
    assert closed[0, 2] == (Pair(1, 3), Pair(2, 2))
    assert [closed[i, j] for i, j in combinations(range(3), repeat=2) if (i, j) != (0, 2)] == [
        b[i, j] for i, j in combinations(range(3), repeat=2) if (i, j) != (0, 2)
    ]


def test_a_cycle_bounds_the_disorder_of_a_stream_that_has_no_bound_itself() -> None:
    closed = SkewMatrix([[None, (1, 2)], [(3, 4), None]]).closure()
    assert closed[0, 0] == closed[1, 1] == (Pair(4, 6),)


@STEADY
@given(matrices(counted=True))
def test_the_closure_holds_what_every_walk_over_the_matrix_guarantees(b: SkewMatrix) -> None:
    closed = b.closure()
    for (i, j), (timed, counted) in guarantees(b).items():
        walks = [Pair(t, d) for t, d in timed] + [TuplePair(n, d) for n, d in counted]
        assert closed[i, j] == irredundant(walks)


@STEADY
@given(matrices(counted=True))
def test_the_closure_is_idempotent_and_keeps_latencies(b: SkewMatrix) -> None:
    closed = b.closure()
    assert closed * closed == closed
    assert closed.closure() is closed
    assert closed.latency.tolist() == b.latency.tolist()


@STEADY
@given(matrices(counted=True), st.data())
def test_the_closure_only_gains_from_another_pair(b: SkewMatrix, data: st.DataObject) -> None:
    n = len(b.names)
    i, j = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    more = [list(row) for row in b.entries]
    more[i][j] = (*more[i][j], data.draw(st.one_of(pairs(3), tuple_pairs(3))))
    closed, gained = b.closure(), SkewMatrix(more, b.latency.tolist()).closure()
    for i, j in combinations(range(n), repeat=2):
        assert gained[i, j] == irredundant([*gained[i, j], *closed[i, j], *b[i, j]])


def test_a_matrix_that_says_all_already_is_its_own_closure() -> None:
    b = SkewMatrix([[(0, 1), (0, 3)], [(0, 3), (0, 1)]])
    assert b.closure() is b


def test_a_chain_of_sources_is_closed_from_end_to_end() -> None:
    n = 17
    b = SkewMatrix([[(1, 1) if j == i + 1 else None for j in range(n)] for i in range(n)])
    assert b.closure()[0, n - 1] == (Pair(16, 16),)


def test_thirty_sources_with_a_pair_between_any_two_are_closed_at_once() -> None:
    rng, n = np.random.default_rng(0), 30
    b = SkewMatrix([[(int(t), int(d)) for t, d in row] for row in rng.integers(0, 100, (n, n, 2))])
    begin = process_time()
    closed = b.closure()
    # A tenth of a second; squaring the matrix until nothing changes takes 13.
    assert process_time() - begin < 2
    for i, k, j in rng.integers(0, n, (300, 3)).tolist():
        assert irredundant([*closed[i, j], *product(closed[i, k], closed[k, j])]) == closed[i, j]


def test_sums_beyond_all_clocks_are_no_guarantee() -> None:
    assert SkewMatrix([[None, (LARGEST, 0), None], [None, None, (1, 0)], [None] * 3]).closure()[0, 2] == ()
    assert SkewMatrix([[None, (0, LARGEST), None], [None, None, (0, 1)], [None] * 3]).closure()[0, 2] == ()


def test_a_matrix_can_be_written_by_names() -> None:
    bounds = {("a", "b"): [(0, 5), TuplePair(3, 1)], ("b", "b"): Pair(0, 1)}
    b = SkewMatrix.between(["a", "b"], bounds, latency={"b": 7, "a": 2})
    assert b == SkewMatrix([[None, [(0, 5), TuplePair(3, 1)]], [(), (0, 1)]], latency=[2, 7], names=["a", "b"])
    assert b["a", "b"] == b[0, 1] == (Pair(0, 5), TuplePair(3, 1))
    assert hash(b) == hash(SkewMatrix(b.entries, [2, 7], b.names))
    assert eval(repr(b)) == b
    assert b != SkewMatrix(b.entries, [2, 8], b.names)


# --- Theorem 3.3


@STEADY
@given(matrices(counted=True, largest=2))
def test_a_timeout_is_needed_just_when_some_pause_leaves_a_tuple_behind(b: SkewMatrix) -> None:
    closed = b.closure()
    stuck = False
    for seen in combinations([None, 0, 3], repeat=len(b.names)):
        generator = HeartbeatGenerator(closed, indirect=False)
        for source, timestamp in enumerate(seen):
            if timestamp is not None:
                generator.arrive(source, 1, timestamp, at=0)
        generator.tick(closed.span)
        assert generator.wake_at() is None
        stuck = stuck or any(t is not None and generator.heartbeat.admits(t) for t in seen)
    assert timeout_needed(closed) == stuck


def test_the_example_of_section_3_4_needs_a_timeout() -> None:
    assert timeout_needed(SkewMatrix([[(0, 0), (0, 5)], [(0, 9), (0, 0)]]))


def test_tuples_that_do_not_come_make_no_timeout_unnecessary() -> None:
    assert timeout_needed(SkewMatrix([[[Pair(0, 1), TuplePair(3, 0)]]]))
    assert not timeout_needed(SkewMatrix([[[Pair(0, 1), TuplePair(0, 0)]]]))


# --- what cannot be meant


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Pair(-1, 0), r"t of Pair\(t=-1, delta=0\) is -1, which is negative; write 0 or more"),
        (lambda: Pair(0, -2), r"delta of Pair\(t=0, delta=-2\) is -2"),
        (lambda: TuplePair(-3, 0), r"n of TuplePair\(n=-3, delta=0\) is -3, which is negative"),
        (lambda: Pair(0, 2**63), "which no clock will see; write at most"),
        (lambda: Pair(0.5, 0), r"t of Pair\(t=0.5, delta=0\) is 0.5; write a whole number"),
        (lambda: SkewMatrix([]), "no sources; write at least one"),
        (lambda: SkewMatrix([[None, None], [None]]), "row '1' of the skew matrix has 1 entries for 2 sources"),
        (lambda: SkewMatrix([[None]], names=["a", "b"]), "2 names for 1 sources; write one for each"),
        (lambda: SkewMatrix([[None] * 2] * 2, names=["a", "a"]), "source 'a' is named twice"),
        (lambda: SkewMatrix([["soon"]]), r"entry \['0', '0'\] is 'soon'; write a pair as in Pair\(0, 5\)"),
        (lambda: SkewMatrix([[[(1, 2, 3)]]]), r"has \(1, 2, 3\) in it; write Pair\(t, delta\)"),
        (lambda: SkewMatrix([[None]], latency=-1), "latency is -1, which is negative"),
        (lambda: SkewMatrix([[None]], latency=[1, 2]), "latency has 2 numbers for 1 sources"),
        (lambda: SkewMatrix([[None]], latency=[-1]), "latency of source '0' is -1"),
        (lambda: SkewMatrix([[None]], latency={"x": 1}), "unknown source 'x'; the sources are '0'"),
        (lambda: SkewMatrix([[None]], latency={}), "latency says nothing of source '0'"),
        (lambda: SkewMatrix.between(["a"], {("a", "z"): (0, 1)}), "unknown source 'z'; the sources are 'a'"),
        (lambda: SkewMatrix([[None]])[0, 1], "unknown source 1; the sources are '0', numbered from 0 to 0"),
        (lambda: SkewMatrix([[None]]) * SkewMatrix([[None]], names=["a"]), "multiply matrices of the same ones"),
    ],
)
def test_what_cannot_be_meant_is_refused(build: object, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        build()  # type: ignore[operator]


def test_a_closure_that_takes_long_says_how_to_go_without_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"s{k}" for k in range(12)]
    bounds = {(a, b): (1, 1) for a, b in pairwise(names)}
    quick = SkewMatrix.between(names, bounds).closure()
    assert not caplog.records
    monkeypatch.setattr("slackwater.progress.bounds.slow_closure.LONG", 0.0)
    assert SkewMatrix.between(names, bounds).closure() == quick
    (told,) = caplog.messages
    assert "12 sources take long" in told and "indirect=False" in told
