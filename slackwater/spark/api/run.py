"""A running query: its results, its figures, its status, and how to stop it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import Column

from slackwater.calls import NamesCounterparts, called
from slackwater.errors import RunError
from slackwater.events import event
from slackwater.operators.prod_request import read_prod
from slackwater.operators.several_outputs import outputs_of
from slackwater.operators.sink import Output, output_failed
from slackwater.plan.explain import Format, explain
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.request import ProdRequest
from slackwater.scheduling.picture import explain_charts
from slackwater.spark.api import counterparts as words
from slackwater.spark.api.await_end import await_end
from slackwater.spark.api.column_sql import unwrapped
from slackwater.spark.api.metric_types import Metrics
from slackwater.spark.api.metrics import RunFigures
from slackwater.spark.api.notebook import As, plot, results_text, run_html, run_line, table_as, why_empty
from slackwater.spark.api.plays import Play
from slackwater.spark.api.shown import FigureTable, ShownText, explained_if_empty
from slackwater.spark.sinks.memory_sink import MemorySink
from slackwater.spark.sinks.table_sink import TableSink
from slackwater.spark.storage.spark_errors import briefly

if TYPE_CHECKING:
    from slackwater.spark.api.query import Query
    from slackwater.spark.api.running import Running


class Run(NamesCounterparts):
    """A query that was started: what `Query.start` gives."""

    _known_as, _words = "run", words.RUN

    def __init__(
        self,
        running: Running,
        name: str,
        query: Query,
        plan: PlanNode,
        play: Play | None,
        sink: Output,
        late: Output | None = None,
    ) -> None:
        self.name = name
        self.query = query
        self.plan = plan
        self._play = play
        """The replay that it reads; None for live streams."""
        self.outputs = outputs_of(sink)
        self.memory = next((output for output in self.outputs if isinstance(output, MemorySink)), None)
        """Where its results are, if they are kept."""
        self._late = late
        """Where late rows go; None if they are only counted."""
        self._resumable = False
        """Whether the journal keeps what it takes to go on in a later session."""
        self._running = running
        self._figures = RunFigures(name, plan, sink, running.pages)
        self._last: Metrics | None = None
        self._ended = threading.Event()
        self._error: RunError | None = None

    @property
    def active(self) -> bool:
        """True until it is stopped or fails."""
        return not self._ended.is_set()

    @property
    def isActive(self) -> bool:
        """The same as `active`, in PySpark's word."""
        return self.active

    @property
    def status(self) -> str:
        """One of "waiting", "running", "finished", "stopped" and "failed".

        "waiting": nothing is read for it now, because it was started with `hold=True`, or is a replay before
        `session.run_available()`, or all there was has been read. "running": its stream is being read.
        "finished": its replay has ended. "stopped": by `stop()`. "failed": `exception()` says why.
        """
        self._running.look_after_readers()
        if not self.active:
            return "stopped" if self._error is None else "failed"
        if self._play is not None and not (self._play.live and self._play.done):
            return "finished" if self._play.done else "running" if self._play.playing else "waiting"
        return "running" if self._running.reads(self) else "waiting"

    def exception(self) -> RunError | None:
        """The error that has ended it, with its cause; None if there is none."""
        self._running.look_after_readers()
        return self._error

    @property
    def failure(self) -> str:
        """What `exception()` says, without asking Spark; nothing if there is none."""
        return "" if self._error is None else str(self._error)

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, at most for some seconds."""
        self._ended.wait(seconds)

    @property
    def _routes_late(self) -> bool:
        """Whether late rows go somewhere."""
        return self._late is not None

    def __repr__(self) -> str:
        return run_line(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return run_html(self)

    def plot(self, column: str | None = None) -> Any:
        """A figure of matplotlib: the results over time, early ones with their intervals."""
        return plot(self, column)

    @called()
    def results(self, since: pa.Table | None = None, as_: As = "arrow") -> Any:
        """The results in memory, of a query that was started without a sink, in the order they came.

        These are all final rows, and of early rows the last one of each window and group until its final row comes.
        Of more than 256 MiB the oldest are dropped, and counted as `results_dropped` in `metrics()`. To read along:

            seen = run.results()
            news = run.results(since=seen)

        Args:
            since: a table that this method gave before: then only what came after it is returned.
            as_: "arrow", "polars", "pandas" or "spark".
        """
        if self.memory is None:
            raise RunError(
                f"query {self.name!r} writes to a sink; read the results there, or start it with sink=None or with "
                "None among its sinks"
            )
        table = explained_if_empty(self.memory.table(since), lambda: why_empty(self))
        return table_as(table, as_, self.query.session)

    @called(rows=words.COUNT)
    def show(self, rows: int = 20) -> None:
        """Print the first results as a table, as `DataFrame.show()` does; without results, print why."""
        print(results_text(self, rows))

    def metrics(self) -> Metrics:
        """The figures of the run, by name.

        Heartbeat and its lag, rows, how late rows come (`lateness`, in seconds for timestamps), figures of the
        disorder policy (`policy`), what was lost and to which sources and windows, state, queues, time in Spark.
        Those of a query that has ended stay as they were. docs/metrics.md explains each of them.
        """
        return cast(Metrics, FigureTable(self._current_metrics() if self._last is None else self._last))

    def _current_metrics(self) -> Metrics:
        """From what the executor's thread has published."""
        running = self._running
        now = (running.clock if self._play is None else self._play.clock).now()
        return self._figures.at(running.loop.history.latest, now, running.controls.sources(self._play))

    @called()
    def explain(self, format: Format = "text", chart: bool = False) -> str:
        """The operators of the query, each with its heartbeat, what waits before it and what it costs.

        Args:
            format: "text", "mermaid" (a flowchart that many viewers of Markdown draw) or "svg" (a picture).
            chart: give the progress charts of the query instead (S2), as text or as a picture: how much of a row
                each operator leaves, and after how much work.
        """
        figures = self.metrics()
        if chart:
            return ShownText(explain_charts(figures["operators"], format))
        drawn = explain(figures["operators"], self.name, format, figures["strategy"], figures["choices"])
        return ShownText(drawn)

    @called()
    def prod(self, until: object = None, where: str | Column | None = None, at: object = None) -> None:
        """Ask for early answers of the open windows now, from what has arrived (S5). They go to the query's sink.

        Args:
            until: only windows that end by then: a time of the stream, a datetime or text for timestamps.
            where: only groups that meet this condition on the group columns: Spark SQL text, or a Column.
            at: only windows that contain this time (S5's "timestamp = t").
        """
        if not self.active:
            raise RunError(f"query {self.name!r} has {'been stopped' if self.exception() is None else 'failed'}")
        asked = ProdRequest(until, unwrapped("prod", where), at)
        loop, pages = self._running.loop, self._running.pages
        prod = replace(read_prod(self.plan, asked, pages), query=self.name)
        loop.interrupt(lambda: loop.executor.prod(prod, at_once=True))
        event("query.prodded", query=self.name, until=asked.until, where=asked.where, at=asked.at)

    @called(timeout=words.NUMBER)
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query or all its streams have ended, at most for `timeout` seconds; whether they have.

        An error that has ended it is raised. Without a timeout, so is an error if nobody runs it: a replay, and a
        query that was started with `hold=True`, go on only in `session.run_available()`.
        """
        with self._running.interrupts.heard(
            "the query goes on in the background until session.stop() or the end of the program"
        ):
            over = await_end(self._running, self, timeout)
        if self._error is not None:
            raise self._error
        return over

    awaitTermination = await_termination

    @property
    def lastProgress(self) -> Metrics:
        """The same as `metrics()`, in PySpark's word."""
        return self.metrics()

    def stop(self) -> None:
        """Stop the query; its stream stops with the last query that reads it."""
        self._running.stop_run(self)

    def flush(self) -> None:
        """Write all rows that the sinks hold back; `stop()` and `session.run_available()` do so, too."""
        late = () if self._late is None else outputs_of(self._late)
        sinks = [("results", self.outputs), ("late rows", late)]
        for rows, output in [(rows, output) for rows, outputs in sinks for output in outputs]:
            if isinstance(output, TableSink):
                try:
                    output.flush()
                except Exception as error:
                    raise output_failed(self.name, rows, output, error) from error

    @property
    def streams(self) -> list[str]:
        """Names of the sources that it reads."""
        return [stream.name for stream in streams_of(self.plan)]

    def _end(self, error: BaseException | None = None) -> None:
        """It has been stopped, or has failed: perhaps at the last results, while it was being stopped."""
        if self.active:
            self._last = self._current_metrics()
        if isinstance(error, RunError):
            self._error = error
        elif error is not None:
            self._error = RunError(f"query {self.name!r} has failed: {briefly(error)}")
            self._error.__cause__ = error
        self._ended.set()
