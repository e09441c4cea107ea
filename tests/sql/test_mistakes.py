"""A mistake is told with its line, its column, a caret under the place, and what was expected."""

from __future__ import annotations

import re

import pytest

from slackwater.errors import QueryError, SqlError
from slackwater.sql.parse import parse
from tests.kit.sql import SCOPE, plan

#: The caret of a text stands where ‸ is; then what is said.
MISTAKES = [
    ("‸SELEC carrier FROM trips", "expected a statement (SELECT, .* found SELEC (did you mean 'SELECT'?)"),
    ("SELECT carrier ‸FRM trips", "FRM does not belong here (did you mean 'FROM'?)"),
    ("SELECT carrier FROM‸", "expected a stream, a view or a query in parentheses, found the end"),
    (
        "SELECT carrier FROM ‸tripps",
        "there is no stream or table 'tripps' (did you mean 'trips'?); there are .*trips",
    ),
    ("SELECT carrier, FROM trips", None),
    ("SELECT carrier, ‸FROM trips", "expected an expression, found FROM"),
    ("SELECT carrier AS ‸FROM FROM trips", "expected a name after AS, found FROM"),
    ("SELECT carrier FROM trips WHERE‸", "expected a condition, found the end"),
    ("SELECT carrier FROM trips\nWHERE delay ‸>", "expected an expression behind >"),
    ("SELECT carrier FROM trips WHERE delay + ‸> 3", "expected an expression before >"),
    ("SELECT ‸(delay FROM trips", "'(' is never closed"),
    ("SELECT delay‸) FROM trips", "expected FROM, found )"),
    ("SELECT f(delay‸] FROM trips", "expected ')', found ]"),
    ("SELECT ‸'AA FROM trips", "text begins here and never ends; add '"),
    ("SELECT ‸`AA FROM trips", "a name begins here and never ends; add `"),
    ("SELECT a FROM trips ‸/* all", "a comment begins here and never ends; add */"),
    ("SELECT cast(delay AS ‸FOO) FROM trips", "expected TYPE after CAST"),
    ("SELECT delay ‸b c FROM trips", "b does not belong here"),
    ("SELECT delay FROM trips ‸GROUPE BY x", "found GROUPE (did you mean 'GROUP BY'?)"),
    ("SELECT delay FROM trips t ‸u", "expected one of WHERE, .*found u"),
    ("SELECT ‸x.* FROM trips t", "no relation of FROM is called x"),
    ("SELECT ‸[.* FROM trips", "expected a relation's name before the star, found ["),
    ("SELECT ‸count(*) FROM trips", "an aggregate needs a window; write one behind the stream"),
    ("SELECT ‸TOP 3 carrier FROM trips", "write LIMIT 3"),
    ("SELECT ‸STREAM carrier FROM trips", "leave STREAM out"),
    ("SELECT carrier FROM trips ‸FETCH FIRST 3 ROWS ONLY", "FETCH FIRST: write LIMIT 3"),
    (
        "SELECT dest, avg(delay) AS n FROM trips [ROWS 9] GROUP BY dest ORDER BY n LIMIT 3 ‸OFFSET 2",
        "QUALIFY row_number() OVER",
    ),
    (
        "SELECT carrier, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] GROUP BY carrier ‸WITH TOTALS",
        "GROUPING SETS",
    ),
    (
        "SELECT sum(1) AS s FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] EMIT ‸WITH DELAY '1' MINUTE",
        "ON WINDOW CLOSE or FINAL",
    ),
    ("SELECT carrier FROM trips ‸MATCH_RECOGNIZE (PARTITION BY carrier)", "join the stream with itself"),
    ("SELECT carrier FROM trips ‸PIVOT (sum(delay) FOR dest IN ('JFK'))", "FILTER (WHERE k = 'a')"),
    ("SELECT carrier FROM trips ‸TABLESAMPLE (10 PERCENT)", "pmod(hash(id), 10)"),
    (
        "SELECT x.dest FROM trips x JOIN gates y ‸WITHIN 1 HOUR ON x.carrier = y.carrier",
        "y.t BETWEEN x.t - INTERVAL 1 HOUR",
    ),
    ("SELECT count(*) AS n FROM trips [‸SIZE 1 HOUR]", "its RANGE here"),
    (
        "SELECT count(*) AS n FROM trips GROUP BY ‸TUMBLE(ts, INTERVAL '1' HOUR)",
        "write window(ts, INTERVAL '1' HOUR)",
    ),
    (
        "SELECT count(*) AS n FROM trips GROUP BY carrier, ‸HOP(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR)",
        "the size first",
    ),
    (
        "SELECT count(*) AS n FROM trips GROUP BY carrier, ‸SESSION(ts, INTERVAL '1' HOUR)",
        "write session_window(ts",
    ),
    (
        "SELECT ‸array_agg(dest ORDER BY delay) AS a FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR]",
        "ORDER BY inside of a call is not Spark SQL",
    ),
    ("SELECT carrier FROM trips GROUP BY ‸carrier", "GROUP BY: an aggregate needs a window"),
    ("SELECT carrier FROM trips HAVING ‸delay > 1", "HAVING needs a window; write WHERE"),
    ("SELECT carrier FROM trips ‸[ROWS 5]", "a window is for aggregates, and there is none in SELECT"),
    ("SELECT ‸*, count(*) FROM trips [ROWS 5]", "* cannot stand beside a window"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] WHERE ‸count(*) > 5", "WHERE looks at single rows; .*HAVING"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] GROUP BY ‸max(delay)", "a group is made of one row"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] GROUP BY ‸2", "GROUP BY 2: there is no such column"),
    ("SELECT count(*) AS n FROM trips [‸RANG 5 MINUTES]", "expected one of RANGE, .*(did you mean 'RANGE'?)"),
    ("SELECT count(*) AS n FROM trips [RANGE 5 ‸MINUTS]", "unknown unit MINUTS (did you mean 'minutes'?)"),
    ("SELECT count(*) AS n FROM trips [RANGE ‸5 MONTHS]", "unknown unit 'months'.*months and years have no fixed"),
    ("SELECT count(*) AS n FROM trips [RANGE 5 MINUTES‸", "expected ',' or ']', found the end"),
    ("SELECT count(*) AS n FROM trips [RANGE 5 MINUTES, ‸ROWS 5, ROWS 6]", None),
    ("SELECT count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] EMIT ‸CHANGES", "EMIT EARLY EVERY 10 SECONDS"),
    (
        "SELECT count(*) AS n FROM trips WINDOW TUMBLING (SIZE 1 HOUR, ‸GRACE PERIOD 5 MINUTES)",
        "how long a window waits is the stream's disorder policy",
    ),
    (
        "SELECT rank() OVER ‸v AS r, count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR] WINDOW w AS ()",
        "there is no window 'v'; there are w",
    ),
    (
        "SELECT * FROM trips WHERE delay > (SELECT ‸delay FROM gates [RANGE 1 HOUR])",
        "> compares with one value a window; write an aggregate without GROUP BY",
    ),
    ("SELECT count(*) AS n FROM trips [SLIDE 5 MINUTES, ‸SLIDE 6 MINUTES]", "SLIDE is there twice"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] WINDOW ‸[ROWS 6]", "these rows have a window already"),
    ("SELECT count(*) AS n FROM trips [ROWS 5, DRATIO ‸100%]", "not between 0 and 1"),
    ("SELECT count(*) AS n FROM trips [ROWS 5, DISORDER DROP ‸RATO 1%]", "expected RATIO.*(did you mean 'RATIO'?)"),
    (
        "SELECT count(*) AS n FROM trips [ROWS 5, DISORDER ‸BOUNED 1]",
        "a disorder policy .*(did you mean 'BOUNDED'?)",
    ),
    ("SELECT count(*) AS n FROM trips [ROWS 5, DISORDER ‸LEARNED ALPHA 2]", "alpha"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] ‸EMIT", None),
    (
        "SELECT count(*) AS n FROM trips [ROWS 5] EMIT EARLY ‸SOON",
        "expected AT 75%, EVERY 5 SECONDS or ACCURACY 98%",
    ),
    ("SELECT count(*) AS n FROM trips [ROWS 5] ‸EMIT EARLY AT 175%", "a share of the slide lies between 0 and 1"),
    # Not yet, each with its place.
    ("SELECT carrier FROM trips ‸UNION SELECT carrier FROM trips", "UNION would drop equal rows.*write UNION ALL"),
    ("SELECT carrier FROM trips ‸UNION DISTINCT SELECT carrier FROM trips", "UNION would drop equal rows"),
    ("SELECT carrier FROM trips ‸INTERSECT SELECT carrier FROM trips", "INTERSECT is not supported yet"),
    ("SELECT DISTINCT ‸carrier FROM trips", "SELECT DISTINCT: rows are compared within a window"),
    ("SELECT DISTINCT ‸carrier FROM trips [RANGE 5, SLIDE 5] GROUP BY carrier", "leave DISTINCT out"),
    ("SELECT DISTINCT ‸window_start FROM trips [RANGE 5, SLIDE 5]", "write SELECT window_start, count"),
    ("SELECT carrier FROM trips WHERE delay > (SELECT ‸max(x) FROM s)", "an aggregate needs a window"),
    ("SELECT (‸SELECT max(x) FROM s) AS m FROM trips", "to compare results of windows join them"),
    ("SELECT carrier FROM trips WHERE ok OR delay IN (‸SELECT x FROM s)", "by itself or between ANDs"),
    ("SELECT carrier FROM trips WHERE delay IN (‸SELECT x FROM s) IS NULL", "by itself or between ANDs"),
    ("SELECT carrier FROM trips WHERE ‸(delay, seats) IN (SELECT x, i FROM s)", "write EXISTS (SELECT … WHERE …)"),
    ("SELECT carrier FROM trips [NOW] WHERE delay IN (SELECT ‸x, i FROM s [NOW])", "IN compares with one column"),
    ("SELECT carrier FROM trips [NOW] WHERE delay IN (SELECT ‸* FROM s [NOW])", "IN compares with one column"),
    ("SELECT carrier FROM trips [NOW] WHERE EXISTS (SELECT 1 FROM ‸gates)", "the right side has no window"),
    (
        "SELECT carrier FROM ‸trips WHERE carrier IN (SELECT carrier FROM gates [NOW])",
        "the left side has no window",
    ),
    ("SELECT carrier FROM trips [NOW] WHERE EXISTS (SELECT 1 FROM gates [NOW] WHERE‸)", "expected a condition"),
    ("SELECT carrier FROM trips [NOW] WHERE dest IN (SELECT ‸gat FROM gates [NOW])", "there is no column 'gat'"),
    ("SELECT count(*) AS n FROM trips [‸PARTITION BY carrier ROWS 5]", None),
    ("SELECT count(*) AS n FROM SESSION(TABLE trips, ‸5)", "expected DESCRIPTOR"),
    (
        "SELECT count(*) AS n FROM ‸SESSION(TABLE trips PARTITION BY dest, DESCRIPTOR(ts), 5 MINUTES)",
        "PARTITION BY and GROUP BY name the same columns; leave PARTITION BY out, or add GROUP BY",
    ),
    (
        "SELECT count(*) AS n FROM ‸SESSION(TABLE trips, DESCRIPTOR(ts), 5 MINUTES) GROUP BY dest, carrier",
        "write PARTITION BY dest, carrier",
    ),
    ("SELECT count(*) AS n FROM trips ‸[SESSION 5 MINUTES, SLIDE 1 MINUTE]", "sessions have a gap and no other"),
    ("SELECT count(*) AS n FROM trips ‸[SESSION 0 MINUTES]", "gap='0 minutes' must be positive"),
    (
        "SELECT count(*) AS n FROM trips GROUP BY ‸session_window(ts, '5 minutes', '1 minute')",
        "write session_window(time, gap) by itself",
    ),
    (
        "SELECT * FROM trips [SESSION 5 MINUTES] ‸JOIN gates [NOW] USING (carrier)",
        "join() does not pair the rows of sess",
    ),
    ("SELECT carrier FROM trips ‸ORDER BY carrier", "a stream has no end, so it cannot be sorted"),
    ("SELECT carrier FROM trips ‸LIMIT 5", "a stream has no end; stop the query"),
    ("SELECT count(*) AS n FROM TABLE(‸", "expected a table function, found the end"),
    ("SELECT count(*) AS n FROM ‸thrice(TABLE trips)", "there is no table function thrice"),
    ("SELECT carrier FROM trips UNION ALL ‸dest", "expected SELECT, found dest"),
    ("(SELECT carrier FROM trips‸", "expected ')', found the end"),
    ("(SELECT carrier FROM trips) ‸WHERE carrier = 'AA'", "expected one of WHERE"),
    ("(SELECT count(*) AS n FROM trips [ROWS 5] ‸EMIT EARLY AT 75%)", "belongs to the end of the whole query"),
    (
        "SELECT carrier, dest FROM trips UNION ALL ‸SELECT dest, carrier FROM trips",
        "by name, not by place; write them in the order of the first SELECT: carrier, dest",
    ),
    # What analysis finds.
    ("SELECT carrier, delay FROM trips UNION ALL\nSELECT carrier, ‸dellay FROM trips", "no column 'dellay'"),
    ("SELECT carrier, ‸dest FROM trips UNION ALL SELECT carrier FROM trips", "union(): trips has a column 'dest'"),
    ("‸SELECT ts AS a FROM trips UNION ALL SELECT t AS a FROM s", "union(): times must be of one kind"),
    (
        "‸SELECT * FROM trips UNION ALL SELECT count(*) AS n FROM trips [RANGE 1 HOUR, SLIDE 1 HOUR]",
        "union() of rows and of results",
    ),
    ("SELECT carrier, ‸dellay + 1 AS d FROM trips", "there is no column 'dellay' (did you mean"),
    ("SELECT carrier FROM trips\n WHERE ‸dellay > 1", "there is no column 'dellay' (did you mean"),
    ("SELECT max(‸dellay) AS m FROM trips [ROWS 5]", "there is no column 'dellay' (did you mean"),
    ("SELECT count(*) AS n, max(‸dellay) AS m FROM trips [ROWS 5]", "there is no column 'dellay' (did you mean"),
    ("SELECT count(*) AS n FROM trips [ROWS 5] GROUP BY ‸carier", "there is no column 'carier' (did you mean"),
    (
        "SELECT count(*) AS n FROM trips ‸[RANGE 5 MINUTES, STEP 2 MINUTES]",
        "size='5 minutes' is no multiple of step='2 minutes'",
    ),
    (
        "SELECT count(*) AS n FROM trips ‸[RANGE 6 MINUTES, SLIDE 1 MINUTE, STEP 2 MINUTES]",
        "windows that grow have a size and a step",
    ),
    ("SELECT ‸mode(delay) AS m FROM trips [ROWS 5]", "it needs all rows of a window"),
    ("SELECT count(*) AS kind FROM trips [ROWS 5]", None),
    ("SELECT delay AS ‸a, delay AS a FROM trips", "the name 'a' is used twice"),
    # Statements.
    ("CREATE ‸STREM x", "expected STREAM, BOUNDS, TABLE, VIEW or FUNCTION, found STREM (did you mean 'STREAM'?)"),
    ("CREATE STREAM x (a INT) FROM 'json' OPTIONS (path 'x') ‸TIM a", "(did you mean 'TIME'?)"),
    ("CREATE STREAM x (a INT) FROM 'json' OPTIONS (path 'x')‸", "expected TIME and the column of time"),
    (
        "CREATE STREAM x (a INT) FROM 'json' OPTIONS (path 'x') TIME a‸",
        "expected how late rows may come, as in DISORDER",
    ),
    (
        "CREATE STREAM ‸x (a INT) FROM 'json' TIME a DISORDER BOUNDED 5",
        "a json stream reads a folder; add OPTIONS (path",
    ),
    ("CREATE STREAM ‸x FROM 'json' OPTIONS (path 'x') TIME a DISORDER BOUNDED 5", "cannot say their columns"),
    ("CREATE STREAM OF PRODS x FROM 'rate' TIME a ‸DISORDER BOUNDED 5", "a stream of prods moves no time"),
    ("CREATE STREAM x FROM 'rate' TIME a ‸TIME b", "TIME is written twice"),
    (
        "CREATE STREAM x FROM 'rate' TIME a DISORDER BOUNDED 5 REPLAY BY b ‸TRIGGER 5 SECONDS",
        "a replay has no trigger",
    ),
    ("CREATE TABLE ‸t FROM 'csv'", "a csv table reads a folder; add OPTIONS (path"),
    ("CREATE TABLE t FROM 'csv' OPTIONS (path 'x') ‸TIME a", "expected one of OPTIONS, WHERE or the end"),
    ("CREATE FUNCTION f AS ‸'nowhere.at.all:f' RETURNS (a INT)", "cannot import nowhere.at.all"),
    ("CREATE FUNCTION f AS ‸'json:dmps' RETURNS (a INT)", "has no 'dmps' (did you mean 'dump"),
    ("CREATE OR REPLACE ‸STREAM x", "only views can be replaced"),
    ("INSERT INTO ‸out SELECT * FROM trips", "expected a folder, MEMORY or FUNCTION 'module:function', in quotes"),
    ("INSERT INTO t('out', every = 1 MINUTE, ‸'late') SELECT * FROM trips", "expected a setting with its name"),
    ("INSERT INTO 'out' ‸SELEC * FROM trips", "expected SELECT, found SELEC (did you mean 'SELECT'?)"),
    ("SHOW ‸STREMS", "(did you mean 'STREAMS'?)"),
    ("PROD q UNTIL ‸later", "expected a time in quotes, or a whole number"),
    ("RUN ‸FAST", "expected CONTINUOUSLY, WITHOUT DRAIN or SPEED 60"),
    ("SET ‸jurnal = 'x'", "(did you mean 'journal'?)"),
    ("SET strategy = ‸'chian'", "there is no strategy 'chian'"),
    ("SET max_wait = ‸'soon'", "max_wait: cannot read 'soon' as a length of time; write for example '30 minutes'"),
    ("SET heartbeat_scope = ‸'query_levle'", "no level of heartbeats 'query_levle' (did you mean 'query_level'?)"),
    ("SHOW STREAMS ‸SHOW QUERIES", "expected ';' or the end of the statement"),
    ("-- nothing at all‸", "there is no statement"),
]


