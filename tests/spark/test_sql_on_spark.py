"""SQL on Spark: the same plans as the fluent API, statements carried out, and Spark's own words for mistakes."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from tests.kit.kept_rows import KeptRows

pytestmark = pytest.mark.spark

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS = [("AA", 1, 5.0), ("BB", 3, 7.0), ("AA", 12, 9.0), ("AA", 14, -1.0), ("BB", 25, 2.0)]
INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("carrier", pa.string()), ("ts", INSTANT), ("received", INSTANT), ("delay", pa.float64())])
WINDOW = "[RANGE 10 MINUTES, SLIDE 10 MINUTES]"
HOURLY = "[RANGE 1 HOUR, SLIDE 10 MINUTES]"


def table() -> pa.Table:
    """Rows that arrive when they are sent, so many minutes after noon."""
    times = [NOON + timedelta(minutes=m) for _, m, _ in ROWS]
    return pa.table([[c for c, _, _ in ROWS], times, times, [d for *_, d in ROWS]], schema=SCHEMA)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[sw.Session]:
    with sw.Session(spark) as made:
        frame: DataFrame = spark.createDataFrame(table())
        made.stream(
            "trips",
            frame,
            time="ts",
            source="carrier",
            arrival="received",
            page="5 minutes",
            disorder=sw.bounded("1 minute"),
        )
        yield made


def test_the_same_query_in_sql_and_in_the_fluent_api_is_the_same_plan(session: sw.Session) -> None:
    trips = sw.Query(session, session.sql("SELECT * FROM trips")._logical)
    hourly = trips.window("1 hour", slide="10 minutes")
    pairs = [
        (
            "SELECT carrier, round(delay, 1) AS d FROM trips WHERE delay > 0",
            trips.where("delay > 0").select("carrier", d="round(delay, 1)"),
        ),
        (
            f"SELECT carrier, avg(delay) AS late, count(*) AS n FROM trips {HOURLY} GROUP BY carrier",
            hourly.group_by("carrier").agg(late="avg(delay)", n="count(*)"),
        ),
        (
            f"SELECT upper(carrier) AS c, sum(delay) / count(*) AS mean FROM trips {HOURLY} GROUP BY c",
            hourly.group_by(c="upper(carrier)").agg(mean="sum(delay) / count(*)"),
        ),
        (
            f"SELECT carrier, count(*) AS n FROM trips {HOURLY} GROUP BY carrier HAVING n > 1",
            hourly.group_by("carrier").agg(n="count(*)").where("n > 1"),
        ),
        (
            "SELECT max(n) AS most FROM (SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 10 MINUTES] "
            "GROUP BY carrier) [RANGE 10 MINUTES, SLIDE 10 MINUTES]",
            hourly.group_by("carrier").agg(n="count(*)").window("10 minutes").agg(most="max(n)"),
        ),
        (
            "SELECT count(*) AS n FROM trips [ROWS 100, DRATIO 1%]",
            trips.rolling(rows=100, disorder=sw.drop_ratio(0.01)).agg(n="count(*)"),
        ),
        ("SELECT count(*) AS n FROM trips GROUP BY window(ts, '1 hour', '10 minutes')", hourly.agg(n="count(*)")),
        (
            "SELECT count(*) AS n FROM HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' HOUR)",
            hourly.agg(n="count(*)"),
        ),
        (
            "SELECT carrier, count(*) AS n FROM (SELECT * FROM trips UNION ALL SELECT * FROM trips WHERE delay > 0)"
            f" {HOURLY} GROUP BY carrier",
            trips.union(trips.where("delay > 0"))
            .window("1 hour", slide="10 minutes")
            .group_by("carrier")
            .agg(n="count(*)"),
        ),
        (
            f"SELECT count(*) AS n FROM trips {HOURLY} UNION ALL SELECT count(*) AS n FROM trips {WINDOW}",
            hourly.agg(n="count(*)").union(trips.window("10 minutes").agg(n="count(*)")),
        ),
    ]
    for text, fluent in pairs:
        query = session.sql(text)
        assert query._plan == fluent._plan, text
        assert query.describe() == fluent.describe()
        assert session.sql(query.to_sql())._plan == query._plan
        assert session.sql(fluent.to_sql())._plan == fluent._plan


def test_a_script_declares_runs_and_shows(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "trips.parquet")
    with sw.Session(spark) as session:
        text = f"""
          CREATE STREAM trips FROM 'parquet' OPTIONS (path '{tmp_path}/trips.parquet') WHERE delay > -1
            TIME ts SOURCE carrier REPLAY BY received PAGE 5 MINUTES DISORDER BOUNDED 1 MINUTE;
          CREATE VIEW late AS SELECT * FROM trips WHERE delay > 2;
          INSERT INTO parquet('{tmp_path}/out', every = 1 HOUR) LATE INTO parquet('{tmp_path}/late') AS totals
            SELECT carrier, sum(delay) AS total FROM late {WINDOW} GROUP BY carrier;
          INSERT INTO MEMORY AS calls SELECT MAX(delay), window FROM trips
            GROUP BY window(ts, '10 minutes') HAVING count(*) > 1 EMIT EARLY AT 50%;
          RUN;
        """
        assert session.sql(text) is None
        totals = pq.read_table(tmp_path / "out").sort_by([("window_start", "ascending"), ("carrier", "ascending")])
        assert totals["total"].to_pylist() == [5.0, 7.0, 9.0]
        results = session.sql("SHOW RESULTS OF calls").to_pylist()
        final = [r for r in results if r["kind"] == "final"]
        assert [(r["max(delay)"], r["window"]["start"]) for r in final] == [(7.0, NOON)]
        assert {r["kind"] for r in results} == {"final"}, "all windows are closed; the early rows have gone"
        streams = session.sql("SHOW STREAMS").to_pylist()
        assert [(s["name"], s["time"], s["disorder"]) for s in streams] == [("trips", "ts", "bounded('1 minute')")]
        queries = session.sql("SHOW QUERIES").to_pylist()
        assert [(q["name"], q["status"]) for q in queries] == [("totals", "finished"), ("calls", "finished")]
        assert queries[0]["query"].startswith("SELECT carrier, sum(delay) AS total FROM trips [RANGE 10 minutes")
        assert session.sql("SHOW VIEWS").to_pylist() == [
            {"name": "late", "query": "SELECT * FROM trips WHERE delay > 2"}
        ]
        explained = session.sql("EXPLAIN totals")
        assert "totals/window" in explained and "heartbeat" in explained
        assert session.sql("EXPLAIN FORMAT MERMAID totals").startswith("flowchart TD\n")
        ElementTree.fromstring(session.sql("EXPLAIN FORMAT SVG totals"))
        assert session.sql(f"EXPLAIN SELECT count(*) AS n FROM late {WINDOW}").endswith("agg n = count(*)")
        session.sql("STOP totals")
        assert session.sql("SHOW QUERIES").to_pylist()[0]["status"] == "stopped"


def test_prods_are_sent_by_statement(session: sw.Session) -> None:
    run = session.sql(f"INSERT INTO MEMORY AS n SELECT carrier, count(*) AS n FROM trips {WINDOW} GROUP BY carrier")
    session.sql("RUN WITHOUT DRAIN; PROD n WHERE carrier = 'BB'")
    early = [r for r in run.results().to_pylist() if r["kind"] == "early"]
    assert [(r["carrier"], r["n_seen"]) for r in early] == [("BB", 1)]
    with pytest.raises(
        sw.QueryError, match=r"there is no query 'm' \(did you mean 'n'\?\)|there is no query 'm'; there are n"
    ):
        session.sql("PROD m")


def test_emit_early_belongs_to_the_query_and_start_may_change_it(session: sw.Session) -> None:
    query = session.sql(f"SELECT count(*) AS n FROM trips {WINDOW} EMIT EARLY AT 50%")
    assert query.early == sw.early(at=0.5)
    assert query.where("n > 0").early == sw.early(at=0.5)
    assert query.to_sql().endswith("EMIT EARLY AT 50%")
    rows = KeptRows()
    query.start(rows)
    session.run_available()
    assert {r["kind"] for r in rows.results().to_pylist()} == {"early", "final"}


def test_a_function_of_another_module_reaches_the_workers(
    session: sw.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scores.py").write_text(
        "import pyarrow as pa\nimport pyarrow.compute as pc\n\n\ndef double(rows):\n"
        "    return pa.record_batch({'carrier': rows['carrier'], 'twice': pc.multiply(rows['delay'], 2)})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = """CREATE FUNCTION double AS 'scores:double' RETURNS (carrier STRING, twice DOUBLE);
              INSERT INTO MEMORY SELECT carrier, twice FROM double(TABLE trips) WHERE twice > 10"""
    run = session.sql(text)
    session.sql("RUN")
    assert sorted(r["twice"] for r in run.results().to_pylist()) == [14.0, 18.0]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            "SELECT dellay FROM trips",
            (1, 8),
            "there is no column 'dellay' (did you mean 'delay'?); there are carrier, ",
        ),
        ("SELECT carrier FROM trips\nWHERE nope(delay) > 1", (2, 7), "Spark knows no function 'nope'"),
        (f"SELECT max(dellay) AS m\nFROM trips {WINDOW}", (1, 12), "there is no column 'dellay'"),
        (f"SELECT count(*) AS n FROM trips {WINDOW} GROUP BY carier", (1, 79), "there is no column 'carier'"),
        ("SELECT carrier FROM trps", (1, 21), "there is no stream or table 'trps' (did you mean 'trips'?)"),
        ("CREATE STREAM x FROM 'rate' TIME tmestamp DISORDER MAX DELAY", (1, 34), "there is no column 'tmestamp'"),
        (
            "CREATE STREAM x FROM 'rat' TIME t DISORDER MAX DELAY",
            (1, 22),
            "Spark cannot read format 'rat' (did you mean 'rate'?)",
        ),
        (
            "CREATE STREAM x (a INTO) FROM 'rate' TIME t DISORDER MAX DELAY",
            (1, 15),
            "Spark cannot read the columns",
        ),
        (
            "CREATE STREAM x (a INT) FROM 'json' OPTIONS (path '/gone') TIME a DISORDER BOUNDED 5",
            (1, 51),
            "there is no file or folder '/gone'",
        ),
        (
            "CREATE STREAM x FROM 'rate' TIME value SOURCE timestamp DISORDER BOUNDED 5",
            (1, 47),
            "a source is named by a text",
        ),
        ("SET journal = 'x'", (1, 1), "write SET first in a file"),
        ("SHOW STREAMS; PROD nobody", (1, 20), "there is no query 'nobody'; there are none"),
        (
            "SELECT carrier FROM trips;\nCREATE VIEW trips AS SELECT ts FROM trips",
            (2, 13),
            "there is a stream 'trips'",
        ),
        (
            "INSERT INTO MEMORY SELECT carrier FROM trips EMIT EARLY AT 50%",
            (1, 1),
            "rows of a query without windows",
        ),
    ],
)
def test_what_spark_finds_is_told_with_its_place(
    session: sw.Session, text: str, place: tuple[int, int], said: str
) -> None:
    with pytest.raises(sw.SqlError) as caught:
        session.sql(text)
    assert said in caught.value.message
    assert (caught.value.line, caught.value.column) == place, str(caught.value)


def test_nothing_is_done_if_a_later_statement_cannot_be_read(session: sw.Session) -> None:
    with pytest.raises(sw.SqlError):
        session.sql("CREATE VIEW v AS SELECT * FROM trips; SELEC")
    assert session.sql("SHOW VIEWS").num_rows == 0


def test_names_are_given_once(session: sw.Session) -> None:
    session.sql("CREATE VIEW v AS SELECT * FROM trips")
    with pytest.raises(sw.QueryError, match="write CREATE OR REPLACE VIEW"):
        session.sql("CREATE VIEW v AS SELECT * FROM trips")
    session.sql("CREATE OR REPLACE VIEW v AS SELECT carrier FROM trips")
    assert session.sql("SELECT * FROM v")._plan.schema.names == ["carrier"]
    with pytest.raises(sw.QueryError, match="there is a stream 'trips'"):
        session.sql("CREATE VIEW trips AS SELECT * FROM v")


def test_a_stream_is_read_continuously_until_its_query_is_stopped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(table(), tmp_path / "in" / "one.parquet")
    (tmp_path / "sinks.py").write_text(
        "import threading\n\ncame = threading.Event()\n\n\ndef take(rows, commit_id):\n"
        "    if rows.count():\n        came.set()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    columns = "carrier STRING, ts TIMESTAMP, received TIMESTAMP, delay DOUBLE"
    with sw.Session(spark) as session:
        session.sql(
            f"CREATE STREAM trips ({columns}) FROM 'parquet' OPTIONS (path '{tmp_path}/in') TIME ts "
            "DISORDER BOUNDED 1 MINUTE"
        )
        text = (
            "INSERT INTO FUNCTION 'sinks:take' AS late SELECT carrier FROM trips WHERE delay > 6; RUN CONTINUOUSLY"
        )
        thread = threading.Thread(target=session.sql, args=(text,))
        thread.start()
        assert importlib.import_module("sinks").came.wait(120)
        session.sql("STOP late")
        thread.join(120)
        assert not thread.is_alive()


def test_figures_count_the_results_that_having_lets_through(spark: SparkSession) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(t, k, at) for t, k in enumerate("aabc")]
    with sw.Session(spark) as s:
        df = spark.createDataFrame(rows, "t BIGINT, k STRING, at TIMESTAMP")
        s.stream("rows", df, time="t", disorder=sw.bounded(1), arrival="at", page="1 second")
        run = s.sql("SELECT k, count(*) AS n FROM rows [RANGE 10, SLIDE 10] GROUP BY k HAVING n > 1").start()
        s.run_available()
        figures = run.metrics()
        assert run.results().num_rows == figures["results"] == 1
        (where,) = (of for label, of in figures["operators"].items() if "where" in label)
        assert (where["rows_in"], where["rows_out"]) == (3, 1)
