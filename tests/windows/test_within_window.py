"""Results of one window compared with one another: random streams against a recomputation in Python.

Each case goes through SQL or the logical nodes, in one process, with early answers and restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError, SqlError
from slackwater.operators.prod_request import read_prod
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.node import PlanNode, aggregates_of
from slackwater.plan.request import ProdRequest
from slackwater.plan.steps import Over, Sort, step_from_json
from slackwater.progress.bounds.bounded import bounded
from slackwater.sql.write import to_sql
from slackwater.testing import Script
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.types import SampleTypes
from tests.kit.sql import SCOPE, logical, plan, stream
from tests.kit.streams import SAMPLE, Stream, bounded_streams, finals, frame

TEN = "FROM s [RANGE 10, SLIDE 10] GROUP BY g"
Rows = list[dict[str, Any]]


def types(slack: int = 0, source: str | None = None) -> SampleTypes:
    return SampleTypes({"s": stream("s", SAMPLE, "t", bounded(slack), source)})


def plan_of(text: str, slack: int = 0, source: str | None = None) -> PlanNode:
    return analyse(logical(text), types(slack, source))


def by_window(rows: Rows) -> dict[int, Rows]:
    found: dict[int, Rows] = {}
    for row in rows:
        found.setdefault(row["window_start"], []).append(row)
    return found


def counted(given: Stream, slide: int = 10) -> dict[int, Rows]:
    """Rows and the sum of `i` by window and group."""
    groups: dict[tuple[int, Any], Rows] = {}
    for row in given.rows.to_dicts():
        groups.setdefault((row["t"] // slide * slide, row["g"]), []).append(row)
    return by_window(
        [
            {
                "window_start": start,
                "g": g,
                "n": len(rows),
                "total": sum(i for r in rows if (i := r["i"]) is not None),
            }
            for (start, g), rows in groups.items()
        ]
    )


def none_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value or "")


def most_first(row: dict[str, Any]) -> Any:
    return -row["n"], none_first(row["g"])


def run(text: str, given: Stream, source: str | None = None) -> Rows:
    script = Script(plan_of(text, given.slack, source))
    for page in given.pages:
        script.page(page)
    return finals(script.drain().results)


@given(bounded_streams(most=40), st.integers(1, 3), st.sampled_from([None, "g"]))
def test_the_first_of_each_window_in_order(given_: Stream, most: int, source: str | None) -> None:
    got = by_window(run(f"SELECT g, count(*) AS n {TEN} ORDER BY n DESC LIMIT {most}", given_, source))
    for start, rows in counted(given_).items():
        wanted = [(row["g"], row["n"]) for row in sorted(rows, key=most_first)[:most]]
        assert [(row["g"], row["n"]) for row in got.pop(start)] == wanted
    assert not got


def ranks(rows: Rows) -> list[int]:
    return [1 + sum(other["n"] > row["n"] for other in rows) for row in rows]


def dense_ranks(rows: Rows) -> list[int]:
    return [1 + len({other["n"] for other in rows if other["n"] > row["n"]}) for row in rows]


def numbers(rows: Rows) -> list[int]:
    order = sorted(rows, key=most_first)
    return [1 + order.index(row) for row in rows]


def before(rows: Rows) -> list[Any]:
    order = sorted(rows, key=most_first)
    return [order[at - 1]["n"] if (at := order.index(row)) else None for row in rows]


def totals(rows: Rows) -> list[int]:
    return [sum(row["n"] for row in rows)] * len(rows)


FUNCTIONS: dict[str, Callable[[Rows], list[Any]]] = {
    "rank() OVER (PARTITION BY window_start ORDER BY count(*) DESC)": ranks,
    "dense_rank() OVER (PARTITION BY window_start, window_end ORDER BY count(*) DESC)": dense_ranks,
    "row_number() OVER (PARTITION BY window_end ORDER BY count(*) DESC)": numbers,
    "lag(count(*)) OVER (PARTITION BY window_start ORDER BY count(*) DESC)": before,
    "sum(count(*)) OVER (PARTITION BY window_start)": totals,
}


@given(bounded_streams(most=40), st.sampled_from(sorted(FUNCTIONS)), st.booleans())
def test_over_the_results_of_a_window(given_: Stream, over: str, qualified: bool) -> None:
    end = " QUALIFY v <= 2" if qualified else ""
    got = run(f"SELECT g, count(*) AS n, {over} AS v {TEN}{end}", given_)
    wanted = []
    for start, rows in counted(given_).items():
        values = zip(rows, FUNCTIONS[over](rows), strict=True)
        wanted += [(start, r["g"], r["n"], v) for r, v in values if not qualified or (v is not None and v <= 2)]
    assert sorted(((r["window_start"], r["g"], r["n"], r["v"]) for r in got), key=str) == sorted(wanted, key=str)


@given(bounded_streams(most=40))
def test_qualify_needs_no_column_and_filters_after_all_columns_are_made(given_: Stream) -> None:
    got = run(
        f"SELECT g, sum(count(*)) OVER (PARTITION BY window_start) AS everyone {TEN} "
        "QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY count(*) DESC) = 1",
        given_,
    )
    wanted = [
        (start, min(rows, key=most_first)["g"], sum(row["n"] for row in rows))
        for start, rows in counted(given_).items()
    ]
    assert [(row["window_start"], row["g"], row["everyone"]) for row in got] == sorted(wanted)


@given(bounded_streams(most=40), st.sampled_from([None, "g"]))
def test_a_window_over_the_first_of_each_window(given_: Stream, source: str | None) -> None:
    inner = f"SELECT g, count(*) AS n {TEN} ORDER BY n DESC LIMIT 1"
    got = run(f"SELECT max(n) AS most, count(*) AS windows FROM ({inner}) [RANGE 20, SLIDE 20]", given_, source)
    wanted: dict[int, list[int]] = {}
    for start, rows in counted(given_).items():
        wanted.setdefault((start + 9) // 20 * 20, []).append(max(row["n"] for row in rows))
    assert [(row["window_start"], row["most"], row["windows"]) for row in got] == [
        (start, max(most), len(most)) for start, most in sorted(wanted.items())
    ]


@given(bounded_streams(most=40), st.integers(1, 2))
def test_early_answers_have_the_first_of_what_has_come(given_: Stream, most: int) -> None:
    script = Script(plan_of(f"SELECT g, count(*) AS n {TEN} ORDER BY n DESC LIMIT {most}", 1000))
    came: Rows = []
    for page in given_.pages:
        script.page(page).new_rows()
        came += page.to_dicts()
        if not came:
            continue
        early = by_window(script.prod().new_rows())
        for start, rows in counted(Stream([frame([list(row.values()) for row in came])], 0)).items():
            answered = early.pop(start)
            assert {row["kind"] for row in answered} == {"early"}
            # Nothing is known of how windows fill up, so the estimate is what has been seen.
            wanted = [(row["g"], row["n"]) for row in sorted(rows, key=most_first)[:most]]
            assert [(row["g"], row["n_seen"]) for row in answered] == wanted
        assert not early


TEXTS = [
    f"SELECT g, count(*) AS n {TEN} ORDER BY n DESC LIMIT 3",
    f"SELECT g, count(*) AS n {TEN} ORDER BY n DESC NULLS FIRST, g ASC",
    f"SELECT g {TEN} HAVING count(*) > 1 ORDER BY count(*) DESC, sum(i) LIMIT 2".replace(
        "g FROM", "g, max(x) AS x FROM"
    ),
    f"SELECT g AS k, count(*) AS n, rank() OVER (PARTITION BY window_start ORDER BY count(*)) AS r {TEN}",
    f"SELECT g, count(*) AS n {TEN} QUALIFY rank() OVER (PARTITION BY window_start ORDER BY n) < 3 ORDER BY n",
    f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS r "
    f"FROM (SELECT g, count(*) AS n {TEN})) WHERE r <= 3",
    f"SELECT max(n) AS n FROM (SELECT g, count(*) AS n {TEN} LIMIT 3) [RANGE 20, SLIDE 20] LIMIT 1",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_query_can_be_written_back_as_sql(text: str) -> None:
    found = logical(text)
    assert plan(to_sql(found, SCOPE)) == plan(text)
    assert to_sql(logical(to_sql(found, SCOPE)), SCOPE) == to_sql(found, SCOPE)


def test_steps_are_journaled() -> None:
    steps = [
        Over((("a", "rank() OVER (PARTITION BY window_start ORDER BY n)"),), (("a", "1"),)),
        Sort((("n", True, True), ("g", False, False)), 3, "n DESC"),
        Sort((("n", False, False),)),
    ]
    assert [step_from_json(step.to_json()) for step in steps] == steps


def test_a_window_that_is_compared_closes_for_all_sources_at_once() -> None:
    closing = [a.kernel.source for a in aggregates_of(plan_of(f"SELECT g, count(*) AS n {TEN} LIMIT 1", 0, "g"))]
    assert closing == [None]
    apart = aggregates_of(plan_of(f"SELECT g, count(*) AS n {TEN}", 0, "g"))
    assert [a.kernel.source for a in apart] == ["g"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT g, rank() OVER (ORDER BY count(*)) AS r, count(*) AS n {TEN}", "different windows; write OVER"),
        (f"SELECT g, rank() OVER (PARTITION BY g ORDER BY count(*)) AS r {TEN}", "PARTITION BY window_start, g"),
        ("SELECT i FROM s ORDER BY i", "a stream has no end, so it cannot be sorted"),
        ("SELECT i FROM s LIMIT 5", "a stream has no end; stop the query"),
        ("SELECT i, lag(i) OVER (PARTITION BY g ORDER BY t) AS b FROM s", "takes aggregates"),
        (
            "SELECT i FROM s QUALIFY row_number() OVER (PARTITION BY g ORDER BY t) = 1",
            "would see one page at a time",
        ),
        ("SELECT g, count(*) AS n FROM s [RANGE 10] GROUP BY g LIMIT 1", "each group has windows of its own"),
        (f"SELECT g, count(*) AS n {TEN} LIMIT 0", "write how many results of each window"),
        (f"SELECT g, count(*) AS n {TEN} ORDER BY m", "'m'"),
        (
            f"SELECT g, count(*) AS n {TEN} ORDER BY row_number() OVER (PARTITION BY window_start)",
            r"give the OVER \(…\) a name in select",
        ),
        (f"SELECT g, count(*) AS n {TEN} UNION ALL SELECT g, count(*) AS n {TEN} LIMIT 1", "parentheses"),
        (
            f"SELECT * FROM (SELECT g, count(*) AS n {TEN} UNION ALL SELECT g, count(*) AS n {TEN}) LIMIT 1",
            "put the union before the window",
        ),
        (f"SELECT g, ntile(2) OVER (PARTITION BY window_start) AS r, count(*) AS n {TEN}", "in process OVER has"),
    ],
)
def test_what_cannot_be_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises((QueryError, SqlError), match=message):
        plan(text)


def test_a_prod_with_a_condition_is_refused() -> None:
    top = plan_of(f"SELECT g, count(*) AS n {TEN} LIMIT 1")
    with pytest.raises(QueryError, match="needs all of them; leave where= out"):
        read_prod(top, ProdRequest(where="g = 'a'"), ArrowBackend())


def test_a_limit_replaces_none_and_takes_no_text() -> None:
    rows = logical(f"SELECT g, count(*) AS n {TEN}")
    with pytest.raises(QueryError, match=r"limit\('3'\)"):
        analyse(L.Sort((rows,), (), "3"), types())  # type: ignore[arg-type]
