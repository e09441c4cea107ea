"""Prints for the command line: answers on stdout, news and mistakes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from slackwater.errors import SlackwaterError, SqlError
from slackwater.spark.api.metric_types import Metrics
from slackwater.spark.api.notebook import readable

_SHOWN_ROWS = 40
#: To the beginning of the line, and delete it.
_CLEAR = "\r\x1b[K"


def say(text: str) -> None:
    """News goes to stderr, so that stdout has the answers alone."""
    typer.echo(f"{_CLEAR}{text}" if sys.stderr.isatty() else text, err=True)


def overwrite(text: str) -> None:
    """Write over the last line of a terminal; what is said next writes over this one."""
    typer.echo(f"{_CLEAR}{text}", err=True, nl=False)


def tell_mistake(error: SlackwaterError) -> None:
    """A user's mistake: one line, and under it the place where it is, if it is in a SQL text."""
    if isinstance(error, SqlError):
        say(f"error: {error}")
    else:
        say(f"error: {' '.join(str(error).split())}")


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Print a user's mistake and end."""
    try:
        yield
    except SlackwaterError as error:
        tell_mistake(error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(130) from None


def status(figures: Metrics) -> str:
    """The state of a query in one line."""
    lag = figures["lag_seconds"]
    late = f" ({figures['missing_time']:,} without a time)" if figures["missing_time"] else ""
    windows = f", {figures['windows']:,} windows, {figures['results']:,} results" if "windows" in figures else ""
    return (
        f"heartbeat {figures['heartbeat']}{'' if lag is None else f', lag {lag:.1f} s'}, "
        f"{figures['rows']:,} rows{late}, {figures.get('late_rows', 0):,} late{windows}"
    )


def show(answers: pa.Table) -> None:
    """Print the latest rows as a table."""
    table = Table(box=None, header_style="bold")
    for field in answers.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left", no_wrap=True)
    hidden = max(0, answers.num_rows - _SHOWN_ROWS)
    for row in readable(answers.slice(hidden)):
        table.add_row(*(_cell(value) for value in row.values()))
    if hidden:
        say(f"the latest {_SHOWN_ROWS} of {answers.num_rows:,} rows; write INSERT INTO 'folder' to keep them all")
    # A pipe has no width, and a cut cell would be of no use there.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value).removesuffix("+00:00")
