"""slackwater journal: look at a journal, take a query out of it, bring it to the newest format. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from slackwater.cli.show import friendly_errors
from slackwater.errors import JournalError
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.spark.storage.journal_files import open_journal
from slackwater.spark.storage.journal_names import FORMAT
from slackwater.spark.storage.journal_view import JournalView
from slackwater.spark.storage.storage_dir import StorageDir, file_name

journal_app = typer.Typer(help="Look at a journal, and mend it while no session uses it.", no_args_is_help=True)
_FOLDER = Annotated[str, typer.Argument(metavar="FOLDER", help="What Session(journal=…) was given.")]
_QUERY = Annotated[str, typer.Argument(metavar="QUERY", help="The query's name.")]


@journal_app.command()
def ls(folder: _FOLDER) -> None:
    """List its queries and streams."""
    with friendly_errors():
        view, console = JournalView(StorageDir.of(folder)), Console()
        table = Table("query", "kept rows", "bytes", "does")
        for name, plan in view.queries.items():
            tables = [found for _, _, found in view.tables(name)]
            last = plan.splitlines()[-1].strip() if plan else ""
            rows, size = sum(t.num_rows for t in tables), sum(t.nbytes for t in tables)
            table.add_row(name, f"{rows:,}", f"{size:,}", last)
        console.print(table)
        for stream, batch in sorted(view.batches.items()):
            console.print(f"stream {stream}: batches up to {batch} are taken")


@journal_app.command()
def show(folder: _FOLDER, query: _QUERY) -> None:
    """Print a query's plan, how far its time has come, and what is kept for it."""
    with friendly_errors():
        view = JournalView(StorageDir.of(folder))
        typer.echo(view.plan(query))
        for label, tick in view.heartbeats(query).items():
            said = {MIN_TICK: "none", MAX_TICK: "the end"}.get(tick, f"{tick:,}")
            typer.echo(f"heartbeat of {label}: {said}")
        for part, step, table in view.tables(query):
            typer.echo(f"record {step}: {part}, {table.num_rows:,} rows: {', '.join(table.schema.names)}")


@journal_app.command()
def export(
    folder: _FOLDER, query: _QUERY, out: Annotated[Path, typer.Argument(metavar="OUT", help="A folder.")]
) -> None:
    """Write what is kept for a query as Parquet: the last whole record, and each change since."""
    with friendly_errors():
        tables = list(JournalView(StorageDir.of(folder)).tables(query))
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise JournalError(f"{out} is not empty: files of two exports would mix; name a new folder")
        for part, step, table in tables:
            path = out / f"{step:012d}-{file_name(part)}.parquet"
            pq.write_table(table, path)
            typer.echo(path)


@journal_app.command()
def forget(folder: _FOLDER, query: _QUERY) -> None:
    """Take a query out, as session.forget() does. No session may use the journal."""
    with friendly_errors():
        place = StorageDir.of(folder)
        JournalView(place).plan(query)
        journal = open_journal(place)
        journal.note({}, [query])
        journal.close()
        typer.echo(f"{query} is out of the journal; its state goes with the next start")


@journal_app.command()
def upgrade(folder: _FOLDER) -> None:
    """Write it in the newest format. No session may use it, and older versions cannot read it any more."""
    with friendly_errors():
        place = StorageDir.of(folder)
        before = JournalView(place).format
        open_journal(place).close()
        typer.echo(f"format {FORMAT}" if before == FORMAT else f"format {before} is now {FORMAT}")
