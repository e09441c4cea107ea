"""SELECT: what a text means, as the nodes that the fluent API builds."""

from __future__ import annotations

import pytest

from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.sql.write import to_sql
from tests.kit.sql import SCOPE, TYPES, described, logical, plan

TRIPS = L.Scan("trips")
HOURLY = L.Window("1 hour", "10 minutes")
WINDOW = "[RANGE 1 HOUR, SLIDE 10 MINUTES]"


def aggregate(
    rows: L.Logical = TRIPS,
    window: L.Window = HOURLY,
    groups: tuple[L.Column, ...] = (),
    **aggregates: str,
) -> L.Aggregate:
    return L.Aggregate((rows,), window, groups, tuple(aggregates.items()))


CARRIER: tuple[L.Column, ...] = ((None, "carrier"),)
QUERIES: list[tuple[str, L.Logical]] = [
    ("SELECT * FROM trips", TRIPS),
    (
        "SELECT carrier, delay / 60 AS hours FROM trips",
        L.Select((TRIPS,), ((None, "carrier"), ("hours", "delay / 60"))),
    ),
    ("SELECT delay hours FROM trips", L.Select((TRIPS,), (("hours", "delay"),))),
    ("SELECT *, delay * 2 AS d FROM trips", L.Select((TRIPS,), ((None, "*"), ("d", "delay * 2")))),
    ("SELECT * FROM trips WHERE delay > 0", L.Where((TRIPS,), "delay > 0")),
    (
        "SELECT t.carrier, upper(t.dest) AS d FROM trips AS t WHERE t.delay > 0",
        L.Select((L.Where((TRIPS,), "delay > 0"),), ((None, "carrier"), ("d", "upper(dest)"))),
    ),
    (
        "SELECT carrier FROM trips WHERE dest IS DISTINCT FROM 'JFK'",
        L.Select((L.Where((TRIPS,), "dest IS DISTINCT FROM 'JFK'"),), ((None, "carrier"),)),
    ),
    (f"SELECT count(*) AS n FROM trips {WINDOW}", aggregate(n="count(*)")),
    (
        f"SELECT count(*) FILTER (WHERE ok) AS n, first(dest) IGNORE NULLS d FROM trips {WINDOW}",
        aggregate(n="count(*) FILTER (WHERE ok)", d="first(dest) IGNORE NULLS"),
    ),
    (
        f"SELECT count(*) FILTER (WHERE t.ok) / count(*) AS share FROM trips t {WINDOW}",
        aggregate(share="count(*) FILTER (WHERE ok) / count(*)"),
    ),
    (
        f"SELECT carrier, count(*) AS n FROM trips {WINDOW} WHERE ok GROUP BY carrier",
        aggregate(L.Where((TRIPS,), "ok"), groups=CARRIER, n="count(*)"),
    ),
    (
        f"SELECT t.carrier, avg(t.delay) AS late FROM trips t {WINDOW} GROUP BY t.carrier",
        aggregate(groups=CARRIER, late="avg(delay)"),
    ),
    (
        f"SELECT upper(carrier) AS c, count(*) AS n FROM trips {WINDOW} GROUP BY upper( carrier )",
        aggregate(groups=(("c", "upper( carrier )"),), n="count(*)"),
    ),
    (
        f"SELECT upper(carrier) AS c, count(*) AS n FROM trips {WINDOW} GROUP BY c",
        aggregate(groups=(("c", "upper(carrier)"),), n="count(*)"),
    ),
    (
        f"SELECT upper(carrier) AS c, count(*) AS n FROM trips {WINDOW} GROUP BY 1",
        aggregate(groups=(("c", "upper(carrier)"),), n="count(*)"),
    ),
    (
        f"SELECT upper(carrier) AS carrier, count(*) AS n FROM trips {WINDOW} GROUP BY carrier",
        L.Select((aggregate(groups=CARRIER, n="count(*)"),), (("carrier", "upper(carrier)"), (None, "n"))),
    ),
    (
        f"SELECT count(*) AS n, carrier FROM trips {WINDOW} GROUP BY carrier",
        L.Select((aggregate(groups=CARRIER, n="count(*)"),), ((None, "n"), (None, "carrier"))),
    ),
    (
        f"SELECT count(*) AS n FROM trips {WINDOW} GROUP BY carrier",
        L.Select((aggregate(groups=CARRIER, n="count(*)"),), ((None, "n"),)),
    ),
    (
        f"SELECT sum(delay) / count(*) AS mean, window_start FROM trips {WINDOW}",
        aggregate(mean="sum(delay) / count(*)"),
    ),
    (
        f"SELECT carrier, count(*) AS n FROM trips {WINDOW} GROUP BY carrier HAVING n > 5 AND carrier <> 'AA'",
        L.Where((aggregate(groups=CARRIER, n="count(*)"),), "n > 5 AND carrier <> 'AA'"),
    ),
    (
        f"SELECT carrier, count(*) AS n FROM trips {WINDOW} GROUP BY carrier HAVING COUNT( * ) > 5",
        L.Where((aggregate(groups=CARRIER, n="count(*)"),), "`n` > 5"),
    ),
    (
        f"SELECT t.carrier AS c, count(*) AS n FROM trips t {WINDOW} GROUP BY t.carrier "
        "HAVING max(t.delay) > 5 AND t.carrier <> 'AA'",
        L.Select(
            (
                L.Where(
                    (aggregate(groups=(("c", "carrier"),), n="count(*)", having_1="max(delay)"),),
                    "`having_1` > 5 AND `c` <> 'AA'",
                ),
            ),
            ((None, "c"), (None, "n")),
        ),
    ),
    (
        "SELECT max(n) AS most FROM (SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES] "
        "GROUP BY carrier) [RANGE 10 MINUTES, SLIDE 10 MINUTES] WHERE n > 1",
        aggregate(
            L.Where((aggregate(groups=CARRIER, n="count(*)"),), "n > 1"),
            L.Window("10 minutes", "10 minutes"),
            most="max(n)",
        ),
    ),
    (
        f"WITH late AS (SELECT * FROM trips WHERE delay > 0), n AS (SELECT count(*) AS n FROM late {WINDOW}) "
        "SELECT n + 1 AS m FROM n",
        L.Select((aggregate(L.Where((TRIPS,), "delay > 0"), n="count(*)"),), (("m", "n + 1"),)),
    ),
    ("SELECT * FROM trips UNION ALL SELECT * FROM trips WHERE ok", L.Union((TRIPS, L.Where((TRIPS,), "ok")))),
    (
        "SELECT ts FROM trips UNION ALL SELECT ts FROM Sensors UNION ALL SELECT ts FROM traffic",
        L.Union(tuple(L.Select((L.Scan(s),), ((None, "ts"),)) for s in ("trips", "Sensors", "traffic"))),
    ),
    ("SELECT * FROM trips UNION ALL ORDERED SELECT * FROM trips", L.Union((TRIPS, TRIPS), ordered=True)),
    (
        "(SELECT * FROM trips) UNION ALL (SELECT * FROM trips WHERE ok)",
        L.Union((TRIPS, L.Where((TRIPS,), "ok"))),
    ),
    (
        "(SELECT * FROM trips UNION ALL SELECT * FROM trips) UNION ALL "
        "(WITH v AS (SELECT * FROM trips) SELECT * FROM v)",
        L.Union((L.Union((TRIPS, TRIPS)), TRIPS)),
    ),
    (
        "SELECT * FROM ((SELECT * FROM trips) UNION ALL (SELECT * FROM trips)) WHERE ok",
        L.Where((L.Union((TRIPS, TRIPS)),), "ok"),
    ),
    (
        "SELECT * FROM (SELECT * FROM trips UNION ALL SELECT * FROM trips) UNION ALL SELECT * FROM trips",
        L.Union((L.Union((TRIPS, TRIPS)), TRIPS)),
    ),
    (
        f"SELECT carrier, count(*) AS n FROM (SELECT * FROM trips UNION ALL SELECT * FROM trips) AS t {WINDOW} "
        "WHERE t.ok GROUP BY t.carrier",
        aggregate(L.Where((L.Union((TRIPS, TRIPS)),), "ok"), groups=CARRIER, n="count(*)"),
    ),
    (
        f"WITH v AS (SELECT count(*) AS n FROM trips {WINDOW} UNION ALL "
        f"SELECT count(*) AS n FROM traffic {WINDOW}) SELECT max(n) AS most FROM v {WINDOW}",
        aggregate(L.Union((aggregate(n="count(*)"), aggregate(L.Scan("traffic"), n="count(*)"))), most="max(n)"),
    ),
]