def checked(text: str) -> None:
    """Read a text of one or more statements, and plan it if it is a query."""
    parse(text, SCOPE)
    if text.lstrip().startswith("SELECT"):
        plan(text)


@pytest.mark.parametrize(("marked", "said"), [m for m in MISTAKES if m[1] is not None])
def test_a_mistake_is_told_with_its_place(marked: str, said: str) -> None:
    place, text = marked.index("‸"), marked.replace("‸", "")
    with pytest.raises(SqlError) as caught:
        checked(text)
    error = caught.value
    line, column = text[:place].count("\n") + 1, place - (text[:place].rfind("\n") + 1) + 1
    assert (error.line, error.column) == (line, column), str(error)
    pattern = ".*".join(re.escape(part) for part in said.split(".*"))
    assert re.search(pattern, error.message), error.message
    first, shown, caret = str(error).splitlines()[0], *str(error).splitlines()[-2:]
    assert first.startswith(f"line {line}, column {column}: ")
    assert shown == f"{line} | {text.splitlines()[line - 1]}"
    assert caret.index("^") == column - 1 + len(f"{line} | ")


@pytest.mark.parametrize("marked", [m[0] for m in MISTAKES if m[1] is None])
def test_other_mistakes_have_a_place_too(marked: str) -> None:
    with pytest.raises(SqlError):
        checked(marked.replace("‸", ""))


