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

#: Instead of a file: print it.
_PRINT = "-"
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
    html: str | None,
    json: str | None,
    spark: bool,
) -> None:
    """Try policies on the rows of a file, and print or write what was found."""
    if window[0] is None and window[1] is not None:
        raise QueryError("--slide is for windows of a length: write --window too, as in --window '10 minutes'")
    outputs = {"--html": html, "--json": json}
    if html == json == _PRINT:
        raise QueryError("--html - and --json -: only one of them can be printed; write the other to a file")
    for option, file in outputs.items():
        if file not in (None, _PRINT) and not Path(file).absolute().parent.is_dir():
            raise QueryError(f"{option} {file!r}: there is no folder {str(Path(file).parent)!r}")
    for name, what, example in _NEEDED:
        if settings[name] is None:
            columns = "" if spark else f" {describe_columns(path)}"
            raise QueryError(f"--{name} is missing: name the column {what}, as in --{name} {example}.{columns}")
    settings["windows"] = None if window[0] is None else (window[0], window[1] or window[0])
    report = _with_spark(path, settings) if spark else tune(path, **settings)
    for file, make in ((html, report.html), (json, report.json)):
        if file is not None and file != _PRINT:
            Path(file).write_text(make(), encoding="utf-8")
            say(f"wrote {file}")
    if _PRINT in outputs.values():
        typer.echo(report.html() if html == _PRINT else report.json())
    else:
        show(report)
        if html is None:
            say("Next: copy a line into your program. --html tune.html draws plots, --json - prints all figures.")


def _with_spark(path: str, settings: dict[str, Any]) -> Report:
    with quiet():
        session = Session()
    with session:
        found: list[Report] = []
        to_the_end(lambda: found.append(tune(read_with_spark(session.spark, path), **settings)))
        return found[0]
