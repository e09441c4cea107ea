"""Early answers over joins: with all rows in they are the final ones, or they are refused, and no others are."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.operators.prod_request import check_early, read_prod
from slackwater.plan import logical as L
from slackwater.plan.node import streams_of
from slackwater.plan.request import ProdRequest
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from slackwater.testing.script import ArrowPages
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


#: Rows that a window counts, and whether it can be asked early.
KINDS: dict[str, tuple[L.Logical, bool]] = {
    **{f"{how} join": (join(rows(A), rows(B), how=how), how in ("inner", "semi")) for how in HOWS},
    **{f"{how} join of rows": (join(rows(A), rows(B), ROWS, RANGE, how=how), False) for how in HOWS},
    **{f"{how} join of results": (join(results(A), results(B), how=how), False) for how in HOWS},
    "results joined with rows": (join(results(A), rows(B)), False),
    "rows joined with results": (join(rows(A), results(B)), False),
    "results joined by rows": (join(results(A), results(B), ROWS, ROWS), False),
    "a filter of joined results": (where(join(results(A), results(B)), "n_a > 0"), False),
    "joined results in a window below": (windows(join(results(A), results(B)), 10, 10, n="count(*)"), False),
    **{f"{how} join with a table": (stored(results(A), how), True) for how in ("inner", "left", "semi", "anti")},
    "a join of a join": (join(select(join(rows(A), rows(B)), g="g"), rows(C)), True),
    "a union with a join": (union(select(join(rows(A), rows(B)), g="g"), select(C, g="g")), True),
    "a union of results": (union(select(results(A), g="g"), select(results(B), g="g")), True),
    "results of a join": (windows(join(rows(A), rows(B)), 5, 5, "g", n="count(*)"), True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_early_answers_with_all_rows_in_are_final_or_refused(kind: str) -> None:
    query, can_be_early = KINDS[kind]
    made = plan(windows(query, 40, 40, n="count(*)"), {name: bounded(100) for name in "abc"})
    script = Script(made, pages=ArrowPages({"codes": CODES}))
    for name in sorted({stream.name for stream in streams_of(made)}):
        script.page(PAGES[name], stream=name)
    early = [row["n_seen"] for row in script.prod().results]
    final = [row["n"] for row in script.drain().results if row["kind"] == "final"]
    assert final and (early == final) is can_be_early, "what is refused here is wrong, and nothing else is"
    if can_be_early:
        check_early(made, sw.early(at=0.5))
        read_prod(made, ProdRequest(), ArrowPages().here)
        return
    with pytest.raises(QueryError, match=r"early=: this query .*; leave it out, or "):
        check_early(made, sw.early(at=0.5))
    with pytest.raises(QueryError, match=r"prod\(\): this query .*; leave it out, or "):
        read_prod(made, ProdRequest(), ArrowPages().here)
