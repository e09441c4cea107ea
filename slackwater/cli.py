"""The command line: `slackwater demo`, `run` and `check`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

import slackwater
from slackwater import demo as demonstration
from slackwater.errors import SlackwaterError
from slackwater.job import Job, JobError, build, read_job
from slackwater.spark.api.session import Session

app = typer.Typer(
    help="Continuous window queries on Apache Spark, for streams that come late and out of order.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

#: The query's name in the journal: a job file holds one query, and may be renamed.
QUERY = "query"
_STATUS_EVERY = 10.0
_SHOWN_ROWS = 40
#: What Java says at every start, whatever Spark is told; of no use to a user here.
_START_NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Warning: Java versions > Java 11 can only operate in restricted mode",
)


def main() -> None:
    """Entry point."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slackwater {slackwater.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    days: Annotated[
        int, typer.Option(min=1, max=demonstration.YEAR, help="How many days of the year to replay.")
    ] = demonstration.DAYS,
    page: Annotated[
        str, typer.Option(help="How much arrival time comes at once: longer is faster, and answers wait longer.")
    ] = demonstration.PAGE,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/demo"),
) -> None:
    """Replay departures from New York, late as they were, and watch windows close (about a minute)."""
    console = Console()
    with _told():
        summary = demonstration.replay(out, console, days, page, starting=quiet, drive=_to_the_end)
        demonstration.report(summary, out, console)


@app.command()
def check(file: Annotated[Path, typer.Argument(metavar="QUERY.toml", help="The job file.")]) -> None:
    """Say what is wrong with a job file without running it, or print its plan."""
    with _told():
        job = read_job(file)
        with quiet():
            session = Session()
        with session:
            typer.echo(_build(job, session, file).describe())


@app.command()
def run(file: Annotated[Path, typer.Argument(metavar="QUERY.toml", help="The job file.")]) -> None:
    """Run a job file."""
    with _told():
        job = read_job(file)
        with quiet():
            session = Session(journal=job.journal)
        with session:
            started = time.perf_counter()
            query = _build(job, session, file)
            held = _files(job.sink)
            if held and job.journal is None:
                _say(f"{job.sink} holds {held} files of results already; new ones are added")
            running = query.start(job.sink, job.late, QUERY, hold=not job.continuous, early=job.query.early)
            if running.metrics()["heartbeat"] == "end":
                _say(
                    "the last run closed every window in this journal, so rows that come now are late; to go on "
                    "from run to run, write drain = false and begin with a new journal"
                )

            def tell() -> None:
                _say(status(running.metrics()))

            if job.continuous:
                _say("running until Ctrl-C")
                follow(running.await_termination, _interrupt(), tell)
            else:
                _to_the_end(lambda: session.run_available(drain=job.drain), tell)
            figures = running.metrics()
            answers = running.results() if job.sink is None else None
        _say(f"{status(figures)}, {time.perf_counter() - started:.1f} s")
        if answers is not None:
            show(answers)
        else:
            _say(f"results: {job.sink} (Parquet)")


def _build(job: Job, session: Session, file: Path) -> slackwater.Query:
    try:
        return build(job, session)
    except JobError as error:
        raise JobError(f"{file.name}: {error}") from error


def _to_the_end(work: Callable[[], None], tell: Callable[[], None] | None = None) -> None:
    if not follow(work, _interrupt(), tell):
        raise KeyboardInterrupt


def follow(
    work: Callable[[], object],
    stop: threading.Event,
    tell: Callable[[], None] | None = None,
    every: float = _STATUS_EVERY,
) -> bool:
    """Do something until it ends (true) or `stop` is set (false), with `tell` now and then.

    The work has a thread of its own: a signal that hits a call to Java breaks the connection.
    """
    failed: list[BaseException] = []
    ended = False

    def worker() -> None:
        nonlocal ended
        try:
            work()
        except BaseException as error:
            failed.append(error)
        ended = True
        stop.set()

    threading.Thread(target=worker, name="slackwater-work", daemon=True).start()
    while not stop.wait(every):
        if tell is not None:
            tell()
    if failed:
        raise failed[0]
    return ended


def _interrupt() -> threading.Event:
    """Set by Ctrl-C or a request to end; Spark's own handler would cancel the batch that is under way."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def status(figures: dict[str, Any]) -> str:
    """How a query stands, in one line."""
    lag = figures["lag_seconds"]
    late = f" ({figures['missing_time']:,} without a time)" if figures["missing_time"] else ""
    return (
        f"heartbeat {figures['heartbeat']}{'' if lag is None else f', lag {lag:.1f} s'}, "
        f"{figures['rows']:,} rows{late}, {figures['late_rows']:,} late, "
        f"{figures['windows']:,} windows, {figures['results']:,} results"
    )


def show(answers: pa.Table) -> None:
    """Print the latest results as a table."""
    table = Table(box=None, header_style="bold")
    for field in answers.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left", no_wrap=True)
    hidden = max(0, answers.num_rows - _SHOWN_ROWS)
    for row in answers.slice(hidden).to_pylist():
        table.add_row(*(_cell(value) for value in row.values()))
    if hidden:
        _say(f"the latest {_SHOWN_ROWS} of {answers.num_rows:,} results; give [sink] path to keep them all")
    # A pipe has no width, and a cut cell would be of no use there.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).removesuffix("+00:00")


def _files(folder: str | None) -> int:
    return 0 if folder is None or "://" in folder else len(list(Path(folder).glob("*.parquet")))


def _say(text: str) -> None:
    """News goes to stderr, so that stdout has the answers alone."""
    typer.echo(text, err=True)


@contextmanager
def _told() -> Iterator[None]:
    """A user's mistake is told in one line."""
    try:
        yield
    except SlackwaterError as error:
        _say(f"error: {' '.join(str(error).split())}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(130) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Start Spark inside, and its known lines of greeting are left out; all else that it ever says comes through.

    The Java process keeps the stderr that it was started with, so it gets a pipe, and a thread passes on what
    comes out of it for as long as Java lives.
    """
    sys.stderr.flush()
    out, into = os.pipe()
    stderr = os.dup(2)
    os.dup2(into, 2)
    os.close(into)
    threading.Thread(target=_pass_on, args=(out, os.dup(stderr)), name="slackwater-stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)


def _pass_on(out: int, stderr: int) -> None:
    with os.fdopen(out, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as target:
        for line in lines:
            if not any(noise in line for noise in _START_NOISE):
                target.write(line)
