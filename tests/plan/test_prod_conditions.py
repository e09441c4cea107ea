"""Conditions of prods in process: what fails on a group asks for nothing, what goes by other groups is refused.

What Spark answers is in tests/spark/test_prods_on_spark.py.
"""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest

from slackwater.errors import QueryError
from slackwater.operators.prod_request import read_prod
from slackwater.plan.condition import check_condition_text
from slackwater.plan.request import ProdRequest
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.streams import SAMPLE, frame

GROUPS = pl.DataFrame({"k": ["AA", "7", None], "n": [1, 2, 3], "day": [date(2013, 1, d) for d in (1, 2, 3)]})
ROWS = frame([[1, "a"], [2, "7"], [3, None], [4, "7"]])


def matching(groups: pl.DataFrame, where: str) -> pl.DataFrame:
    check_condition_text(where)
    return groups[ArrowPages().here.matching(groups, where)]


def by_group() -> Script:
    return Script(arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(5), n="count(*)")).page(ROWS)


@pytest.mark.parametrize(
    ("where", "met"),
    [
        ("k = 'AA'", [1]),
        ("CAST(k AS INT) = 7", [2]),
        ("k::int = 7 OR k IS NULL", [2, 3]),
        ("k LIKE 'A%' AND NOT n IN (2, 3)", [1]),
        ("lower(k) = 'aa' -- and no more", [1]),
        ("CASE WHEN n = 1 THEN true ELSE k = '7' END", [1, 2]),
        ("day > DATE '2013-01-01'", [2, 3]),
        ("extract(day FROM day) BETWEEN 2 AND 3", [2, 3]),
        ("k = 'O''Hare'", []),
        ("lower(K) = 'aa' OR N = 2", [1, 2]),
        ('k = "AA"', [1]),
    ],
)
def test_a_condition_goes_by_one_group_and_a_cast_that_fails_gives_null(where: str, met: list[int]) -> None:
    assert matching(GROUPS, where)["n"].to_list() == met


@pytest.mark.parametrize(
    "where",
    [
        *("count(*) > 0", "max(n) = n", "first(k) = 'AA'", "row_number() = 1", "sum(n) OVER () > 1"),
        *("n IN (SELECT 1)", "n > ALL (SELECT 1)", "EXISTS (SELECT 1)", "explode(n) = 1", "random() > 0.5"),
        *("*", "k = 'AA' AS x", "k = 'AA'; DROP TABLE x", "k", "n", "", "k = 'O'Hare'", "k REGEXP '('", "x = 1"),
    ],
)
def test_what_is_no_condition_on_one_group_is_refused(where: str) -> None:
    for groups in (GROUPS, GROUPS.clear(1)):
        with pytest.raises(QueryError):
            matching(groups, where)


def test_a_refusal_says_what_to_write() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, group_by=["g"], n="count(*)")
    with pytest.raises(QueryError, match=r"MAX\(g\) cannot be used here; write a plain condition .*\(g\), as in"):
        read_prod(plan, ProdRequest(where="max(g) = g"), ArrowPages().here)
    with pytest.raises(QueryError, match=r"where=5\): that is no condition"):
        read_prod(plan, ProdRequest(where=5), ArrowPages().here)  # type: ignore[arg-type]


def test_a_prod_whose_condition_fails_on_the_groups_is_counted_and_harms_nobody() -> None:
    script = by_group()
    script.prod(where="g::int = 7")
    assert [(r["g"], r["n_seen"]) for r in script.results] == [("7", 2)]
    script.prod(where="CAST(g AS DATE) > DATE '2013-01-01'").prod(where="n > ALL (SELECT 1)")
    assert len(script.results) == 1
    figures = next(f for label, f in script.metrics().items() if label.endswith("/window"))
    assert figures["prods_refused"] == 2
    script.drain()
    assert sorted(r["n"] for r in script.results if r["kind"] == "final") == [1, 1, 2]
