"""A SQL clause of one's own: `SELECT … KEEP EVERY 3 OF id` gives the rows whose id is a multiple of 3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slackwater.errors import SqlError
from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor
from slackwater.sql.end_clauses import END_CLAUSES, EndClause
from slackwater.sql.expression import read_expression
from slackwater.sql.values import read_count
from slackwater.sql.write import to_sql
from slackwater.testing import Script
from tests.kit.sql import SCOPE, logical, plan, select
from tests.kit.streams import frame


def read_keep(cursor: Cursor, query: L.Logical) -> L.Logical:
    each = read_count(cursor, "a whole number, as in KEEP EVERY 3 OF id")
    if each < 1:
        raise cursor.error("KEEP EVERY 0 would keep nothing; write 1 or more")
    cursor.expect("OF")
    number = read_expression(cursor, "a column of whole numbers").text
    return L.Where((query,), f"{number} % {each} = 0")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    clause = EndClause(("KEEP", "EVERY"), read_keep)
    END_CLAUSES.append(clause)
    yield
    END_CLAUSES.remove(clause)


def test_it_filters_rows_and_results() -> None:
    assert logical("SELECT i FROM s KEEP EVERY 3 OF i") == L.Where((logical("SELECT i FROM s"),), "i % 3 = 0")
    text = "SELECT h, count(*) AS n FROM s [RANGE 10, SLIDE 10] GROUP BY h KEEP EVERY 2 OF n EMIT EARLY AT 75%"
    assert select(text).early is not None
    script = Script(plan(text)).page(frame([[1, "a", 1], [2, "a", 1], [3, "a", 2], [30, "a", 2]])).drain()
    assert [(row["h"], row["n"]) for row in script.results] == [(1, 2)]


def test_the_query_can_be_written_back_as_sql() -> None:
    found = logical("SELECT i FROM s WHERE i > 1 KEEP EVERY 3 OF i")
    assert plan(to_sql(found, SCOPE, None, None)) == plan("SELECT i FROM s WHERE i > 1 KEEP EVERY 3 OF i")


def test_mistakes_are_shown_where_they_are_and_columns_keep_their_names() -> None:
    with pytest.raises(SqlError, match="KEEP EVERY 0 would keep nothing"):
        logical("SELECT i FROM s KEEP EVERY 0 OF i")
    with pytest.raises(SqlError, match="expected OF"):
        logical("SELECT i FROM s KEEP EVERY 3 i")
    assert logical("SELECT i AS keep FROM s keep") == logical("SELECT i AS keep FROM s AS keep")
