"""Mistakes in the joins of a SQL text: each is told with its place, and what to write instead."""

from __future__ import annotations

import pytest

from slackwater.errors import SqlError
from tests.kit.sql import plan
from tests.sql.test_joins import BOTH

WINDOWED = "trips x [RANGE 10 MINUTES]"
#: The caret of a text stands where ‸ is; then what is said.
MISTAKES = [
    (f"SELECT ‸carrier FROM {BOTH}", "carrier is a column of x and of y; write x.carrier or y.carrier"),
    (f"SELECT * FROM {BOTH} AND ‸ts > x.ts", "ts is a column of x and of y; write x.ts or y.ts"),
    (f"SELECT * FROM {BOTH} WHERE x.‸gat > 1", None),
    (f"SELECT ‸x.gate FROM {BOTH}", "x has no column 'gate'; there are ts, carrier"),
    (f"SELECT ‸trips.delay FROM {BOTH}", "trips is called x here; write x.delay"),
    (f"SELECT ‸z.* FROM {BOTH}", "no relation of FROM is called z"),
    (f"SELECT ‸delayy FROM {BOTH}", "there is no column 'delayy' (did you mean 'delay'?)"),
    (f"SELECT count(‸x.*) FROM {BOTH} WINDOW [RANGE 1 HOUR]", "x.* stands by itself in SELECT"),
    (f"SELECT * FROM {WINDOWED} JOIN gates y [RANGE 5 MINUTES]‸", "expected ON and a condition, or USING (column)"),
    (f"SELECT * FROM {WINDOWED} CROSS JOIN gates y [NOW] ‸ON true", "a CROSS JOIN takes every pair"),
    (
        "SELECT x.dest FROM SESSION(TABLE trips PARTITION BY carrier, DESCRIPTOR(ts), INTERVAL '5' MINUTES) x "
        "‸JOIN SESSION(TABLE gates PARTITION BY carrier, DESCRIPTOR(ts), INTERVAL '5' MINUTES) y USING (carrier)",
        "join() does not pair the rows of sessions",
    ),
    (f"SELECT * FROM {WINDOWED} JOIN gates y [NOW] USING (‸gate)", "there is no column 'gate' on the left side"),
    (f"SELECT * FROM {WINDOWED} JOIN gates y [NOW] USING (‸delay)", "there is no column 'delay' on the right side"),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES] ‸JOIN gates y [RANGE 5 MINUTES, SLIDE 5 MINUTES] ON true",
        "join() pairs rows of the same window, and the sides have different ones",
    ),
    (
        "SELECT * FROM trips x [RANGE 10 MINUTES] JOIN gates y ‸[RANGE 5 MINUTES, DRATIO 1%] ON true",
        "a window with DISORDER is for aggregates; .*WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR]",
    ),
    (f"SELECT * FROM {BOTH} ‸[RANGE 1 HOUR]", "a bracket stands behind each side of a join; .*WINDOW"),
    (
        "SELECT * FROM ‸trips x JOIN gates y [NOW] ON true",
        "join(): the left side has no window; .*[RANGE 10 MINUTES]",
    ),
    ("SELECT * FROM trips x [NOW] JOIN ‸gates y ON true", "join(): the right side has no window"),
    (
        "SELECT * FROM trips [NOW] JOIN ‸trips [NOW] ON true",
        "two relations are called trips; give this one an alias",
    ),
    (
        "SELECT * FROM trips x [NOW] JOIN ‸(SELECT * FROM gates) [NOW] ON true",
        "other relations have a column 'ts' too; give this one an alias",
    ),
    (
        "SELECT * FROM ‸trips x [NOW] JOIN (SELECT delay, delay AS x_delay FROM trips) y [NOW] ON true",
        "there is a column 'x_delay' already; give x another alias",
    ),
    (
        "SELECT ‸y.carrier FROM trips x [NOW] LEFT JOIN gates y [NOW] USING (carrier)",
        "there is only one carrier; write carrier, or join with ON",
    ),
    (f"SELECT ‸y.gate FROM {BOTH.replace('JOIN', 'SEMI JOIN')}", "the columns of y are not known here"),
    (
        "SELECT * FROM trips x [NOW] JOIN gates y [NOW] ON ‸z.speed > 1 JOIN traffic z [NOW] ON true",
        "the columns of z are not known here",
    ),
    (
        "SELECT * FROM trips x [NOW] JOIN gates y [NOW] ON ‸gat = dest",
        "there is no column 'gat' (did you mean 'gate'?)",
    ),
    ("SELECT * FROM trips x [NOW] JOIN gates y [NOW] ON ‸max(gate) = dest", "a join looks at single rows"),
    ("SELECT * FROM trips [NOW] ‸NATURAL JOIN gates [NOW]", "NATURAL joins are not supported"),
    ("SELECT * FROM trips [NOW] RIGHT ‸SEMI JOIN gates [NOW] ON true", "write LEFT SEMI JOIN, the sides swapped"),
    ("SELECT * FROM trips x [NOW] JOIN (gates y [NOW] ‸JOIN s ON true) ON true", None),
    ("SELECT count(*) AS n FROM trips ‸[NOW]", "[NOW] is for a side of a join"),
    # Stored relations.
    ("SELECT * FROM ‸carriers", None),
    ("‸SELECT * FROM carriers", "carriers: this is a stored relation, which has no time; join a stream with it"),
    ("SELECT * FROM ‸carriers JOIN airports ON true", "this is a stored relation, which has no time"),
    ("SELECT * FROM trips x JOIN carriers c ‸[NOW] ON true", "a stored relation has no time, so no window"),
    (
        "SELECT * FROM trips x ‸RIGHT JOIN carriers c ON true",
        "RIGHT JOIN with a stored relation: .*write JOIN or LEFT",
    ),
    ("SELECT * FROM carriers c ‸LEFT JOIN trips x ON true", "LEFT JOIN behind a stored relation: .*RIGHT JOIN"),
    ("SELECT * FROM airports a JOIN ‸carriers c ON true JOIN trips ON true", "carriers|c is a stored relation too"),
    ("SELECT * FROM trips JOIN (SELECT ‸code FROM carriers WHERE seats > 5) c ON true", "put a condition into ON"),
    ("SELECT * FROM TUMBLE(TABLE ‸carriers, DESCRIPTOR(ts), 5)", "takes rows of a stream"),
    (
        "SELECT * FROM trips x JOIN ‸cariers c ON true",
        "there is no stream or table 'cariers' (did you mean 'carriers'?)",
    ),
    (
        f"SELECT count(*) AS n FROM {BOTH} GROUP BY ‸window(x.ts, '1 hour')",
        "rows of a join go by the time of the later one; leave the attribute out",
    ),
]


@pytest.mark.parametrize(("marked", "said"), MISTAKES)
def test_a_mistake_is_told_with_its_place(marked: str, said: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        plan(marked.replace("‸", ""))
    if said is not None:
        assert caught.value.column == marked.index("‸") + 1, str(caught.value)
        for part in said.split(".*"):
            assert any(p in caught.value.message for p in part.split("|")), caught.value.message
