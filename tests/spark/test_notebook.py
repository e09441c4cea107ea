"""What a session, a query and a run show of themselves, and results as other tables."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import matplotlib
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import slackwater as sw
from slackwater.spark.api.progress_bar import bar
from slackwater.spark.api.shown import results_as_text

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


def test_results_of_a_replay_that_nobody_runs_say_why_there_are_none(session: sw.Session) -> None:
    run = started(session)
    assert results_as_text(run.results()) == (
        "query 'mine' has no results yet: nothing has been read; call session.run_available()"
    )
    session.run_available(drain=False)
    run.stop()
    text = results_as_text(run.results())
    assert text is not None and "window_start" in text and "2024-05-01 12:00:10" in text
    assert results_as_text(pa.table({"a": [1]})) is None, "other tables of Arrow stay as they are"


def test_ipython_prints_results_as_a_table(session: sw.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = {}
    formatters = {
        kind: SimpleNamespace(for_type=lambda of, show, kind=kind: known.update({kind: show}))
        for kind in ("text/plain", "text/html")
    }
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters=formatters))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    table = started(session).results()
    printed: list[str] = []
    known["text/plain"](table, SimpleNamespace(text=printed.append), False)
    assert "call session.run_available()" in printed[0] and "run_available" in known["text/html"](table)
    assert known["text/html"](pa.table({"a": [1]})) is None


def test_figures_print_as_a_table_and_stay_a_dict(session: sw.Session) -> None:
    run = started(session)
    session.run_available()
    figures = run.metrics()
    assert isinstance(figures, dict) and json.loads(json.dumps(figures))["rows"] == 40
    lines = repr(figures).splitlines()
    assert len(lines) == len(figures) and ["rows", "40"] in [line.split() for line in lines]
    assert "<td>heartbeat</td>" in figures._repr_html_()  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match=r"there is no figure 'heartbet' .did you mean 'heartbeat'"):
        figures["heartbet"]  # type: ignore[typeddict-item]


def test_what_explain_gives_prints_as_it_is(session: sw.Session) -> None:
    run = started(session)
    for shown in (run.explain(), run.query.explain()):
        assert repr(shown) == str(shown) and "\n" in repr(shown)
    picture: Any = run.explain("svg")
    assert picture._repr_svg_().startswith("<svg") and repr(run.explain("mermaid")).startswith("flowchart")
