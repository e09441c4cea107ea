"""Plans of SQL texts, kept in `plans.txt`: a change of what a text means shows as a change of that file.

Run with SLACKWATER_WRITE_PLANS=1 to write the file anew, and look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.kit.sql import described

FILE = Path(__file__).with_name("plans.txt")
QUERY, PLAN = "=== ", "--- plan"
QUERIES = {
    "rows": "SELECT carrier, round(delay / 60, 1) AS hours FROM trips WHERE delay > 240",
    "sliding windows by source": """\
SELECT carrier, AVG(delay) AS late, COUNT(*) AS n
FROM trips [RANGE 30 MINUTES, SLIDE 10 MINUTES]
GROUP BY carrier""",
    "expression over aggregates": "SELECT sum(delay) / count(*) AS mean FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR]",
    "having, with a hidden aggregate": """\
SELECT dest AS d, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR]
GROUP BY dest HAVING n > 5 AND max(delay) > 60""",
    "a window for each row": "SELECT dest, max(delay) FROM trips [RANGE 30 SECONDS] GROUP BY dest",
    "another attribute, and a policy of its own": """\
SELECT count(*) AS n FROM trips [ROWS 100, WATTR seats, DRATIO 1%]""",
    "nested windows": """\
WITH hourly AS (
  SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES]
  GROUP BY carrier HAVING n > 2
)
SELECT max(n) AS most FROM hourly [RANGE 10 MINUTES, SLIDE 10 MINUTES]""",
    "a union of streams": """\
SELECT place, count(*) AS n, sum(size) AS total
FROM (
  SELECT carrier AS place, seats AS size FROM trips WHERE ok
  UNION ALL
  SELECT CAST(sensor_id AS STRING) AS place, volume / 2 AS size FROM traffic
) [RANGE 1 HOUR, SLIDE 10 MINUTES]
GROUP BY place""",
    "a union of results": """\
WITH by_carrier AS (
  SELECT carrier AS who, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier
  UNION ALL
  SELECT dest AS who, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY dest
)
SELECT max(n) AS most FROM by_carrier [RANGE 1 HOUR, SLIDE 1 HOUR]""",
    "a window join": """\
SELECT x.carrier, y.gate, x.ts < y.ts AS before
FROM trips [RANGE 10 MINUTES] AS x LEFT JOIN gates AS y [NOW] ON x.carrier = y.carrier AND delay > 5
WHERE y.gate <> 'B'""",
    "a list of streams": """\
SELECT x.*, gate FROM trips x [RANGE 10 MINUTES], gates y [ROWS 10]
WHERE x.carrier = y.carrier AND delay > 5""",
    "three sides, and windows over them": """\
SELECT carrier, count(*) AS n
FROM trips x [RANGE 1 HOUR] JOIN gates y [RANGE 1 HOUR] USING (carrier)
  JOIN traffic z [RANGE 5 MINUTES] ON z.speed > x.delay AND z.ts > x.ts
WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR]
GROUP BY carrier""",
    "a condition on time": """\
SELECT x.carrier, gate FROM trips x LEFT JOIN gates y
ON x.carrier = y.carrier AND y.ts BETWEEN x.ts - INTERVAL 5 MINUTES AND x.ts + INTERVAL '1' HOUR""",
    "stored relations": """\
SELECT c.name, city, count(*) AS n
FROM trips t JOIN carriers c ON t.carrier = c.code AND t.seats > c.seats LEFT JOIN airports USING (dest)
GROUP BY window(t.ts, '1 hour'), c.name, city""",
    "Spark's window function": """\
SELECT window.start AS begin, carrier, count(*) AS n FROM trips
GROUP BY window(ts, '10 minutes', '2 minutes'), carrier""",
    "Flink's table function": """\
SELECT window_start, window_end, count(*) AS n
FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end""",
}


def written() -> str:
    """All queries with their plans."""
    parts = [f"{QUERY}{name}\n{text}\n{PLAN}\n{described(text)}\n" for name, text in QUERIES.items()]
    return "\n".join(parts)


def test_plans_are_what_they_were() -> None:
    if os.environ.get("SLACKWATER_WRITE_PLANS"):
        FILE.write_text(written(), encoding="utf-8")
    assert written() == FILE.read_text(encoding="utf-8")
