"""Statements beside SELECT: what each says, and the names that later ones know."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import slackwater as sw
from slackwater.errors import SqlError
from slackwater.plan import logical as L
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope
from slackwater.sql.write import to_sql
from tests.kit.sql import SCOPE, select


def statement(text: str) -> S.Statement:
    (found,) = parse(text, SCOPE).statements
    return found


def stream(text: str) -> S.CreateStream:
    found = statement(text)
    assert isinstance(found, S.CreateStream)
    return found


def test_a_stream_has_all_that_a_stream_can_have() -> None:
    made = stream(
        "CREATE STREAM calls (sent TIMESTAMP, m MAP<STRING, INT>, d DECIMAL(10, 2)) FROM 'Parquet'\n"
        "  OPTIONS (path = 'in', maxFilesPerTrigger = 4, mergeSchema TRUE, kafka.bootstrap.servers 'a:1')\n"
        "  WHERE sent > '2013' TIME sent SOURCE device DISORDER BOUNDED 20 SECONDS TRIGGER EVERY 5 SECONDS"
    )
    assert (made.name, made.format, made.time, made.source) == ("calls", "parquet", "sent", "device")
    assert made.columns == "sent TIMESTAMP, m MAP<STRING, INT>, d DECIMAL(10, 2)"
    assert made.options == (
        ("path", "in"),
        ("maxFilesPerTrigger", "4"),
        ("mergeSchema", "true"),
        ("kafka.bootstrap.servers", "a:1"),
    )
    assert (made.where, made.disorder, made.trigger) == ("sent > '2013'", sw.bounded("20 seconds"), "5 seconds")
    assert (made.arrival, made.prods) == (None, False)


def test_a_replay_says_by_what_and_in_which_pages() -> None:
    made = stream(
        "CREATE STREAM f FROM 'orc' OPTIONS (path 'x') TIME t REPLAY BY at PAGE 1 HOUR DISORDER MAX DELAY"
    )
    assert (made.arrival, made.page, made.columns) == ("at", "1 hour", None)


def test_the_time_of_a_stream_may_be_the_clocks() -> None:
    made = stream("CREATE STREAM x FROM 'rate' TIME INTERNAL SOURCE device")
    assert (made.time, made.disorder, made.source) == (sw.internal(), None, "device")
    assert stream("CREATE STREAM x FROM 'rate' TIME latent;").time == sw.latent()
    assert stream("CREATE STREAM x FROM 'rate' TIME `internal` DISORDER MAX DELAY").time == "`internal`"
    assert stream("CREATE STREAM x FROM 'rate' TIME latent + 1 DISORDER MAX DELAY").time == "latent + 1"
    with pytest.raises(sw.SqlError, match="not out of order; leave out DISORDER"):
        stream("CREATE STREAM x FROM 'rate' TIME INTERNAL DISORDER MAX DELAY")


def test_columns_may_be_called_like_clauses() -> None:
    made = stream("CREATE STREAM x FROM 'rate' TIME time SOURCE source DISORDER PUNCTUATED BY page")
    assert (made.time, made.source, made.disorder) == ("time", "source", sw.punctuated("page"))


def test_a_stream_of_prods_has_no_policy() -> None:
    made = stream("CREATE STREAM OF PRODS asks FROM 'rate' TIME timestamp")
    assert made.prods and made.disorder is None


def test_later_statements_know_streams_views_and_functions() -> None:
    text = """CREATE STREAM calls FROM 'rate' TIME timestamp DISORDER MAX DELAY;
              CREATE VIEW even AS SELECT * FROM calls WHERE value % 2 = 0;
              CREATE FUNCTION dumped AS 'json:dumps' RETURNS (a INT, b DOUBLE);
              SELECT a FROM dumped(TABLE even);"""
    parsed = parse(text, Scope())
    query = parsed.statements[-1]
    assert isinstance(query, S.SelectStatement) and isinstance(query.query, L.Select)
    mapped = query.query.inputs[0]
    assert isinstance(mapped, L.Map)
    assert (mapped.function, mapped.schema) == (json.dumps, "a INT, b DOUBLE")
    assert mapped.inputs == (L.Where((L.Scan("calls"),), "value % 2 = 0"),)
    assert parsed.scope.relations == ["calls", "even"]
    assert to_sql(query.query, parsed.scope) == "SELECT a FROM dumped((SELECT * FROM calls WHERE value % 2 = 0))"


def test_later_statements_know_tables() -> None:
    text = """CREATE STREAM calls FROM 'rate' TIME timestamp DISORDER MAX DELAY;
              CREATE TABLE odd (value LONG, name STRING) FROM 'CSV' OPTIONS (path 'in/odd', header TRUE)
              WHERE value > 0;
              SELECT * FROM calls JOIN odd USING (value); SHOW TABLES"""
    _, table, query, shown = parse(text, Scope()).statements
    assert isinstance(table, S.CreateTable) and isinstance(query, S.SelectStatement) and isinstance(shown, S.Show)
    assert (table.name, table.columns, table.format) == ("odd", "value LONG, name STRING", "csv")
    assert (table.options, table.where) == ((("path", "in/odd"), ("header", "true")), "value > 0")
    assert query.query == L.JoinStored((L.Scan("calls"),), "odd", ("value",))
    assert shown.what == "tables"


def test_a_map_without_a_name_cannot_be_written() -> None:
    with pytest.raises(sw.QueryError, match="give its function one with CREATE FUNCTION"):
        to_sql(L.Map((L.Scan("s"),), json.dumps, "a INT"), Scope())


def test_functions_are_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scores.py").write_text("def score(rows):\n    return rows\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = statement("CREATE FUNCTION f AS 'my_scores:score' RETURNS (a INT)")
    assert isinstance(made, S.CreateFunction)
    assert made.function.function.__name__ == "score"


@pytest.mark.parametrize(
    ("written", "early"),
    [
        ("AT 75%", sw.early(at=0.75)),
        ("AT 0.75", sw.early(at=0.75)),
        ("AT 90 SECONDS COVERAGE 95%", sw.early(at="90 seconds", coverage=0.95)),
        ("AT 75% SEASON 8 HOURS", sw.early(at=0.75, season="8 hours")),
        ("EVERY 5 SECONDS", sw.early(every="5 seconds")),
        ("ACCURACY 98%", sw.early(accuracy=0.98)),
        ("AT 7", sw.early(at=7)),
    ],
)
def test_early_answers_are_asked_for_at_the_end(written: str, early: object) -> None:
    query = select(f"SELECT count(*) AS n FROM s [RANGE 10, SLIDE 5] EMIT EARLY {written} SIDELINE RATIO 4")
    assert (query.early, query.sideline) == (early, sw.sideline(ratio=4))
    again = select(to_sql(query.query, SCOPE, query.early, query.sideline))
    assert (again.early, again.sideline) == (query.early, query.sideline)


@pytest.mark.parametrize(("written", "length"), [("1 DAY", "1 day"), ("INTERVAL '2' HOURS", "2 hours"), ("7", 7)])
def test_corrections_are_asked_for_at_the_end(written: str, length: object) -> None:
    query = select(f"SELECT g, count(*) AS corrections FROM s [RANGE 10, SLIDE 5] GROUP BY g CORRECTIONS {written}")
    assert query.corrections == length
    again = select(to_sql(query.query, SCOPE, corrections=query.corrections))
    assert (again.query, again.corrections) == (query.query, length)
    with pytest.raises(SqlError, match="CORRECTIONS belongs to the end of the whole query"):
        select(f"SELECT * FROM (SELECT count(*) AS n FROM s [RANGE 10, SLIDE 5] CORRECTIONS {written})")


def test_an_insert_has_a_sink_late_rows_and_a_name() -> None:
    made = statement("INSERT INTO 'out' LATE INTO 's3://b/late' AS totals SELECT count(*) AS n FROM trips [ROWS 5]")
    assert isinstance(made, S.Insert)
    assert (made.sinks, made.late, made.name) == (("out",), "s3://b/late", "totals")
    table = statement("INSERT INTO parquet('out', Every = 1 MINUTE) LATE t(a = ('x', 'y')) SELECT * FROM trips")
    assert isinstance(table, S.Insert)
    assert table.sinks == (S.SinkCall("parquet", ("out",), {"every": "1 minute"}),)
    assert table.late == S.SinkCall("t", (), {"a": ["x", "y"]})
    for words in ("ORDERED AS q", "AS q ORDERED"):
        ordered = statement(f"INSERT INTO 'out' {words} SELECT * FROM trips")
        assert isinstance(ordered, S.Insert) and (ordered.ordered, ordered.name) == (True, "q")
    memory = statement("INSERT INTO MEMORY SELECT * FROM trips")
    assert isinstance(memory, S.Insert) and memory.sinks == (None,)
    called = statement("INSERT INTO FUNCTION 'json:dump' SELECT * FROM trips")
    assert isinstance(called, S.Insert) and called.sinks == (json.dump,)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SHOW STREAMS", S.Show("streams")),
        ("show queries;", S.Show("queries")),
        ("SHOW RESULTS OF q1", S.Show("results", "q1")),
        ("SHOW STATE OF q1", S.Show("state", "q1")),
        ("PROD q1", S.ProdStatement("q1", None, None)),
        ("PROD q1 AT 25 WHERE k = 1", S.ProdStatement("q1", None, "k = 1", 25)),
        (
            "PROD q1 UNTIL '2013-01-14 06:00' WHERE carrier = 'AA'",
            S.ProdStatement("q1", "2013-01-14 06:00", "carrier = 'AA'"),
        ),
        ("PROD q1 UNTIL 50", S.ProdStatement("q1", 50, None)),
        ("STOP `my query`", S.Stop("my query")),
        ("FORGET q1", S.Forget("q1")),
        ("RUN", S.RunQueries()),
        ("RUN CONTINUOUSLY", S.RunQueries(continuously=True)),
        ("RUN WITHOUT DRAIN SPEED 60", S.RunQueries(drain=False, speed=60.0)),
        ("EXPLAIN q1", S.Explain(None, "q1", "text")),
        ("EXPLAIN FORMAT SVG q1", S.Explain(None, "q1", "svg")),
    ],
)
def test_acts(text: str, made: S.Statement) -> None:
    assert statement(text) == made


def test_a_setting_is_for_the_session_of_a_file() -> None:
    made = statement("SET journal = 'state'")
    assert isinstance(made, S.SetSession)
    assert (made.name, made.value) == ("journal", "state")
    for level in ("operator_level", "query_level", "memory_aware"):
        made = statement(f"SET heartbeat_scope = '{level}'")
        assert isinstance(made, S.SetSession) and (made.name, made.value) == ("heartbeat_scope", level)


def test_a_view_is_no_place_for_emit() -> None:
    with pytest.raises(sw.SqlError, match="write EMIT where the query starts"):
        parse("CREATE VIEW v AS SELECT count(*) AS n FROM trips [ROWS 5] EMIT EARLY AT 75%", SCOPE)
