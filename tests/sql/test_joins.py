"""Joins in SQL: the nodes that the fluent API builds, with the columns of the sides told apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope
from slackwater.sql.write import to_sql
from tests.kit.sql import SCOPE, TYPES, logical, plan

TRIPS, GATES, TRAFFIC = L.Scan("trips"), L.Scan("gates"), L.Scan("traffic")
TEN, FIVE, HOUR = L.Window("10 minutes"), L.Window("5 minutes"), L.Window("1 hour")
TRIP, GATE = ("ts", "carrier", "dest", "delay", "seats", "ok"), ("ts", "carrier", "gate", "minutes")


def apart(rows: L.Logical, columns: tuple[str, ...], **renamed: str) -> L.Select:
    """A side with some columns under other names."""
    return L.Select((rows,), tuple((renamed[c], c) if c in renamed else (None, c) for c in columns))


X = apart(TRIPS, TRIP, ts="x_ts", carrier="x_carrier")
Y = apart(GATES, GATE, ts="y_ts", carrier="y_carrier")
SEATS = ((None, "code"), (None, "name"), ("c_seats", "seats"))


def pairs(
    on: str | tuple[str, ...] | None = "x_carrier = y_carrier",
    how: str = "inner",
    windows: tuple[L.Window | None, L.Window | None] = (TEN, FIVE),
    left: L.Logical = X,
    right: L.Logical = Y,
) -> L.Join:
    return L.Join((left, right), windows, on, how)


BOTH = "trips [RANGE 10 MINUTES] AS x JOIN gates AS y [RANGE 5 MINUTES] ON x.carrier = y.carrier"
QUERIES: list[tuple[str, L.Logical]] = [
    (f"SELECT * FROM {BOTH}", pairs()),
    ("SELECT * FROM trips x [RANGE 10 MINUTES] JOIN gates [RANGE 5 MINUTES] y ON x.carrier = y.carrier", pairs()),
    *(
        (f"SELECT * FROM {BOTH.replace('JOIN', words)}", pairs(how=how))
        for words, how in [
            ("INNER JOIN", "inner"),
            ("LEFT JOIN", "left"),
            ("LEFT OUTER JOIN", "left"),
            ("RIGHT JOIN", "right"),
            ("RIGHT OUTER JOIN", "right"),
            ("FULL JOIN", "full"),
            ("full outer join", "full"),
        ]
    ),
    # What ON says of the times of both is how long rows are kept.
    (
        "SELECT * FROM trips x JOIN gates y ON x.carrier = y.carrier AND y.ts - x.ts <= INTERVAL 1 HOUR "
        "AND y.ts > x.ts",
        pairs("x_carrier = y_carrier AND y_ts - x_ts <= INTERVAL 1 HOUR AND y_ts > x_ts", windows=(None, None)),
    ),
    # Of a semi join only the left side is shown: its columns keep their names.
    *(
        (f"SELECT * FROM {BOTH.replace('JOIN', words)}", pairs("carrier = y_carrier", how, left=TRIPS))
        for words, how in [("LEFT SEMI JOIN", "semi"), ("SEMI JOIN", "semi"), ("LEFT ANTI JOIN", "anti")]
    ),
    (
        "SELECT * FROM trips x [NOW] CROSS JOIN gates y [ROWS 9]",
        pairs(None, windows=(L.Window(L.NOW), L.Window(rows=9))),
    ),
    # Columns that one side has keep their names; shown alone, the others do too.
    (
        f"SELECT x.carrier, gate, x.delay + minutes AS d, y.ts AS `at` FROM {BOTH} "
        "WHERE y.gate <> 'B' AND X.Delay > 0",
        L.Select(
            (L.Where((pairs(),), "gate <> 'B' AND Delay > 0"),),
            (("carrier", "x_carrier"), (None, "gate"), ("d", "delay + minutes"), ("at", "y_ts")),
        ),
    ),
    (
        f"SELECT x.carrier, y.carrier, y.ts FROM {BOTH}",
        L.Select((pairs(),), ((None, "x_carrier"), (None, "y_carrier"), ("ts", "y_ts"))),
    ),
    (
        f"SELECT y.* FROM {BOTH}",
        L.Select((pairs(),), (("ts", "y_ts"), ("carrier", "y_carrier"), (None, "gate"), (None, "minutes"))),
    ),
    (
        f"SELECT y.*, x.ts FROM {BOTH}",
        L.Select(
            (pairs(),),
            ((None, "y_ts"), ("carrier", "y_carrier"), (None, "gate"), (None, "minutes"), (None, "x_ts")),
        ),
    ),
    # A list: the conditions of both sides are the join's.
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES], gates y [RANGE 5 MINUTES] "
        "WHERE x.carrier = y.carrier AND delay BETWEEN 1 AND 2 AND (x.ts < y.ts OR ok)",
        L.Where((pairs("x_carrier = y_carrier AND (x_ts < y_ts OR ok)"),), "delay BETWEEN 1 AND 2"),
    ),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES], gates y [RANGE 5 MINUTES] WHERE x.carrier = y.carrier OR ok",
        pairs("x_carrier = y_carrier OR ok"),
    ),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES], gates y [RANGE 5 MINUTES] WHERE delay > 0",
        L.Where((pairs(None),), "delay > 0"),
    ),
    # USING: one column of two.
    (
        "SELECT carrier, x.ts FROM trips x [RANGE 10 MINUTES] FULL JOIN gates y [RANGE 5 MINUTES] USING (carrier)",
        L.Select(
            (pairs(("carrier",), "full", left=apart(TRIPS, TRIP, ts="x_ts"), right=apart(GATES, GATE, ts="y_ts")),),
            ((None, "carrier"), ("ts", "x_ts")),
        ),
    ),
    (
        "SELECT x.delay FROM trips x [RANGE 10 MINUTES] SEMI JOIN gates y [RANGE 5 MINUTES] USING (carrier, ts)",
        L.Select((pairs(("carrier", "ts"), "semi", left=TRIPS, right=GATES),), ((None, "delay"),)),
    ),
    # Rows of the same window, in brackets and as Flink writes it.
    (
        "SELECT x.carrier, window_start, y.window_end, gate FROM trips x [RANGE 1 HOUR, SLIDE 10 MINUTES] "
        "JOIN gates y [RANGE 1 HOUR, SLIDE 10 MINUTES] ON x.carrier = y.carrier",
        L.Select(
            (pairs(windows=(L.Window("1 hour", "10 minutes"),) * 2),),
            (("carrier", "x_carrier"), (None, "window_start"), (None, "window_end"), (None, "gate")),
        ),
    ),
    (
        "SELECT x.carrier, x.window_start FROM TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR) x "
        "LEFT JOIN TUMBLE(TABLE gates, DESCRIPTOR(ts), INTERVAL '1' HOUR) y "
        "ON x.carrier = y.carrier AND x.window_start = y.window_start AND x.window_end = y.window_end",
        L.Select(
            (
                pairs(
                    "x_carrier = y_carrier AND window_start = window_start AND window_end = window_end",
                    "left",
                    (L.Window("1 hour", "1 hour", wattr="ts"),) * 2,
                ),
            ),
            (("carrier", "x_carrier"), (None, "window_start")),
        ),
    ),
    # Three: a pair finds partners for as long as both of its rows are alive.
    (
        f"SELECT x.delay, speed FROM {BOTH} LEFT JOIN traffic z [RANGE 1 HOUR] ON z.speed > delay AND z.ts > x.ts",
        L.Select(
            (
                pairs(
                    "speed > delay AND z_ts > x_ts",
                    "left",
                    (None, HOUR),
                    pairs(),
                    apart(TRAFFIC, ("ts", "sensor_id", "speed", "volume", "counter", "value"), ts="z_ts"),
                ),
            ),
            ((None, "delay"), (None, "speed")),
        ),
    ),
    # With itself.
    (
        "SELECT a.gate FROM gates a [NOW] JOIN gates b [NOW] ON a.gate = b.gate",
        L.Select(
            (
                pairs(
                    "a_gate = b_gate",
                    windows=(L.Window(L.NOW), L.Window(L.NOW)),
                    left=apart(GATES, GATE, **{c: f"a_{c}" for c in GATE}),
                    right=apart(GATES, GATE, **{c: f"b_{c}" for c in GATE}),
                ),
            ),
            (("gate", "a_gate"),),
        ),
    ),
    # Stored relations need no window.
    (
        "SELECT x.carrier, c.name FROM trips x JOIN carriers c ON x.carrier = c.code AND x.seats > c.seats",
        L.Select(
            (
                L.JoinStored(
                    (apart(TRIPS, TRIP, seats="x_seats"),),
                    "carriers",
                    "carrier = code AND x_seats > c_seats",
                    "inner",
                    SEATS,
                ),
            ),
            ((None, "carrier"), (None, "name")),
        ),
    ),
    ("SELECT * FROM trips LEFT JOIN airports USING (dest)", L.JoinStored((TRIPS,), "airports", ("dest",), "left")),
    (
        "SELECT * FROM airports a RIGHT JOIN trips t ON a.dest = t.dest",
        L.Select(
            (
                L.JoinStored(
                    (apart(TRIPS, TRIP, dest="t_dest"),),
                    "airports",
                    "a_dest = t_dest",
                    "left",
                    (("a_dest", "dest"), (None, "city")),
                ),
            ),
            tuple((None, c) for c in ("a_dest", "city", "ts", "carrier", "t_dest", "delay", "seats", "ok")),
        ),
    ),
    (
        "SELECT city FROM airports, gates WHERE city = gate",
        L.Select((L.JoinStored((GATES,), "airports", "city = gate", "inner"),), ((None, "city"),)),
    ),
    (
        "SELECT name FROM gates JOIN (SELECT code, upper(name) AS name FROM carriers) AS c ON carrier = c.code",
        L.Select(
            (
                L.JoinStored(
                    (GATES,), "carriers", "carrier = code", "inner", ((None, "code"), ("name", "upper(name)"))
                ),
            ),
            ((None, "name"),),
        ),
    ),
    # The bracket of the only stream is the aggregate's.
    (
        "SELECT city, count(*) AS n FROM trips t [RANGE 1 HOUR, SLIDE 1 HOUR] JOIN airports USING (dest) "
        "GROUP BY city",
        L.Aggregate(
            (L.JoinStored((TRIPS,), "airports", ("dest",), "inner"),),
            L.Window("1 hour", "1 hour"),
            ((None, "city"),),
            (("n", "count(*)"),),
        ),
    ),
    # Sub-queries: the columns of the left side keep their names.
    (
        "SELECT carrier FROM trips x [RANGE 10 MINUTES] "
        "WHERE ok AND x.carrier IN (SELECT carrier FROM gates y [RANGE 5 MINUTES]) AND delay > 0",
        L.Select(
            (L.Where((pairs("carrier = y_carrier", "semi", left=TRIPS),), "ok AND delay > 0"),),
            ((None, "carrier"),),
        ),
    ),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES] "
        "WHERE NOT upper(carrier) IN "
        "(SELECT carrier FROM gates y [RANGE 5 MINUTES] WHERE minutes > 5 OR gate = dest)",
        pairs("coalesce((upper(carrier)) = y_carrier, true) AND (minutes > 5 OR gate = dest)", "anti", left=TRIPS),
    ),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES] "
        "WHERE NOT EXISTS (SELECT * FROM gates y [RANGE 5 MINUTES] WHERE carrier = x.carrier AND y.ts < x.ts)",
        pairs("y_carrier = carrier AND y_ts < ts", "anti", left=TRIPS),
    ),
    (
        "SELECT * FROM trips [RANGE 10 MINUTES] WHERE seats IN "
        "(SELECT count(*) AS m FROM gates [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY gate)",
        pairs(
            "seats = m",
            "semi",
            (TEN, None),
            TRIPS,
            L.Select(
                (L.Aggregate((GATES,), L.Window("1 hour", "1 hour"), ((None, "gate"),), (("m", "count(*)"),)),),
                ((None, "m"),),
            ),
        ),
    ),
    (
        "SELECT count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] WHERE dest IN (SELECT dest FROM airports)",
        L.Aggregate(
            (
                L.JoinStored(
                    (TRIPS,),
                    "airports",
                    "dest = airports_dest",
                    "semi",
                    (("airports_dest", "dest"), (None, "city")),
                ),
            ),
            L.Window("1 hour", "1 hour"),
            (),
            (("n", "count(*)"),),
        ),
    ),
    # An aggregate over pairs.
    (
        f"SELECT x.carrier, count(*) AS n, max(y.minutes) FROM {BOTH} WHERE x.ok "
        "WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY x.carrier HAVING carrier <> 'AA' AND max(y.minutes) > 5",
        L.Where(
            (
                L.Aggregate(
                    (L.Where((pairs(),), "ok"),),
                    L.Window("1 hour", "1 hour"),
                    (("carrier", "x_carrier"),),
                    (("n", "count(*)"), ("max(minutes)", "max(minutes)")),
                ),
            ),
            "carrier <> 'AA' AND `max(minutes)` > 5",
        ),
    ),
    (
        f"SELECT y.carrier, x.carrier, count(*) AS n FROM {BOTH} "
        "GROUP BY window(window_time, '1 hour'), 1, x.carrier",
        L.Aggregate(
            (pairs(),),
            L.Window("1 hour", "1 hour"),
            ((None, "y_carrier"), (None, "x_carrier")),
            (("n", "count(*)"),),
        ),
    ),
    (
        f"SELECT max(delay) AS most FROM (SELECT x.delay FROM {BOTH}) [RANGE 1 HOUR, SLIDE 1 HOUR]",
        L.Aggregate(
            (L.Select((pairs(),), ((None, "delay"),)),), L.Window("1 hour", "1 hour"), (), (("most", "max(delay)"),)
        ),
    ),
]


@pytest.mark.parametrize(("text", "nodes"), QUERIES)
def test_a_join_becomes_the_nodes_of_the_fluent_api(text: str, nodes: L.Logical) -> None:
    assert logical(text) == nodes
    assert plan(text) == analyse(nodes, TYPES)
    written = to_sql(nodes, SCOPE)
    assert logical(written) == nodes, written


def counted(stream: str, name: str) -> L.Aggregate:
    return L.Aggregate((L.Scan(stream),), L.Window("1 hour", "1 hour"), ((None, "carrier"),), ((name, "count(*)"),))


def test_results_of_windows_meet_without_a_bracket() -> None:
    text = (
        "WITH a AS (SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier), "
        "b AS (SELECT carrier, count(*) AS m FROM gates [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier) "
        "SELECT carrier, n / m AS rate FROM a JOIN b USING (carrier, window_start, window_end)"
    )
    keys = ("carrier", "window_start", "window_end")
    joined = pairs(keys, windows=(None, None), left=counted("trips", "n"), right=counted("gates", "m"))
    assert logical(text) == L.Select((joined,), ((None, "carrier"), ("rate", "n / m")))
    plan(text)


def test_a_join_by_one_name_is_written_with_using() -> None:
    joined = L.JoinStored((TRIPS,), "airports", "dest", "left")
    assert to_sql(joined, SCOPE) == "SELECT * FROM trips LEFT JOIN airports USING (dest)"
    assert to_sql(L.JoinStored((TRIPS,), "carriers", "ok"), SCOPE) == "SELECT * FROM trips JOIN carriers ON ok"


def test_a_join_within_a_distance_is_written_with_ranges_that_include_the_ends() -> None:
    joined = L.Join((TRIPS, L.Select((GATES,), ((None, "gate"),))), (None, None), "dest = gate", "left")
    with pytest.raises(QueryError, match=r"1\.5 has no SQL"):
        to_sql(replace(joined, within=(1.5, 2)), SCOPE)
    assert to_sql(replace(joined, within=("1 minute", timedelta(seconds=2))), SCOPE) == (
        "SELECT * FROM trips [RANGE 2000001 microseconds] LEFT JOIN (SELECT gate FROM gates) "
        "[RANGE 60000001 microseconds] ON dest = gate"
    )


def test_a_stream_twice_is_written_so_that_it_can_be_read() -> None:
    joined = L.Join((GATES, GATES), (TEN, TEN), GATE, "inner")
    assert logical(to_sql(joined, SCOPE)) == joined


def test_what_a_semi_join_hides_does_not_meet_what_comes_behind() -> None:
    hidden = L.Select((GATES,), ((None, "gate"),))
    first = L.Join((L.Select((TRIPS,), ((None, "dest"),)), hidden), (TEN, TEN), "dest = gate", "semi")
    joined = L.Join((first, GATES), (TEN, TEN), "dest = gate", "inner")
    assert logical(to_sql(joined, SCOPE)) == joined


def test_a_condition_stays_in_where_below_a_join_that_keeps_the_other_side() -> None:
    node = logical(
        "SELECT * FROM trips x [NOW], gates y [NOW] FULL JOIN traffic z [NOW] ON z.speed > delay "
        "WHERE x.carrier = y.carrier"
    )
    assert isinstance(node, L.Where) and node.condition == "x_carrier = y_carrier"


def test_the_columns_of_streams_that_a_text_creates_are_known_when_its_turn_comes() -> None:
    text = (
        "CREATE STREAM trips FROM 'rate' TIME ts DISORDER BOUNDED 5 SECONDS;"
        "CREATE STREAM gates FROM 'rate' TIME ts DISORDER BOUNDED 5 SECONDS;"
        f"SELECT x.carrier, y.gate FROM {BOTH}"
    )
    select = parse(text, Scope()).statements[-1]
    assert isinstance(select, S.SelectStatement)
    assert select.again(SCOPE).query == logical(f"SELECT x.carrier, y.gate FROM {BOTH}")
