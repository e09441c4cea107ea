"""What people see of a session, a query and a run: a line at the prompt, a drawing in a notebook, a plot."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pyarrow as pa

from slackwater.errors import QueryError, RunError
from slackwater.plan.node import streams_of
from slackwater.spark.api.shown import html_table, table_text
from slackwater.spark.storage.types import spark_schema
from slackwater.windows.results import WINDOW_END, WINDOW_START

if TYPE_CHECKING:
    from slackwater.spark.api.query import Query
    from slackwater.spark.api.run import Run
    from slackwater.spark.api.session import Session

#: A kind of table.
As = Literal["arrow", "pandas", "polars", "spark"]
#: How many of the latest results a notebook shows.
_LATEST = 10


def table_as(table: pa.Table, kind: As, session: Session) -> Any:
    """Results as the table that somebody likes best."""
    if kind == "arrow":
        return table
    if kind == "polars":
        return pl.DataFrame(table)
    if kind == "spark":
        return session.spark.createDataFrame(table, spark_schema(table.schema))
    if kind != "pandas":
        raise QueryError(f"results(as_={kind!r}): write 'arrow', 'pandas', 'polars' or 'spark'")
    if find_spec("pandas") is None:
        raise QueryError("results(as_='pandas') needs pandas: pip install pandas")
    return table.to_pandas()


def readable(table: pa.Table) -> list[dict[str, Any]]:
    """The rows to be shown. Times beyond Python's years 1 to 9999 are text: windows around 9999-12-31 end there."""
    try:
        return list(table.to_pylist())
    except (OverflowError, ValueError):
        times = [f.name for f in table.schema if pa.types.is_temporal(f.type)]
        frame = pl.DataFrame(table).with_columns(pl.col(times).cast(pl.String))
        return frame.to_dicts()


def results_text(run: Run, rows: int) -> str:
    """The first results as a table for the prompt; without results, the reason."""
    table = run.results()
    return why_empty(run) if not table.num_rows else table_text(table, rows)


def why_empty(run: Run) -> str:
    """Why a query has no results."""
    figures, status = run.metrics(), run.status
    if status == "waiting" and not figures.get("rows"):
        why = "nothing has been read; call session.run_available()"
    elif status in ("waiting", "running"):
        why = f"time is at {figures.get('heartbeat')}, and no window that has rows ends before"
    else:
        why = run.failure or "no row has reached it"
    return f"query {run.name!r} has no results yet: {why}"


def session_line(session: Session) -> str:
    """A session in a line."""
    runs, streams = session.queries(), ", ".join(session._catalogue) or "none"
    active = sum(run.active for run in runs)
    where = "no journal" if session._journal is None else f"journal {session._journal.folder}"
    ended = " (stopped)" if session._stopped else ""
    return f"<Session{ended}: streams {streams}; {len(runs)} queries, {active} active; {where}>"


def query_line(query: Query) -> str:
    """A query in a line."""
    names = ", ".join(stream.name for stream in streams_of(query._plan))
    return f"<{type(query).__name__} over {names}: {query.describe().splitlines()[-1]}>"


def run_line(run: Run) -> str:
    """A run in a line."""
    figures = run.metrics()
    beat, rows = figures.get("heartbeat"), figures.get("rows", 0)
    return f"<Run {run.name}: {run.status}, {rows:,} rows, heartbeat {beat}>"


def session_html(session: Session) -> str:
    """A session with its queries."""
    parts = [f"<p>{escape(session_line(session))}</p>"]
    return "".join([*parts, *(f"<p>{escape(run_line(run))}</p>" for run in session.queries())])


def query_html(query: Query) -> str:
    """A query, drawn."""
    return f"<p>{escape(query_line(query))}</p>{query.explain('svg')}"


def run_html(run: Run) -> str:
    """A run: its status, its operators drawn, and its latest results."""
    failed = f"<p><b>{escape(run.failure)}</b></p>" if run.failure else ""
    return f"<p>{escape(run_line(run))}</p>{failed}{run.explain('svg')}{_latest(run)}"


def _latest(run: Run) -> str:
    if run.memory is None:
        return ""
    table = run.results()
    first = max(0, table.num_rows - _LATEST)
    rows = readable(table.slice(first))
    return html_table(table.column_names, ([_text(value) for value in row.values()] for row in rows))


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plot(run: Run, column: str | None = None) -> Any:
    """Results over time, a line for each group; early ones with their intervals. Gives a figure of matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise QueryError("plot() needs matplotlib: pip install 'slackwater[plot]'") from None
    nodes, rows = run.plan.answers(), pl.DataFrame(run.results())
    if not nodes or WINDOW_START not in rows.columns or "kind" not in rows.columns:
        raise RunError(f"query {run.name!r} gives no results of windows; plot() draws these over time")
    keys = list(nodes[0].kernel.keys)
    hidden = (*keys, "completeness", WINDOW_START, WINDOW_END)
    numbers = [c for c in rows.columns if rows[c].dtype.is_numeric() and c not in hidden]
    values = [c for c in numbers if not c.endswith(("_seen", "_low", "_high"))]
    chosen = column or next(iter(values), None)
    if chosen is None or chosen not in values:
        there = ", ".join(values) or "none"
        raise QueryError(f"plot({column!r}): there is no such column of numbers; there are {there}")
    figure, axis = pyplot.subplots(figsize=(9, 3.5), layout="constrained")
    rows = rows.sort(WINDOW_START)
    for group, results in rows.group_by(keys, maintain_order=True) if keys else [((), rows)]:
        final, early = results.filter(pl.col("kind") == "final"), results.filter(pl.col("kind") == "early")
        label = ", ".join(map(str, group)) or chosen
        (drawn,) = axis.plot(final[WINDOW_START].to_list(), final[chosen].to_list(), marker=".", label=label)
        if early.height:
            _draw_early(axis, early, chosen, drawn.get_color())
    axis.set(title=run.name, xlabel="window_start", ylabel=chosen)
    if 0 < len(axis.lines) <= 12:
        axis.legend(fontsize=8)
    return figure


def _draw_early(axis: Any, early: pl.DataFrame, name: str, colour: Any) -> None:
    low, high = f"{name}_low", f"{name}_high"
    ends = None
    if low in early.columns:
        at = early[name]
        ends = [(at - early[low]).fill_null(0).clip(0).to_list(), (early[high] - at).fill_null(0).clip(0).to_list()]
    axis.errorbar(early[WINDOW_START].to_list(), early[name].to_list(), yerr=ends, fmt="o", color=colour, alpha=0.6)
