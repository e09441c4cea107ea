"""Random SQL: queries from a grammar, and good ones damaged by cutting, swapping and replacing tokens."""

from __future__ import annotations

import random
from collections.abc import Callable

from slackwater.plan.spark_sql import SparkSQL

_NUMBERS = ("delay", "seats", "delay / 60", "abs(delay)", "seats + 1", "-delay", "CASE WHEN ok THEN 1 ELSE 0 END")
_TEXTS = ("carrier", "dest", "upper(carrier)", "concat(carrier, dest)")
_CONDITIONS = (
    "delay > 0",
    "carrier = 'AA' AND ok",
    "NOT ok OR seats IN (1, 2)",
    "delay BETWEEN 1 AND 2",
    "dest LIKE 'J%'",
)
_CALLS = ("count(*)", "sum({0})", "avg({0})", "max({0})", "min({0})", "count({0})", "sum({0}) / count(*)")
_WINDOWS = (
    "[RANGE 1 HOUR, SLIDE 10 MINUTES]",
    "[RANGE 10 MINUTES, SLIDE 10 MINUTES, OFFSET 1 MINUTE]",
    "[RANGE 30 SECONDS]",
    "[ROWS 100]",
    "[RANGE 100 tuples, WATTR seats, DRATIO 1%]",
    "[RANGE = 5min, SLIDE = 1min, DISORDER BOUNDED 20 SECONDS TIMEOUT 1 HOUR]",
    "[RANGE 1 DAY, SLIDE 1 HOUR, WATTR ts, DISORDER LEARNED 10 MINUTES ALPHA 0.5 ADAPTIVE]",
)
_EMITS = (
    "",
    "",
    " EMIT EARLY AT 75%",
    " EMIT EARLY EVERY 5 SECONDS ACCURACY 98%",
    " EMIT EARLY AT 7 SECONDS COVERAGE 95%",
)
_STATEMENTS = (
    "CREATE STREAM calls (sent TIMESTAMP, m MAP<STRING, INT>) FROM 'parquet' OPTIONS (path = 'in', maxFiles 4) "
    "TIME sent SOURCE device DISORDER SENSORS ('a' = 2 SECONDS, 'b' = 5 SECONDS) TIMEOUT 1 HOUR TRIGGER 5 SECONDS",
    "CREATE STREAM f FROM 'orc' OPTIONS (path 'x') WHERE x < 5 TIME t REPLAY BY arrived PAGE 1 HOUR "
    "DISORDER DROP RATIO 1%",
    "CREATE STREAM OF PRODS asks FROM 'rate' TIME timestamp",
    "CREATE VIEW late AS SELECT * FROM trips WHERE delay > 0; SELECT carrier FROM late",
    "INSERT INTO 'out' LATE INTO 'late' AS q SELECT count(*) AS n FROM trips [ROWS 5]",
    "INSERT INTO parquet('out', every = 1 MINUTE) LATE INTO t('late', key = ('a', 'b')) SELECT * FROM trips",
    "EXPLAIN FORMAT MERMAID SELECT carrier FROM trips; EXPLAIN q",
    "INSERT INTO 'out' ORDERED SELECT carrier, count(*) AS n FROM trips "
    "WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 1 HOUR) GROUP BY 1 EMIT ON WINDOW CLOSE",
    "SHOW STREAMS; SHOW RESULTS OF q; PROD q UNTIL '2013-01-14' WHERE carrier = 'AA'; STOP q; "
    "RUN WITHOUT DRAIN SPEED 60",
    "SELECT carrier, count(*) AS n FROM trips GROUP BY window(ts, '10 minutes', '2 minutes'), carrier",
    "SELECT count(*) AS n FROM TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '2' MINUTES, "
    "INTERVAL '10' MINUTES))",
)

