"""What a session, a query and a run show of themselves, and results as other tables."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import slackwater as sw
from slackwater.spark.api.progress_bar import bar

matplotlib.use("Agg")
pytestmark = pytest.mark.spark

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def session(spark: SparkSession) -> Any:
    with sw.Session(spark) as s:
        rows = [(NOON + timedelta(seconds=n), "ab"[n % 2], float(n)) for n in range(40)]
        frame = spark.createDataFrame(rows, "t TIMESTAMP, k STRING, v DOUBLE")
        s.stream("rows", frame, time="t", arrival="t", disorder=sw.bounded("0 seconds"))
        yield s


def started(s: sw.Session, **settings: Any) -> sw.Run:
    text = "SELECT k, count(*) AS n, avg(v) AS mean FROM rows [RANGE 10 SECONDS, SLIDE 10 SECONDS] GROUP BY k"
    query = s.sql(text)
    assert isinstance(query, sw.Query)
    return query.start(name="mine", **settings)


def test_each_says_what_it_is(session: sw.Session) -> None:
    assert repr(session) == "<Session: streams rows; 0 queries, 0 active; no journal>"
    run = started(session)
    assert repr(run).startswith("<Run mine: waiting, 0 rows")
    assert repr(run.query).startswith("<Query over rows: ")
    session.run_available()
    assert repr(run).startswith("<Run mine: finished, 40 rows")
    assert repr(session) == "<Session: streams rows; 1 queries, 1 active; no journal>"


def test_notebooks_show_drawings_and_the_latest_results(session: sw.Session) -> None:
    run = started(session)
    session.run_available()
    shown = run._repr_html_()
    assert "<svg" in shown and shown.count("<tr>") == 1 + run.results().num_rows
    assert "<svg" in run.query._repr_html_()
    assert "Run mine" in session._repr_html_()
    assert "&lt;Session" in session._repr_html_(), "what is shown is text, not a tag"


def test_results_come_as_the_table_that_is_asked_for(session: sw.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(session)
    session.run_available()
    assert isinstance(run.results(), pa.Table)
    polars, spark = run.results(as_="polars"), run.results(as_="spark")
    assert isinstance(polars, pl.DataFrame) and isinstance(spark, DataFrame)
    assert pl.DataFrame(spark.toArrow()).equals(polars)
    with pytest.raises(sw.QueryError, match="write 'arrow', 'pandas', 'polars' or 'spark'"):
        run.results(as_="excel")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sw.QueryError, match="needs pandas: pip install pandas"):
        run.results(as_="pandas")


def test_results_are_drawn_a_line_for_each_group(session: sw.Session) -> None:
    run = started(session)
    session.run_available()
    (axis,) = run.plot("mean").axes
    drawn = {line.get_label(): [float(y) for y in line.get_ydata()] for line in axis.lines}
    rows = run.results(as_="polars").sort("window_start")
    assert drawn == {k: rows.filter(pl.col("k") == k)["mean"].to_list() for k in "ab"}
    with pytest.raises(sw.QueryError, match="no such column of numbers; there are n, mean"):
        run.plot("k")


def test_a_bar_tells_how_far_a_replay_has_come(session: sw.Session) -> None:
    started(session)
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with bar(session._running.loop, console) as told:
        session.run_available(progress=told)
    assert "4 pages, 40 rows" in written.getvalue() and "2024-05-01 12:00:" in written.getvalue()


def test_show_prints_the_first_results_or_why_there_are_none(
    session: sw.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(session)
    run.show()
    assert "call session.run_available()" in capsys.readouterr().out
    session.run_available()
    run.show(3)
    printed = capsys.readouterr().out
    assert printed.count("2024-05-01 12:00:00") == 2 and "the first 3 of 8 rows" in printed
    run.show()
    assert "the first" not in capsys.readouterr().out
