"""`slackwater tune`: a back-test of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from slackwater.cli.follow import to_the_end
from slackwater.cli.quiet import quiet
from slackwater.cli.show import say
from slackwater.errors import QueryError
from slackwater.spark.api.back_test import read_with_spark, tune
from slackwater.spark.api.session import Session
from slackwater.tune.read import describe_columns
from slackwater.tune.report import Report
from slackwater.tune.show import show

#: What must be named: the option, which column it is, and an example.
_NEEDED = (
    ("time", "of application time, which says when something happened", "sent"),
    (
        "arrival",
        "that says when each row came in (Kafka's timestamp, the time of the file, the ingestion time)",
        "received",
    ),
)


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
    for name, what, example in _NEEDED:
        if settings[name] is None:
            columns = "" if spark else f" {describe_columns(path)}"
            raise QueryError(f"--{name} is missing: name the column {what}, as in --{name} {example}.{columns}")
    settings["windows"] = None if window[0] is None else (window[0], window[1] or window[0])
    report = _with_spark(path, settings) if spark else tune(path, **settings)
    if html is not None:
        report.html(html)
        say(f"wrote {html}")
    if as_json:
        typer.echo(report.json())
    else:
        show(report)
        if html is None:
            say("Next: copy a line into your program. --html tune.html draws plots, --json prints all figures.")


def _with_spark(path: str, settings: dict[str, Any]) -> Report:
    with quiet():
        session = Session()
    with session:
        found: list[Report] = []
        to_the_end(lambda: found.append(tune(read_with_spark(session.spark, path), **settings)))
        return found[0]