_LEFT = (
    "trips [RANGE 10 MINUTES] AS x",
    "trips x [ROWS 100]",
    "(SELECT * FROM trips WHERE ok) x [NOW]",
    "(SELECT * FROM trips UNION ALL SELECT * FROM trips) [RANGE 1 HOUR] x",
)
_RIGHT = (
    "gates y [RANGE 5 MINUTES] ON x.carrier = y.carrier",
    "gates [ROWS 10] y ON x.carrier = y.carrier AND x.ts < y.ts AND delay > minutes",
    "(SELECT ts AS at, carrier, gate FROM gates) AS y [RANGE 5 MINUTES] ON y.carrier = x.carrier OR y.gate = dest",
)
_LISTED = (
    "trips x [RANGE 10 MINUTES], gates y [RANGE 10 MINUTES]",
    "trips x [RANGE 10 MINUTES] CROSS JOIN gates y [NOW]",
)
_ASKED = (
    "x.carrier IN (SELECT carrier FROM gates [RANGE 5 MINUTES])",
    "dest NOT IN (SELECT gate FROM gates y [RANGE 5 MINUTES] WHERE y.minutes > x.delay)",
    "EXISTS (SELECT 1 FROM gates y [ROWS 10] WHERE y.carrier = x.carrier AND minutes > 5)",
)
_ASKED_STORED = "NOT EXISTS (SELECT * FROM airports a WHERE a.dest = x.dest)"
#: Sides of which one row counts, or that share a window; OVER on rows; comparisons with one value of a window.
_ASOF = (
    "ASOF JOIN gates y ON x.carrier = y.carrier AND x.ts >= y.ts",
    "LEFT ASOF WITHIN 10 MINUTES JOIN gates y USING (carrier)",
    "ASOF NEAREST WITHIN 1 HOUR LEFT JOIN gates y MATCH_CONDITION (y.ts <= x.ts) ON y.carrier = x.carrier",
    "LEFT JOIN gates FOR SYSTEM_TIME AS OF x.ts AS y ON x.carrier = y.carrier",
)
_SHARED = (
    "trips x {0} JOIN gates y {0} USING (carrier)",
    "trips x {0} FULL JOIN gates y {0} ON x.carrier = y.carrier AND delay > minutes",
    "TUMBLE(trips, ts, INTERVAL 1 HOUR) x LEFT JOIN TUMBLE(TABLE gates, DESCRIPTOR(ts), INTERVAL '1' HOUR) y "
    "ON x.carrier = y.carrier AND x.window_start = y.window_start",
)
_OVER = (
    "avg(delay) OVER (PARTITION BY dest ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)",
    "count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) + 1",
    "max(seats) OVER w - seats",
)
_NAMED = " WINDOW w AS (PARTITION BY dest ORDER BY ts RANGE BETWEEN INTERVAL 5 SECONDS PRECEDING AND CURRENT ROW)"
_HOURLY = "SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier"
_COMPARED = (
    "n > (SELECT avg(m) AS a FROM (SELECT count(*) AS m FROM gates {0} GROUP BY gate) {0})",
    "(SELECT count(*) AS m FROM gates {0}) <= n * 2 AND carrier <> 'x'",
)
_STREAM = ("trips x", "trips AS x", "(SELECT * FROM trips WHERE delay > 0) x")
_STORED = (
    "JOIN carriers c ON x.carrier = c.code",
    "LEFT JOIN carriers c ON carrier = code AND x.seats > c.seats JOIN airports USING (dest)",
    "JOIN (SELECT code, upper(name) AS name FROM carriers) AS c ON c.code = x.carrier",
)


