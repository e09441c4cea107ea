"""`slackwater tune`: a back-test of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from slackwater.cli.follow import to_the_end
from slackwater.cli.quiet import quiet
from slackwater.cli.show import say
from slackwater.errors import QueryError
from slackwater.spark.api.session import Session
from slackwater.spark.api.tune import read_with_spark, tune
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
    report = _with_spark(path, settings) if spark else tune(path, **settings)
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
        found: list[Report] = []
        to_the_end(lambda: found.append(tune(read_with_spark(session.spark, path), **settings)))
        return found[0]