@pytest.mark.parametrize(("text", "nodes"), QUERIES)
def test_a_text_becomes_the_nodes_of_the_fluent_api(text: str, nodes: L.Logical) -> None:
    assert logical(text) == nodes
    assert plan(text) == analyse(nodes, TYPES)
    assert logical(to_sql(nodes, SCOPE)) == nodes


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("FROM trips [RANGE 90 SECONDS]", L.Window("90 seconds")),
        ("FROM trips [ROWS 100]", L.Window(rows=100)),
        ("FROM trips [RANGE 100 tuples, WATTR seats]", L.Window(rows=100, wattr="seats")),
        ("FROM trips [RANGE 1 HOUR 30 MINUTES, SLIDE 30min]", L.Window("1 hour 30 minutes", "30 min")),
        ("FROM trips [RANGE 2d, SLIDE 5s]", L.Window("2 d", "5 s")),
        ("FROM trips [RANGE '1 hour', SLIDE INTERVAL '10' MINUTE]", L.Window("1 hour", "10 minute")),
        (
            "FROM trips [RANGE INTERVAL 1 HOUR, SLIDE 1 HOUR, OFFSET 5 MINUTES]",
            L.Window("1 hour", "1 hour", "5 minutes"),
        ),
        (
            "FROM trips [RANGE 10 MINUTES, SLIDE 2 MINUTES, WATTR ts, DRATIO 1%]",
            L.Window("10 minutes", "2 minutes", wattr="ts", disorder=drop_ratio(0.01)),
        ),
        (
            "FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR, DISORDER BOUNDED 5 MINUTES TIMEOUT 1 HOUR]",
            L.Window("1 hour", "1 hour", disorder=bounded("5 minutes", timeout="1 hour")),
        ),
        ("FROM trips WINDOW [RANGE = 50 SECONDS, SLIDE = 50 SECONDS]", L.Window("50 seconds", "50 seconds")),
        ("FROM trips WHERE ok WINDOW[Range 10min, Slide 2min]", L.Window("10 min", "2 min")),
        ("FROM trips GROUP BY window(ts, '10 minutes')", L.Window("10 minutes", "10 minutes", wattr="ts")),
        (
            "FROM trips t GROUP BY window(t.ts, '10 minutes', '2 minutes', '1 minute')",
            L.Window("10 minutes", "2 minutes", "1 minute", wattr="ts"),
        ),
        (
            "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTES))",
            L.Window("10 minutes", "10 minutes", wattr="ts"),
        ),
        (
            "FROM HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES) "
            "GROUP BY window_start, window_end",
            L.Window("10 minutes", "2 minutes", wattr="ts"),
        ),
        (
            "FROM TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' MINUTE)",
            L.Window("10 minutes", "10 minutes", "1 minute", wattr="ts"),
        ),
        ("FROM trips [RANGE 1 HOUR, STEP 10 MINUTES]", L.Window("1 hour", step="10 minutes")),
        ("FROM trips [RANGE 1 MINUTE, SLIDE 1 HOUR]", L.Window("1 minute", "1 hour")),
        (
            "FROM CUMULATE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' HOUR)",
            L.Window("1 hour", step="10 minutes", wattr="ts"),
        ),
        ("FROM trips [SESSION 5 MINUTES]", L.Window(gap="5 minutes")),
        ("FROM trips [RANGE 100 TUPLES, SLIDE 10 TUPLES]", L.Window(rows=100, slide=10)),
        ("FROM trips [ROWS 100, SLIDE 10 ROWS]", L.Window(rows=100, slide=10)),
        (
            "FROM trips GROUP BY dest WINDOW [SESSION = 5 MINUTES, WATTR ts, DRATIO 1%]",
            L.Window(gap="5 minutes", wattr="ts", disorder=drop_ratio(0.01)),
        ),
        ("FROM trips GROUP BY session_window(ts, '5 minutes')", L.Window(gap="5 minutes", wattr="ts")),
        (
            "FROM SESSION(TABLE trips, DESCRIPTOR(ts), INTERVAL '5' MINUTES) GROUP BY window_start, window_end",
            L.Window(gap="5 minutes", wattr="ts"),
        ),
        (
            "FROM TABLE(SESSION(TABLE trips PARTITION BY dest, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) "
            "GROUP BY dest, window_start, window_end",
            L.Window(gap="5 minutes", wattr="ts"),
        ),
    ],
)
def test_windows_can_be_written_in_many_ways(written: str, window: L.Window) -> None:
    node = logical(f"SELECT count(*) AS n {written}")
    assert logical(to_sql(node, SCOPE)) == node
    aggregate = node.inputs[0] if isinstance(node, L.Select) else node
    assert isinstance(aggregate, L.Aggregate)
    assert aggregate.window == window
    plan(f"SELECT count(*) AS n {written}")