class Grammar:
    """Makes queries that have a meaning; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def query(self) -> str:
        """A SELECT over trips."""
        kinds: list[Callable[[], str]] = [self._rows, self._windows, self._windows, self._nested]
        kinds += [
            self._counting,
            self._over,
            self._compared,
            self._united,
            lambda: self._windows(f"({self._united()})"),
            self._joined,
            self._joined,
        ]
        return self._random.choice(kinds)()

    def statement(self) -> str:
        """A query, or another statement."""
        return self.query() if self._random.random() < 0.75 else self._random.choice(_STATEMENTS)

    def damaged(self) -> str:
        """A statement with some tokens cut out, swapped, doubled, replaced or cut off."""
        text = self.statement()
        tokens = [text[t.start : t.end + 1] for t in SparkSQL().tokenize(text)]
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            self._damage(tokens)
        return " ".join(tokens)

    def noise(self) -> str:
        """Characters that mean nothing."""
        alphabet = "SELECT FROM WHERE trips delay count(*) [] () ,.;'\"`*%+-/<>=!|&^~?:@#$\\{}\n\t\0é 0123456789"
        return "".join(self._random.choice(alphabet) for _ in range(self._random.randint(0, 60)))

    def _damage(self, tokens: list[str]) -> None:
        if not tokens:
            return
        pick = self._random.randrange
        kind, at, other = pick(6), pick(len(tokens)), pick(len(tokens))
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 2:
            tokens.insert(at, tokens[other])
        elif kind == 3:
            tokens[at] = self._random.choice(
                ("SELECT", "FROM", ")", "(", "[", "]", ",", "'", "5", "x", "AS", "%", "*", "EMIT")
            )
        elif kind == 4:
            del tokens[at:]
        else:
            tokens[at] = tokens[at][: len(tokens[at]) // 2] or "?"

    def _rows(self) -> str:
        columns = ", ".join(f"{self._scalar()} AS c{n}" for n in range(self._random.randint(1, 3)))
        return f"SELECT {self._random.choice(('*', columns))} FROM trips{self._where()}"

    def _united(self) -> str:
        columns = "*" if self._random.random() < 0.5 else "carrier, dest, delay, seats, ts, ok"
        side = f"SELECT {columns} FROM trips"
        sides = [side + self._where() for _ in range(self._random.randint(2, 3))]
        if self._random.random() < 0.3:
            sides[0] = f"SELECT * FROM ({side} UNION ALL {sides[0]})"
        return f" UNION ALL {'ORDERED ' * (self._random.random() < 0.3)}".join(sides)

    def _joined(self) -> str:
        """A join of streams, of three, of one with itself, or with stored relations."""
        call = self._random.choice
        words = call(
            ("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN")
        )
        sides, where = call(_LEFT), self._where()
        columns = call(("*", "x.*", "x.carrier, x.delay", "x.carrier AS a, x.delay * 2 AS b"))
        if self._random.random() < 0.2:
            more = f" WHERE ({call(_CONDITIONS)}) AND" if where else " WHERE"
            asked = call((f"{sides}{more} {call(_ASKED)}", f"{call(_STREAM)}{more} {_ASKED_STORED}"))
            return f"SELECT {columns} FROM {asked}"
        if words.endswith(("SEMI JOIN", "ANTI JOIN")):
            return f"SELECT {columns} FROM {sides} {words} {call(_RIGHT)}{where.replace('carrier', 'x.carrier')}"
        if self._random.random() < 0.3:
            stored, where = call(_STORED), where.replace("seats", "x.seats")
            return f"SELECT {call(('*', columns, 'x.carrier, c.name'))} FROM {call(_STREAM)} {stored}{where}"
        source = f"{sides} {words} {call(_RIGHT)}" if self._random.random() < 0.7 else call(_LISTED)
        if "ROWS" not in source and self._random.random() < 0.3:
            source += " JOIN traffic z [RANGE 5 MINUTES] ON z.speed > x.delay"
        where = where.replace("carrier", "y.carrier")
        if self._random.random() < 0.4:
            window = call(("WINDOW [RANGE 1 HOUR, SLIDE 10 MINUTES]", "WINDOW [RANGE 1 HOUR]"))
            return f"SELECT x.carrier, count(*) AS n, max(gate) FROM {source} {window}{where} GROUP BY x.carrier"
        return f"SELECT {call((columns, 'y.*', 'x.carrier, y.carrier, gate'))} FROM {source}{where}"

    def _counting(self) -> str:
        """A join in which one row counts, or rows share a window; or rows in their windows."""
        call, window = self._random.choice, self._random.choice(_WINDOWS[:2])
        if self._random.random() < 0.3:
            return f"SELECT {call(('*', 'carrier, window_start'))} FROM trips {window}{self._where()}"
        shared = self._random.random() < 0.5
        source = call(_SHARED).format(window) if shared else f"{call(_STREAM)} {call(_ASOF)}"
        columns = call(("*", "gate, x.ts", "window_end, gate" if shared else "dest, gate"))
        return f"SELECT {columns} FROM {source}"

    def _over(self) -> str:
        calls = self._random.sample(_OVER, self._random.randint(1, len(_OVER)))
        columns = ", ".join(f"{call} AS o{n}" for n, call in enumerate(calls))
        return f"SELECT carrier, {columns} FROM trips{self._where()}{_NAMED * ('OVER w' in columns)}"

    def _compared(self) -> str:
        where = self._random.choice(_COMPARED).format("[RANGE 1 HOUR, SLIDE 1 HOUR]")
        return f"SELECT carrier, n FROM ({_HOURLY}) WHERE {where}"

    def _windows(self, source: str = "trips") -> str:
        call = self._random.choice
        aggregates = [f"{call(_CALLS).format(call(_NUMBERS))} AS a{n}" for n in range(self._random.randint(1, 3))]
        groups = self._random.sample(("carrier", "dest", "ok"), self._random.randint(0, 2))
        by = f" GROUP BY {', '.join(groups)}" if groups else ""
        having = call(
            ("", "", " HAVING a0 > 1", " HAVING count(*) > 1 AND a0 IS NOT NULL", " HAVING max(delay) > 5")
        )
        columns = ", ".join([*groups, *aggregates])
        return f"SELECT {columns} FROM {source} {call(_WINDOWS)}{self._where()}{by}{having}{call(_EMITS)}"

    def _nested(self) -> str:
        inner = (
            "SELECT carrier, dest, count(*) AS n, max(delay) AS delay FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES]"
        )
        inner += " GROUP BY carrier, dest"
        outer = "SELECT carrier, max(n) AS most FROM {} [RANGE 10 MINUTES, SLIDE 10 MINUTES] WHERE delay > 1 "
        outer += "GROUP BY carrier"
        if self._random.random() < 0.5:
            return outer.format(f"({inner})")
        return f"WITH v AS ({inner}) " + outer.format("v")

    def _scalar(self) -> str:
        return self._random.choice(_NUMBERS + _TEXTS)

    def _where(self) -> str:
        return self._random.choice(("", "", f" WHERE {self._random.choice(_CONDITIONS)}"))
