"""S5 section 3.3: early answers over joins of all kinds equal the query over the rows that have come."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.operators.prod import Prod
from slackwater.operators.prod_request import check_early, read_prod
from slackwater.plan import logical as L
from slackwater.plan.node import streams_of
from slackwater.plan.request import ProdRequest
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from slackwater.testing.pages import ArrowPages
from tests.kit.streams import frame
from tests.kit.streams_of_samples import CODES, A, B, C, plan, select, union, where, windows

RANGE, ROWS = L.Window(range=10), L.Window(rows=2)
PAGES = {
    "a": frame([[1, "a"], [2, "b"], [6, "c"], [7, "a"]]),
    "b": frame([[1, "a"], [3, "b"], [8, "a"], [9, "d"]]),
    "c": frame([[2, "a"], [4, "z"]]),
}
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def rows(stream: L.Scan) -> L.Logical:
    return select(stream, g="g", **{f"i_{stream.stream}": "i"})


def results(stream: L.Scan) -> L.Logical:
    return select(windows(stream, 5, 5, "g", n="count(*)"), g="g", **{f"n_{stream.stream}": "n"})


def join(left: L.Logical, right: L.Logical, *kept: L.Window, how: str = "inner") -> L.Logical:
    return L.Join((left, right), kept or (RANGE, RANGE), ("g",), how)  # type: ignore[arg-type]


def stored(left: L.Logical, how: str) -> L.Logical:
    return L.JoinStored((left,), "codes", ("g",), how)


#: Rows that a window counts.
KINDS: dict[str, L.Logical] = {
    **{f"{how} join": join(rows(A), rows(B), how=how) for how in HOWS},
    **{f"{how} join of rows": join(rows(A), rows(B), ROWS, RANGE, how=how) for how in HOWS},
    **{f"{how} join of results": join(results(A), results(B), how=how) for how in HOWS},
    "results joined with rows": join(results(A), rows(B)),
    "rows joined with results": join(rows(A), results(B)),
    "results joined by rows": join(results(A), results(B), ROWS, ROWS),
    "a filter of joined results": where(join(results(A), results(B)), "n_a > 0"),
    "joined results in a window below": windows(join(results(A), results(B)), 10, 10, n="count(*)"),
    **{f"{how} join with a table": stored(results(A), how) for how in ("inner", "left", "semi", "anti")},
    "a join of a join": join(select(join(rows(A), rows(B)), g="g"), rows(C)),
    "a union with a join": union(select(join(rows(A), rows(B)), g="g"), select(C, g="g")),
    "a union of results": union(select(results(A), g="g"), select(results(B), g="g")),
    "results of a join": windows(join(rows(A), rows(B)), 5, 5, "g", n="count(*)"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_early_answers_with_all_rows_in_are_the_final_ones(kind: str) -> None:
    made = plan(windows(KINDS[kind], 40, 40, n="count(*)"), {name: bounded(100) for name in "abc"})
    script = Script(made, pages=ArrowPages({"codes": CODES}))
    for name in sorted({stream.name for stream in streams_of(made)}):
        script.page(PAGES[name], stream=name)
    early = [row["n_seen"] for row in script.prod().prod().results]
    final = [row["n"] for row in script.drain().results if row["kind"] == "final"]
    assert final and early == final * 2
    check_early(made, sw.early(at=0.5))
    read_prod(made, ProdRequest(), ArrowPages().here)


def test_a_prodder_asks_a_join_of_results_in_the_middle_of_its_window() -> None:
    query = windows(
        join(results(A), results(B), L.Window(range=1), L.Window(range=1)), 10, 10, n="count(*)", sums="sum(n_a)"
    )
    script = Script(plan(query, {name: bounded(3) for name in "ab"}), early=sw.early(at=0.7))
    for t in range(40):
        for name in "ab":
            script.page(frame([[t, "x"]]), stream=name)
    early = [(row["window_end"], row["n"], row["sums"]) for row in script.results if row["kind"] == "early"]
    # When the eighth row of a window has come by one side: the results of five rows, and those of three.
    assert early[-3:] == [(20, 2, 8), (30, 2, 8), (40, 2, 8)]


@pytest.mark.parametrize("kind", ["left join", "inner join of rows", "inner join of results"])
def test_answers_over_joins_with_early_rows_can_be_compared_and_held_to_a_target(kind: str) -> None:
    made = plan(windows(KINDS[kind], 40, 40, n="count(*)"))
    check_early(made, sw.early(accuracy=0.9))
    check_early(made, sw.early(at=0.5, measure=lambda early, final, other: 1.0))


@pytest.mark.parametrize("name", [name for name in KINDS if plan(KINDS[name]).gives_pairs])
def test_rows_of_a_join_that_go_to_a_sink_are_early_only_of_results_and_say_so(name: str) -> None:
    prodded, plain = (Script(plan(KINDS[name]), pages=ArrowPages({"codes": CODES})) for _ in range(2))
    for script in (prodded, plain):
        for stream in (s.name for s in streams_of(plan(KINDS[name]))):
            script.page(PAGES[stream], stream=stream)
        if script is prodded:
            script.executor.prod(Prod(None, None, None))
        script.drain()
    early = [row for row in prodded.results if row.get("kind") == "early"]
    final = [row for row in prodded.results if row not in early]
    assert sorted(map(repr, final)) == sorted(map(repr, plain.results))
    assert bool(early) == bool(plan(KINDS[name]).prodded())