@pytest.mark.parametrize(
    "written",
    [
        "SELECT * FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES] WHERE ok",
        "SELECT * FROM HOP(trips, DESCRIPTOR(window_time), INTERVAL '10' MINUTES, INTERVAL '1' HOUR) WHERE ok",
    ],
)
def test_rows_have_the_bounds_of_their_windows(written: str) -> None:
    rows = L.InWindows((L.Where((L.Scan("trips"),), "ok"),), L.Window("1 hour", "10 minutes"))
    assert logical(written) == rows
    assert plan(written).schema.names[-2:] == ["window_start", "window_end"]
    some = L.Select((rows,), ((None, "carrier"), (None, "window_start")))
    assert logical(written.replace("*", "carrier, window_start")) == some
    for nodes in (rows, some):
        assert logical(to_sql(nodes, SCOPE)) == nodes


@pytest.mark.parametrize(
    "written",
    [
        "FROM trips WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY carrier",
        "FROM trips WHERE true WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 1 HOUR) GROUP BY carrier",
        'FROM "trips" AS "t" [RANGE INTERVAL \'1\' HOUR, SLIDE INTERVAL 1 HOUR] GROUP BY t.carrier',
        "FROM TUMBLE(trips, window_time, INTERVAL '1 hour') GROUP BY 1",
        "FROM HOP(trips, window_time, INTERVAL 1 HOUR, INTERVAL 1 HOUR) GROUP BY carrier",
        "FROM trips GROUP BY window(ts, '1 hour'), 1",
        "FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier EMIT ON WINDOW CLOSE",
        "FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier EMIT FINAL",
    ],
)
def test_windows_as_other_systems_write_them(written: str) -> None:
    plain = "SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier"
    assert (
        described(f"SELECT carrier, count(*) AS n {written}").splitlines()[-2:]
        == described(plain).splitlines()[-2:]
    )


