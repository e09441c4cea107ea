"""`slackwater tune`: a back-test of files, with a bar for the long work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from slackwater.cli.follow import to_the_end
from slackwater.cli.quiet import quiet
from slackwater.cli.show import say
from slackwater.errors import QueryError
from slackwater.spark.api.session import Session
from slackwater.spark.api.tune import tune
from slackwater.tune.report import Report
from slackwater.tune.show import show


def tune_file(
    path: str,
    settings: dict[str, Any],
    window: tuple[str | None, str | None],
    html: Path | None,
    as_json: bool,
    spark: bool,
) -> None:
    """Try policies on the rows of a file, and print or write what was found."""
    if window[0] is None and window[1] is not None:
        raise QueryError("--slide is for windows of a length: write --window too, as in --window '10 minutes'")
    if html is not None and not html.absolute().parent.is_dir():
        raise QueryError(f"--html {str(html)!r}: there is no folder {str(html.parent)!r}")
    settings["windows"] = None if window[0] is None else (window[0], window[1] or window[0])
    report = _with_spark(path, settings) if spark else _with_bar(path, settings)
    if html is not None:
        report.html(html)
        say(f"wrote {html}")
    if as_json:
        typer.echo(report.json())
    else:
        show(report)


def _with_spark(path: str, settings: dict[str, Any]) -> Report:
    with quiet():
        session = Session()
    with session:
        kind = "csv" if path.endswith(".csv") else "json" if path.endswith((".json", ".jsonl")) else "parquet"
        rows = session.spark.read.load(path, format=kind, header=True, inferSchema=True)
        found: list[Report] = []
        to_the_end(lambda: found.append(_with_bar(rows, settings)))
        return found[0]


def _with_bar(data: Any, settings: dict[str, Any]) -> Report:
    columns, console = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()), Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None)

        def progress(what: str, done: int, steps: int) -> None:
            bar.update(task, description=what, completed=done, total=steps)

        return tune(data, **settings, progress=progress)
