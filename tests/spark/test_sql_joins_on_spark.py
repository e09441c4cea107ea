"""Joins in SQL on Spark: the plans of the fluent API, stored relations that Spark knows, and rows that come out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stages")]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
INSTANT = pa.timestamp("us", tz="UTC")
TRIPS = [("AA", 1, 5.0), ("BB", 3, 7.0), ("AA", 12, 9.0), ("CC", 14, -1.0), ("BB", 25, None)]
GATES = [("AA", 2, "B2"), ("BB", 9, "C1"), ("AA", 13, "B7"), (None, 15, "X")]


def rows(of: list[tuple[Any, int, Any]], last: str, kind: pa.DataType) -> pa.Table:
    """Rows that arrive when they are sent, so many minutes after noon."""
    times = [NOON + timedelta(minutes=m) for _, m, _ in of]
    schema = pa.schema([("carrier", pa.string()), ("ts", INSTANT), ("received", INSTANT), (last, kind)])
    return pa.table([[c for c, *_ in of], times, times, [v for *_, v in of]], schema=schema)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[sw.Session]:
    with sw.Session(spark) as made:
        for name, table in (
            ("trips", rows(TRIPS, "delay", pa.float64())),
            ("gates", rows(GATES, "gate", pa.string())),
        ):
            frame = spark.createDataFrame(table)
            policy = sw.bounded("1 minute")
            made.stream(name, frame, time="ts", arrival="received", page="5 minutes", disorder=policy)
        made.register_table(
            "carriers", spark.createDataFrame([("AA", "American"), ("BB", "Blue")], "code string, name string")
        )
        spark.createDataFrame([("AA", 1)], "carrier string, rank int").createOrReplaceTempView("ranks")
        yield made


def query(session: sw.Session, stream: str) -> sw.Query:
    return sw.Query(session, session.sql(f"SELECT * FROM {stream}")._logical)


def answer(session: sw.Session, text: str, *columns: str) -> list[tuple[Any, ...]]:
    """What a query says, when all has come."""
    run = session.sql(text).start()
    session.run_available()
    return sorted((tuple(r[c] for c in columns) for r in run.results().to_pylist()), key=repr)


def described(query: sw.Query) -> str:
    """A plan, with Spark's view under its own name."""
    return query.describe().replace("table1", "ranks")


def test_the_same_join_in_sql_and_in_the_fluent_api_is_the_same_plan(session: sw.Session) -> None:
    trips, gates = query(session, "trips"), query(session, "gates")
    left = trips.select("carrier", "delay").rolling(range="10 minutes")
    right = gates.select("gate", who="carrier")
    pairs = [
        (
            "SELECT * FROM (SELECT carrier, delay FROM trips) [RANGE 10 MINUTES] x "
            "LEFT JOIN (SELECT gate, carrier AS who FROM gates) y [ROWS 5] ON x.carrier = y.who",
            left.join(right.rolling(rows=5), on="carrier = who", how="left"),
        ),
        (
            "SELECT gate, x.carrier FROM trips x [RANGE 10 MINUTES] JOIN gates y [RANGE 5 MINUTES] "
            "ON x.carrier = y.carrier AND x.ts < y.ts",
            trips.select(x_carrier="carrier", x_ts="ts", x_received="received", delay="delay")
            .rolling(range="10 minutes")
            .join(
                gates.select(y_carrier="carrier", y_ts="ts", y_received="received", gate="gate").rolling(
                    range="5 minutes"
                ),
                on="x_carrier = y_carrier AND x_ts < y_ts",
            )
            .select("gate", carrier="x_carrier"),
        ),
        (
            "SELECT * FROM trips JOIN carriers ON carrier = code",
            trips.join(session._tables["carriers"], on="carrier = code"),
        ),
        (
            "SELECT * FROM trips LEFT JOIN ranks USING (carrier)",
            trips.join(session.spark.table("ranks"), on="carrier", how="leftouter"),
        ),
    ]
    for text, fluent in pairs:
        made = session.sql(text)
        again = session.sql(made.to_sql())
        assert again._plan == made._plan
        assert described(fluent) == described(made)
        assert session.sql(fluent.to_sql())._plan == fluent._plan


def test_pairs_come_out(session: sw.Session) -> None:
    text = (
        "SELECT x.carrier, x.delay, y.gate FROM trips x [RANGE 10 MINUTES] JOIN gates y [RANGE 5 MINUTES] "
        "ON x.carrier = y.carrier"
    )
    wanted = [(c, d, g) for c, t, d in TRIPS for other, u, g in GATES if c == other and t < u + 5 and u < t + 10]
    assert answer(session, text, "carrier", "delay", "gate") == sorted(wanted, key=repr)


def test_a_stored_relation_is_found_by_its_name_or_by_sparks(session: sw.Session) -> None:
    text = "SELECT t.carrier, c.name, r.rank FROM trips t LEFT JOIN carriers c ON t.carrier = c.code "
    text += "LEFT JOIN ranks r ON r.carrier = t.carrier"
    names, ranks = {"AA": "American", "BB": "Blue"}, {"AA": 1}
    wanted = [(c, names.get(c), ranks.get(c)) for c, *_ in TRIPS]
    assert answer(session, text, "carrier", "name", "rank") == sorted(wanted, key=repr)


def test_an_aggregate_over_a_stored_relation_takes_the_bracket_of_the_stream(session: sw.Session) -> None:
    text = "SELECT c.name, count(*) AS n FROM trips t [RANGE 1 HOUR, SLIDE 1 HOUR] JOIN carriers c "
    text += "ON t.carrier = c.code GROUP BY c.name"
    assert answer(session, text, "name", "n") == [("American", 2), ("Blue", 2)]


def test_what_is_no_table_is_told_with_its_place(session: sw.Session) -> None:
    with pytest.raises(sw.SqlError, match="there is no stream or table 'carrierss'") as caught:
        session.sql("SELECT * FROM trips JOIN carrierss ON true")
    assert caught.value.column == len("SELECT * FROM trips JOIN ") + 1
