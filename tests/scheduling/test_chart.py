"""Progress charts: the lower envelope against S2's own definition of it, and the paths of a plan."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from experiments.lab.operator_work import Side, join
from slackwater.scheduling.chart import ALL, Segment, chart, in_order, segments
from slackwater.scheduling.paths import MOST_PATHS, PathWork, paths, readers, remaining, ways

Points = list[tuple[float, float]]


def by_steepest_descent(points: Points) -> Points:
    """The lower envelope as S2 section 3 defines it: from one steepest descent operator point to the next."""
    envelope, at = [points[0]], 0
    while at < len(points) - 1:
        t, s = points[at]
        derivatives = {j: (s - points[j][1]) / (points[j][0] - t) for j in range(at + 1, len(points))}
        at = min(j for j, of in derivatives.items() if of == max(derivatives.values()))
        envelope.append(points[at])
    return envelope


@st.composite
def charts(draw: st.DrawFn, most: float = 2.0) -> Points:
    """Points of a path; sizes are eighths, so that sums are exact."""
    n = draw(st.integers(1, 7))
    times = accumulate(draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=n, max_size=n)))
    sizes = draw(st.lists(st.integers(0, int(8 * most)), min_size=n - 1, max_size=n - 1))
    return [(0.0, 1.0), *zip(map(float, times), [*(s / 8 for s in sizes), 0.0], strict=True)]


@given(charts())
def test_the_lower_envelope_is_that_of_the_paper(points: Points) -> None:
    drawn = chart([f"O{n}" for n in range(1, len(points))], points)
    assert list(drawn.envelope) == by_steepest_descent(points)
    assert all(a >= b for a, b in pairwise(drawn.slopes)), "Proposition: slopes never get steeper"


@given(charts())
def test_no_point_lies_below_the_envelope(points: Points) -> None:
    drawn = chart([f"O{n}" for n in range(1, len(points))], points)
    for t, s in points:
        (t0, s0), (t1, s1) = next(pair for pair in pairwise(drawn.envelope) if pair[0][0] <= t <= pair[1][0])
        assert s >= s0 + (s1 - s0) * (t - t0) / (t1 - t0) - 1e-9


def test_an_operator_with_selectivity_above_1_is_run_with_the_selective_one_behind_it() -> None:
    drawn = chart(("where", "join", "selective", "slow"), ((0, 1), (2, 0.9), (4, 1.8), (5, 0.1), (25, 0)))
    assert drawn.ends == (3, 4) and drawn.slopes == pytest.approx((0.18, 0.005))


def test_in_bytes_a_projection_counts_that_keeps_all_rows() -> None:
    plan = {
        "s": PathWork((), 0.0, 1.0, 1.0, width=100.0),
        "narrow": PathWork(("s",), 1.0, selectivity=1.0, growth=0.1, width=100.0),
        "window": PathWork(("narrow",), 9.0, selectivity=0.0, growth=0.0, width=10.0),
    }
    (drawn,) = paths(plan)
    assert drawn.points[2][1] == pytest.approx(0.1) and drawn.slopes == pytest.approx((0.9, 0.1 / 9))
    strategy = sw.chain()
    strategy.learn(plan)
    assert strategy.ends_segment("narrow") and not strategy.ends_segment("s")
    in_rows = {label: PathWork(of.inputs, of.cost, of.selectivity) for label, of in plan.items()}
    (drawn,) = paths(in_rows)
    assert drawn.ends == (3,), "all rows stay until the window"


def test_a_join_of_two_streams_lies_on_the_path_of_each() -> None:
    plan = {
        "r": PathWork((), 0.0),
        "s": PathWork((), 0.0),
        "where": PathWork(("r",), 2.0, 0.5),
        "join": join(("where", "s"), (Side(1, 2, 1.0), Side(3, 1, 2.0))),
        "selective": PathWork(("join",), 1.0, 0.05),
        "sink": PathWork(("selective",), 40.0),
    }
    # 5.1: s = (1 * 2 + 3 * 1) / 4, t = (1 * 1 + 3 * 2) / 4.
    of_r, of_s = paths(plan)
    assert of_r.labels == ("r", "where", "join", "selective", "sink")
    assert of_s.labels == ("s", "join", "selective", "sink")
    assert [s for _, s in of_r.points] == pytest.approx([1, 1, 0.5, 0.625, 0.03125, 0])
    assert [t for t, _ in of_s.points] == pytest.approx([0, 0, 1.75, 3, 3 + 40 * 0.0625])
    strategy = sw.chain()
    strategy.learn(plan)
    steep = strategy.segment("join")
    assert steep is not None and steep.labels == ("s", "join", "selective")
    # On its own path the filter is run for the sake of what comes behind the join.
    of_where = strategy.segment("where")
    assert of_where is not None and of_where.labels == ("r", "where", "join", "selective")
    assert not strategy.ends_segment("where") and strategy.ends_segment("selective")


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(0, 50), st.integers(0, 9)), min_size=2, max_size=2))
def test_the_formulas_of_5_1_are_what_counting_all_rows_gives(sides: list[tuple[int, int, int]]) -> None:
    made = join(("r", "s"), [Side(rate, matches, cost) for rate, matches, cost in sides])
    rows = sum(rate for rate, _, _ in sides)
    assert made.selectivity == pytest.approx(sum(rate * matches for rate, matches, _ in sides) / rows)
    assert made.cost == pytest.approx(sum(rate * cost for rate, _, cost in sides) / rows)


def test_a_page_that_several_read_is_counted_once() -> None:
    plan = {
        "s": PathWork((), 0.0),
        "where": PathWork(("s",), 1.0, 0.5),
        "quick": PathWork(("where",), 2.0),
        "slow": PathWork(("where",), 9.0),
    }
    (first,) = ways(plan).values()
    (where,) = first.then
    assert [step.taken for step in where.then] == [0.25, 0.25]
    # Half a row is freed in the first second, a quarter in the next, a quarter in 4.5 more.
    assert [(s.labels, round(s.slope, 3)) for s in segments(first)] == [
        (("s", "where"), 0.5),
        (("quick",), 0.25),
        (("slow",), 0.056),
    ]
    assert remaining(plan) == {"slow": 9.0, "quick": 2.0, "where": 6.5, "s": 6.5}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, PathWork]:
    """A stream and operators that read it, or each other; branches may meet again."""
    plan = {"s": PathWork((), 0.0)}
    for n in range(draw(st.integers(1, 7))):
        feeders = draw(st.lists(st.sampled_from(list(plan)), min_size=1, max_size=3, unique=True))
        selectivity = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]))
        plan[f"O{n}"] = PathWork(tuple(feeders), draw(st.integers(1, 9)), selectivity)
    return plan


@given(graphs())
def test_on_any_graph_all_work_and_all_room_are_charted(plan: dict[str, PathWork]) -> None:
    (first,) = ways(plan).values()
    found = segments(first)
    assert sum(segment.seconds for segment in found) == pytest.approx(remaining(plan)["s"])
    assert sum(segment.freed for segment in found) == pytest.approx(1.0)
    assert {label for segment in found for label in segment.labels} == set(plan)


def test_what_two_readers_make_of_the_same_rows_takes_room_of_its_own() -> None:
    plan = {
        "s": PathWork((), 0.0),
        "left": PathWork(("s",), 1.0, 0.5),
        "right": PathWork(("s",), 1.0, 0.25),
        "window": PathWork(("left",), 1.0),
        "other": PathWork(("right",), 1.0),
    }
    (first,) = ways(plan).values()
    # A row of the stream takes up 1, half of it for each reader; the left filter makes a half of it.
    assert [(s.labels, s.freed) for s in segments(first)] == [
        (("s", "right", "other"), 0.5),
        (("left", "window"), 0.5),
    ]
    assert [(step.taken, step.left) for step in in_order(first)[1:3]] == [(0.5, 0.5), (0.5, 0.25)]


def freed_by(plan: dict[str, PathWork]) -> dict[tuple[str, str], float]:
    """Room that an operator frees with the rows of a feeder, for a row of the stream: all ways of it are gone."""
    fed = readers(plan)
    freed: dict[tuple[str, str], float] = {}

    def go(label: str, size: float) -> None:
        for behind in fed[label]:
            left = size * (plan[behind].selectivity or 0.0) if fed[behind] else 0.0
            freed[label, behind] = freed.get((label, behind), 0.0) + size / len(fed[label]) - left
            go(behind, left)

    go("s", 1.0)
    return freed


@given(graphs())
def test_on_any_graph_an_operator_frees_with_the_rows_of_each_feeder_what_counting_them_gives(
    plan: dict[str, PathWork],
) -> None:
    (first,) = ways(plan).values()
    steps = {step.label: step for step in in_order(first)}
    for (feeder, label), freed in freed_by(plan).items():
        alone = Segment((label,), steps[label].seconds, steps[label].taken - steps[label].left)
        assert alone.part(steps[label].shares.get(feeder, ALL)).freed == pytest.approx(freed)


def test_branches_that_meet_again_have_each_their_share_in_what_follows() -> None:
    plan = {
        "s": PathWork((), 0.0),
        "left": PathWork(("s",), 1.0, 0.5),
        "right": PathWork(("s",), 2.0, 0.5),
        "union": PathWork(("left", "right"), 0.5, 1.0),
        "window": PathWork(("union",), 1.0),
    }
    (first,) = ways(plan).values()
    # Half a row's room is freed by the left branch in 1 + 0.25 + 0.5 seconds, and by the right one in 2.75.
    assert [(s.labels, round(s.slope, 3)) for s in segments(first)] == [
        (("s", "left", "union", "window"), 0.286),
        (("right", "union", "window"), 0.182),
    ]
    assert [drawn.labels for drawn in paths(plan)] == [
        ("s", "left", "union", "window"),
        ("s", "right", "union", "window"),
    ]


def test_a_plan_whose_branches_meet_twenty_times_is_charted_at_once() -> None:
    plan, before = {"s": PathWork((), 0.0)}, "s"
    for n in range(20):
        plan |= {f"l{n}": PathWork((before,), 1.0, 0.5), f"r{n}": PathWork((before,), 1.0, 0.5)}
        plan[f"u{n}"] = PathWork((f"l{n}", f"r{n}"), 0.1)
        before = f"u{n}"
    (first,) = ways(plan).values()
    assert {label for segment in segments(first) for label in segment.labels} == set(plan)
    assert len(paths(plan)) == MOST_PATHS


def test_a_chain_takes_the_steeper_branch_of_two() -> None:
    plan = {
        "s": PathWork((), 0.0),
        "map": PathWork(("s",), 1.0, 1.0),
        "quick": PathWork(("map",), 1.0),
        "slow": PathWork(("map",), 9.0),
    }
    (first,) = ways(plan).values()
    assert [s.labels for s in segments(first)] == [("s", "map", "quick"), ("slow",)]


def test_before_anything_is_measured_a_path_is_one_chain() -> None:
    plan = {
        "s": PathWork(),
        "where": PathWork(("s",)),
        "window": PathWork(("where",)),
        "sink": PathWork(("window",)),
    }
    strategy = sw.chain()
    strategy.learn(plan)
    assert not any(strategy.ends_segment(label) for label in plan)
