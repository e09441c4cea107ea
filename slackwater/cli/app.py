"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import slackwater
from slackwater import demo as demonstration
from slackwater.cli.follow import to_the_end
from slackwater.cli.job import check_job, read_file, read_text, run_job
from slackwater.cli.journal import journal_app
from slackwater.cli.prompt import prompt
from slackwater.cli.quiet import quiet
from slackwater.cli.served import served
from slackwater.cli.show import friendly_errors
from slackwater.cli.tune_file import tune_file
from slackwater.events import log_json as write_events
from slackwater.spark.api.session import Session

app = typer.Typer(
    help="Continuous window queries on Apache Spark, for streams that come late and out of order.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(journal_app, name="journal")
_PAGE = Annotated[bool, typer.Option("--page", help="Serve the live page, until Ctrl-C.")]
_PORT = Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 is any that is free.")]
_HOST = Annotated[str, typer.Option(help="Its address; others than this machine's need the token.")]
_FILE = typer.Argument(metavar="FILE.sql", help="The job: SQL statements.")


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
    step: Annotated[
        str, typer.Option(help="How much arrival time comes at once: longer is faster, and answers wait longer.")
    ] = demonstration.PAGE,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/demo"),
    page: _PAGE = False,
    port: _PORT = 0,
    host: _HOST = "127.0.0.1",
) -> None:
    """Replay departures from New York, late as they were, and watch windows close (about a minute)."""
    console = Console()
    with friendly_errors():
        watch = served(port, host) if page else None
        summary = demonstration.replay(out, console, days, step, starting=quiet, drive=to_the_end, watch=watch)
        demonstration.report(summary, out, console)


@app.command()
def sql(
    command: Annotated[str | None, typer.Option("-c", "--command", help="Carry out this SQL and end.")] = None,
    journal: Annotated[str | None, typer.Option(help="Folder in which the session outlives a crash.")] = None,
) -> None:
    """Carry out SQL: at a prompt, or what -c says."""
    with friendly_errors():
        if command is not None:
            run_job(read_text(command, Path.cwd(), {} if journal is None else {"journal": journal}))
            return
        with quiet():
            session = Session(journal=journal)
        with session:
            prompt(session)


@app.command()
def check(file: Annotated[Path, _FILE]) -> None:
    """Say what is wrong with a SQL file without running it, or print the plans of its queries.

    Words and names are checked at once. Then Spark is started, for the types of columns.
    """
    with friendly_errors():
        check_job(read_file(file))


@app.command()
def run(
    file: Annotated[Path, _FILE],
    page: _PAGE = False,
    port: _PORT = 0,
    host: _HOST = "127.0.0.1",
    log_json: Annotated[Path | None, typer.Option(help="File for events, as lines of JSON.")] = None,
) -> None:
    """Run a SQL file."""
    with friendly_errors():
        if log_json is not None:
            write_events(log_json)
        run_job(read_file(file), served(port, host) if page else None)


@app.command()
def tune(
    data: Annotated[
        str, typer.Argument(metavar="FILE", help="Yesterday's rows: Parquet, CSV or JSON; or a folder.")
    ],
    time: Annotated[
        str | None, typer.Option(help="Column of application time: when something happened. Needed.")
    ] = None,
    arrival: Annotated[str | None, typer.Option(help="Column of arrival: when the row came in. Needed.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Column that names the source of a row, such as a device.")
    ] = None,
    window: Annotated[str | None, typer.Option(help="RANGE of the query's windows, as '10 minutes'.")] = None,
    slide: Annotated[str | None, typer.Option(help="SLIDE of the windows; without it they tumble.")] = None,
    page: Annotated[str | None, typer.Option(help="How much arrival time comes at once: your trigger.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Share that may be lost, as 1% or 0.01; several if you like.")
    ] = None,
    delay: Annotated[
        list[str] | None, typer.Option(help="A fixed delay to try too, such as yours of today.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with plots; - prints it instead of a table.")
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write all figures as JSON; - prints them instead of a table."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark read and reduce the rows: for large data.")
    ] = False,
) -> None:
    """Say which delay or policy yesterday's data would have needed, and what each would have cost."""
    with friendly_errors():
        settings: dict[str, Any] = {
            "time": time,
            "arrival": arrival,
            "source": source,
            "page": page,
            "delays": delay or (),
        }
        if target:
            settings["targets"] = target
        tune_file(data, settings, (window, slide), html, json, spark)