def test_a_mistake_in_a_view_is_told_where_the_view_is_used() -> None:
    with pytest.raises(SqlError) as caught:
        plan("WITH v AS (SELECT carrier FROM trips) SELECT delay FROM v")
    assert caught.value.column == len("WITH v AS (SELECT carrier FROM trips) SELECT ") + 1


def test_passwords_are_masked_in_what_an_error_shows() -> None:
    text = """CREATE STREAM s FROM 'kafka' OPTIONS (kafka.sasl.password = 'tiger', topic = 'x'
      'tiger') TIME t DISORDER BOUNDED 1 DAY; INSERT INTO postgres('postgresql://scott:lion@db/x', 'y') SELEC 1"""
    with pytest.raises(SqlError) as told:
        parse(text, SCOPE)
    assert "tiger" not in str(told.value) and "*****" in str(told.value)
    with pytest.raises(SqlError) as told:
        parse(text.replace("\n      'tiger'", ""), SCOPE)
    assert "lion" not in str(told.value) and "scott:****@db/x', 'y') SELEC 1" in str(told.value)
    assert str(told.value).splitlines()[-1].index("^") == str(told.value).splitlines()[-2].index("SELEC")


def test_a_caret_stands_under_its_place_behind_a_tab() -> None:
    with pytest.raises(SqlError) as caught:
        parse("SELECT a\n\t\tFROM nowhere", SCOPE)
    assert str(caught.value).splitlines()[-1] == "  | \t\t     ^^^^^^^"


@pytest.mark.parametrize("opening", ["(", "SELECT * FROM (", "CASE WHEN "])
def test_what_is_nested_too_deeply_is_refused(opening: str) -> None:
    with pytest.raises(SqlError):
        parse("SELECT * FROM (" + opening * 3000, SCOPE)
    with pytest.raises(SqlError):
        parse("SELECT " + "(" * 3000 + "delay" + ")" * 3000 + " FROM trips", SCOPE)
    with pytest.raises(SqlError, match="nested too deeply"):
        parse("SELECT * FROM (" * 60 + "SELECT * FROM trips" + ")" * 60, SCOPE)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(QueryError, match="write SQL as text"):
        parse(5, SCOPE)  # type: ignore[arg-type]
