"""Conditions of prods: what fails on a group asks for nothing, and what goes by other groups is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from slackwater.errors import QueryError
from slackwater.operators.prod_request import read_prod
from slackwater.plan.ask import Ask
from slackwater.plan.condition import matching_groups
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

GROUPS = pl.DataFrame({"k": ["AA", "7", None], "n": [1, 2, 3], "day": [date(2013, 1, d) for d in (1, 2, 3)]})
HOURS = [datetime(1970, 1, 1, hour) for hour in (0, 1, 23)]  # noqa: DTZ001
TIMED = GROUPS.with_columns(
    pl.Series("ts", [hour.replace(tzinfo=UTC) for hour in HOURS]),
    pl.Series("tn", HOURS),
    pl.Series("my key", ["z A", "", None]),
    pl.Series("m", ["0.25", "1.00", None]).cast(pl.Decimal(8, 2)),
)
ROWS = frame([[1, "a"], [2, "7"], [3, None], [4, "7"]])


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
        ("concat(k, 'x') = 'x' OR k = \"AA\"", [1]),
    ],
)
def test_a_condition_goes_by_one_group_and_a_cast_that_fails_gives_null(where: str, met: list[int]) -> None:
    assert matching_groups(GROUPS, where)["n"].to_list() == met


@pytest.mark.parametrize(
    ("where", "met"),
    [
        ("ts = TIMESTAMP '1970-01-01 01:00:00'", [2]),
        ("ts > TIMESTAMP '1970-01-01T00:00:00Z'", [2, 3]),
        ("ts >= TIMESTAMP '1970-01-01 03:00:00+02:00'", [2, 3]),
        ("ts IN (TIMESTAMP '1970-01-01 01:00:00', TIMESTAMP '1970-01-01')", [1, 2]),
        ("tn = TIMESTAMP_NTZ '1970-01-01 01:00:00' OR tn < TIMESTAMP '1970-01-01 01:00:00Z'", [1, 2]),
        ("ts = tn AND hour(ts) = 23", [3]),
        ("date(ts) = DATE '1970-01-01' AND CAST(tn AS DATE) < day", [1, 2, 3]),
        ("ts > '1970-01-01' AND ts < '1970-01-01 23:00'", [2]),
        ("day = '2013-1-2' OR day > '2013-01-02'", [2, 3]),
        ("day BETWEEN '2013-01-01' AND '2013-01-02'", [1, 2]),
        ("day IN ('2013-01-02', NULL)", [2]),
        ("n = '1' OR ' 3 ' = N", [1, 3]),
        ("m = '0.25' OR m > '.9'", [1, 2]),
        ("n = 'x' OR day = '2013-13-01' OR ts = 'x' OR n = 1", [1]),
        ("`my key` = 'z A' OR `My Key` = ''", [1, 2]),
        ("\"my key\" = 'z A'", []),
    ],
)
def test_times_and_texts_are_compared_as_spark_compares_them(where: str, met: list[int]) -> None:
    found = matching_groups(TIMED, where)
    assert found["n"].to_list() == met
    assert found.schema == TIMED.schema
    assert matching_groups(found.clear(), where).height == 0


@pytest.mark.parametrize(
    "where",
    [
        *("ts = TIMESTAMP 'x'", "ts = TIMESTAMP '1970-01-01 25:00:00'", "ts > '1970-01-01 03:00:00+02:00'"),
        *("ts > TIMESTAMP '1970-01-01 00:00:00 Mars'", "tn > TIMESTAMP_NTZ '1970-01-01 03:00:00+02:00'"),
        *("day < '10000-01-01'", "day = 1", "day = DATE 'x'", "day IN ('2013-1-2')", "n = '1.5'", "n < '1e30'"),
        *("CAST(ts AS STRING) = ''", "CAST(ts AS BIGINT) = 3600", "CAST(n AS TIMESTAMP) = ts", "k = n"),
        *("CAST(k AS DATE) = day", "t.n = 1", "substring(k, -1) = 'A'", "left(k, 0) = ''", "k LIKE 'A\\_'"),
        *("extract(second FROM ts) = 0", "extract(dow FROM day) = 1", "initcap(k) = 'Aa'"),
    ],
)
def test_what_polars_would_answer_otherwise_than_spark_is_refused(where: str) -> None:
    with pytest.raises(QueryError):
        matching_groups(TIMED, where)


def test_names_are_those_of_the_keys_alone() -> None:
    groups = GROUPS.with_columns(K=pl.lit("AA"))
    assert matching_groups(groups, "K = '7'", ["k", "n"])["n"].to_list() == [2]
    with pytest.raises(QueryError, match="'day' names none of the columns"):
        matching_groups(groups, "day IS NULL", ["k", "n"])
    twice = GROUPS.select("n", kk="k", KK="k")
    assert matching_groups(twice, "KK = '7'")["n"].to_list() == [2]
    with pytest.raises(QueryError, match="'Kk' names more than one column"):
        matching_groups(twice, "Kk = '7'")


def test_a_zone_of_a_column_is_kept() -> None:
    berlin = TIMED.with_columns(pl.col("ts").dt.convert_time_zone("Europe/Berlin"))
    found = matching_groups(berlin, "hour(ts) = 23 AND date(ts) = '1970-01-01'")
    assert found.equals(berlin.tail(1))
    assert found["ts"][0].utcoffset() == timedelta(hours=1)


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
            matching_groups(groups, where)


def test_a_refusal_says_what_to_write() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, group_by=["g"], n="count(*)")
    with pytest.raises(QueryError, match=r"MAX\(g\) cannot be used here; write a plain condition .*\(g\), as in"):
        read_prod(plan, Ask(where="max(g) = g"))
    with pytest.raises(QueryError, match=r"where=5\): that is no condition"):
        read_prod(plan, Ask(where=5))  # type: ignore[arg-type]


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