def test_a_window_may_have_a_name() -> None:
    text = "SELECT carrier, count(*) AS n, rank() OVER {} AS r FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY 1"
    inside = "(PARTITION BY window_start ORDER BY count(*) DESC)"
    assert logical(f"{text.format('w')} WINDOW w AS {inside}") == logical(text.format(inside))
    qualify = "QUALIFY rank() OVER {} <= 3"
    named = f"{text.format('w')} WINDOW v AS (PARTITION BY window_end), w AS {inside} {qualify.format('w')}"
    assert logical(named) == logical(f"{text.format(inside)} {qualify.format(inside)}")


def test_results_are_compared_with_one_value_of_their_window() -> None:
    counts = "SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier"
    window = "[RANGE 1 HOUR, SLIDE 1 HOUR]"
    most = f"SELECT max(m) AS best FROM (SELECT count(*) AS m FROM gates {window} GROUP BY carrier) {window}"
    for where, on in (("n > ({})", "n > best"), ("({}) <= n + 1", "(n + 1) >= best")):
        query = logical(f"SELECT * FROM ({counts}) WHERE {where.format(most)}")
        assert isinstance(query, L.Join) and (query.on, query.how) == (on, "semi")
        assert query.inputs[0] == logical(counts)
        assert logical(to_sql(query, SCOPE)) == query
    plan(f"SELECT * FROM ({counts}) WHERE n > ({most}) AND carrier <> 'x'")


