"""From the text of a job file to its settings. It knows nothing of Spark."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slackwater.estimates.early import Early, early
from slackwater.job.settings import Job, QueryJob, StreamJob
from slackwater.job.table import JobError, Table, about, at, nearest
from slackwater.policies import POLICIES, make_policy
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import microseconds

#: Formats that are folders of files; some of the files say themselves what columns they have.
FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_SELF_DESCRIBING = ("avro", "orc", "parquet")


def read_job(file: Path) -> Job:
    """Read a job file; relative paths in it start at its folder."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"cannot read job file {str(file)!r}: {getattr(error, 'strerror', error)}") from None
    try:
        return parse_job(text, file.parent.absolute())
    except JobError as error:
        raise JobError(f"{file.name}: {error}") from None


def parse_job(text: str, folder: Path) -> Job:
    """Read the text of a job file whose relative paths start at `folder`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"this is not TOML: {error}") from None
    top = Table("", values, ("streams", "query", "sink", "journal", "mode", "drain"))
    streams = top.table("streams")
    if not streams:
        raise JobError("there is no stream; add [streams.NAME] with format, time and disorder")
    made = tuple(_stream(at("streams", name), name, table, folder) for name, table in streams.items())
    query = _query(Table("query", top.table("query"), _QUERY_KEYS), made)
    sink = Table("sink", top.table("sink"), ("path", "late"))
    mode = top.text("mode") or "available"
    if mode not in ("available", "continuous"):
        raise JobError(f'mode: {mode!r} is unknown; write "available" or "continuous"')
    replays = [s.name for s in made if s.replay]
    if replays and mode == "continuous":
        raise JobError(f'mode: the stream {replays[0]!r} is a replay, which has an end; write mode = "available"')
    return Job(
        streams=made,
        query=query,
        sink=_path(sink.text("path"), folder),
        late=_path(sink.text("late"), folder),
        journal=_path(top.text("journal"), folder),
        continuous=mode == "continuous",
        drain=top.flag("drain", default=True),
    )


_STREAM_KEYS = (
    "format",
    "path",
    "options",
    "schema",
    "time",
    "source",
    "disorder",
    "role",
    "replay",
    "arrival",
    "page",
    "trigger",
)


def _stream(where: str, name: str, values: object, folder: Path) -> StreamJob:
    table = Table(where, values, _STREAM_KEYS)
    format = table.need("format", 'format = "parquet"').lower()
    path = _path(table.text("path"), folder)
    replay = table.flag("replay", default=False)
    arrival, page, trigger = table.text("arrival"), table.text("page"), table.text("trigger")
    schema = table.text("schema")
    if format in FILE_FORMATS and path is None:
        raise JobError(f'{where}.path is missing; a {format} stream reads a folder, as in path = "incoming"')
    described = format not in FILE_FORMATS or format == "text" or (replay and format in _SELF_DESCRIBING)
    if schema is None and not described:
        raise JobError(
            f"{where}.schema is missing; files that are still to come cannot say their columns, so write them "
            'down, as in schema = "carrier STRING, sent TIMESTAMP"'
        )
    if replay and arrival is None:
        raise JobError(f'{where}.arrival is missing; name the column of arrival, as in arrival = "received"')
    if replay and trigger is not None:
        raise JobError(f"{where}.trigger: a replay has no trigger; leave it out, or write page to set its steps")
    for key, value in (("arrival", arrival), ("page", page)):
        if not replay and value is not None:
            raise JobError(f"{where}.{key} is for a replay; add replay = true, or leave it out")
    for key, value in (("page", page), ("trigger", trigger)):
        with about(f"{where}.{key}"):
            if value is not None and microseconds(value) <= 0:
                raise JobError(f'{value!r} must be longer than nothing, as in {key} = "10 seconds"')
    role = table.text("role")
    if role not in (None, "prods"):
        raise JobError(f'{where}.role: there is no role {role!r}; write role = "prods", or leave it out')
    if role is not None and "disorder" in table.values:
        raise JobError(f"{where}.disorder: a stream of prods moves no time; leave it out")
    return StreamJob(
        name=name,
        format=format,
        path=path,
        options=_options(f"{where}.options", table.table("options")),
        schema=schema,
        time=table.need("time", 'time = "sent"'),
        source=table.text("source"),
        disorder=_disorder(f"{where}.disorder", table.values.get("disorder")) if role is None else None,
        role=role,
        replay=replay,
        arrival=arrival,
        page=page,
        trigger=trigger,
    )


def _disorder(where: str, value: object) -> Disorder:
    examples = " or ".join(POLICIES[name].example for name in ("bounded", "drop_ratio"))
    if value is None:
        raise JobError(f"{where} is missing; say how late rows may come, as in disorder = {examples}")
    if not isinstance(value, dict) or not value:
        raise JobError(f"{where}: {value!r} is no policy; write for example disorder = {examples}")
    chosen = [name for name in value if name in POLICIES]
    if not chosen:
        raise JobError(
            f"{where}: unknown policy {next(iter(value))!r}{nearest(next(iter(value)), POLICIES)}; "
            f"known policies: {', '.join(POLICIES)}"
        )
    if len(chosen) > 1:
        raise JobError(f"{where}: {chosen[0]!r} and {chosen[1]!r} are two policies; choose one")
    name = chosen[0]
    settings = Table(where, value, (name, *POLICIES[name].options)).values
    with about(where):
        try:
            return make_policy(name, settings)
        except (TypeError, AttributeError):
            raise JobError(f"{value!r} cannot be read; write for example {POLICIES[name].example}") from None


_EARLY = 'early = {at = 0.75} or {every = "5 seconds"} or {accuracy = 0.98}'


def _early(value: object) -> Early:
    if not isinstance(value, dict) or not value:
        raise JobError(f"query.early: {value!r} does not say when to answer; write for example {_EARLY}")
    settings = Table("query.early", value, ("at", "every", "accuracy", "coverage")).values
    with about("query.early"):
        try:
            made = early(**settings)
        except (TypeError, AttributeError):
            raise JobError(f"{value!r} cannot be read; write for example {_EARLY}") from None
    if made.at is None and made.every is None:
        raise JobError(f"query.early: {value!r} does not say when to answer; write for example {_EARLY}")
    return made


def _options(where: str, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for key, value in values.items():
        if isinstance(value, (dict, list)):
            raise JobError(f"{at(where, key)}: an option is text, a number or true/false")
        pairs.append((key, str(value).lower() if isinstance(value, bool) else str(value)))
    return tuple(pairs)


_WINDOW_KEYS = ("range", "slide", "offset", "rows", "wattr", "disorder")
_QUERY_KEYS = ("from", "where", "select", *_WINDOW_KEYS, "group_by", "agg", "early")


def _query(table: Table, made: tuple[StreamJob, ...]) -> QueryJob:
    streams = [s.name for s in made if s.role is None]
    if not streams:
        raise JobError("all streams have a role; add [streams.NAME] without one, for the query to read")
    source = table.need("from", f'from = "{streams[0]}"')
    if source not in streams:
        raise JobError(
            f"query.from: there is no stream {source!r}{nearest(source, streams)}; there are {', '.join(streams)}"
        )
    length = table.span("range")
    if length is None and "rows" not in table.values:
        raise JobError(
            'query.range is missing; give the length of a window, as in range = "30 minutes" or rows = 100'
        )
    agg = table.columns("agg")
    if not agg.named:
        raise JobError('query.agg is missing; name what to compute, as in [query.agg] with n = "count(*)"')
    return QueryJob(
        source=source,
        where=table.text("where"),
        select=table.columns("select"),
        range=length,
        slide=table.span("slide"),
        offset=table.span("offset"),
        rows=table.values.get("rows"),
        wattr=table.text("wattr"),
        disorder=_disorder("query.disorder", table.values["disorder"]) if "disorder" in table.values else None,
        group_by=table.columns("group_by"),
        agg=agg.named,
        early=_early(table.values["early"]) if "early" in table.values else None,
    )


def _path(text: str | None, folder: Path) -> str | None:
    return text if text is None or "://" in text else str(folder / text)