def test_sparks_struct_of_a_session_is_made_of_the_bounds() -> None:
    node = logical(
        "SELECT session_window.start AS since, session_window, count(*) AS n FROM trips "
        "GROUP BY session_window(ts, '5 minutes'), dest"
    )
    assert isinstance(node, L.Select)
    struct = "named_struct('start', window_start, 'end', window_end)"
    assert node.columns == (("since", "window_start"), ("session_window", struct), (None, "n"))


def test_sequences_have_plain_numbers() -> None:
    node = logical("SELECT count(*) AS n FROM s [RANGE 50, SLIDE 25]")
    assert isinstance(node, L.Aggregate) and node.window == L.Window(50, 25)


def test_names_of_streams_are_found_in_any_capitals() -> None:
    assert logical("select * from TRIPS") == TRIPS
    assert logical("select * from sensors") == L.Scan("Sensors")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("MAX(delay)", "max(delay)"),
        ("MAX( delay )", "max( delay )"),
        ("MAX(delay) - Min(delay)", "max(delay) - min(delay)"),
    ],
)
def test_an_aggregate_without_a_name_is_called_as_it_is_written(written: str, name: str) -> None:
    node = logical(f"SELECT {written} FROM trips {WINDOW}")
    assert isinstance(node, L.Aggregate) and node.aggregates == ((name, written),)


#: Spark SQL that many parsers stumble over.
EXPRESSIONS = r"""
a IS NOT DISTINCT FROM b | x[0] | m['k'].y | transform(a, x -> x + 1) | aggregate(a, 0, (acc, x) -> acc + x)
CAST(a AS DECIMAL(10,2)) | a::int | CASE WHEN a THEN 1 ELSE 2 END | INTERVAL '1' DAY | ts + INTERVAL 1 DAY 2 HOURS
extract(day from ts) | trim(both 'x' from s) | position('a' in b) | a LIKE 'x%' ESCAPE '!' | a RLIKE 'x' | a <=> b
a NOT IN (1,2) | a == b | !a | ~a | a ^ b | a DIV b | 10L | 1.5BD | 2S | x'1F'
TIMESTAMP '2013-01-01 00:00:00'
timestampdiff(MICROSECOND, a, b) | named_struct('a', 1).a | date_trunc('hour', ts) | substring(a from 1 for 2)
overlay(a placing b from 1) | regexp_extract(a, '(\\d+)', 1) | from_json(a, 'x INT')
array_sort(a, (l, r) -> l - r)
exists(a, x -> x > 1) | split(a, ',')[1] | `a b`.c | "it's" | 'it''s' | r'\d' | int(delay > 15)
hour(ts) | left(a, 1)
a COLLATE UTF8_LCASE | interval '10:20' hour to minute | (a, b) in ((1, 2)) | f(a => 1) | a || b | -a % 2
window | emit
"""


@pytest.mark.parametrize(
    "expression", [e.strip() for line in EXPRESSIONS.strip().split("\n") for e in line.split(" | ")]
)
def test_expressions_reach_spark_in_the_users_own_words(expression: str) -> None:
    node = logical(f"SELECT  {expression}  AS v /* a comment */ FROM trips WHERE ({expression}) IS NULL -- the end")
    assert node == L.Select((L.Where((TRIPS,), f"({expression}) IS NULL"),), (("v", expression),))
