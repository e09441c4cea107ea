"""Job files: a stream, a query and a sink as TOML, read into frozen settings and built on a session.

Reading knows nothing of Spark; building has Spark analyse every expression without starting anything.
"""

from __future__ import annotations

import difflib
import glob
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.errors import SlackwaterError
from slackwater.policies import POLICIES, make_policy
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span, microseconds
from slackwater.spark.session import Session
from slackwater.spark.stream import Query, Stream

#: Formats that are folders of files; some of the files say themselves what columns they have.
FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_SELF_DESCRIBING = ("avro", "orc", "parquet")


class JobError(SlackwaterError):
    """A job file that cannot be run as it stands."""


@dataclass(frozen=True)
class StreamJob:
    """`[streams.NAME]`."""

    name: str
    format: str
    path: str | None
    options: tuple[tuple[str, str], ...]
    schema: str | None
    time: str
    source: str | None
    disorder: Disorder
    replay: bool
    arrival: str | None
    page: str | None
    trigger: str | None


@dataclass(frozen=True)
class Columns:
    """A list of expressions, or a table of names and expressions."""

    listed: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class QueryJob:
    """`[query]`."""

    source: str
    where: str | None
    select: Columns
    range: Span | None
    slide: Span | None
    offset: Span | None
    rows: int | None
    wattr: str | None
    disorder: Disorder | None
    group_by: Columns
    agg: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Job:
    """A whole job file; its paths are absolute or addresses."""

    streams: tuple[StreamJob, ...]
    query: QueryJob
    sink: str | None
    late: str | None
    journal: str | None
    continuous: bool
    """Run until stopped, rather than process what there is."""
    drain: bool


# --- reading


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
    top = _Table("", values, ("streams", "query", "sink", "journal", "mode", "drain"))
    streams = top.table("streams")
    if not streams:
        raise JobError("there is no stream; add [streams.NAME] with format, time and disorder")
    made = tuple(_stream(_at("streams", name), name, table, folder) for name, table in streams.items())
    query = _query(_Table("query", top.table("query"), _QUERY_KEYS), [s.name for s in made])
    sink = _Table("sink", top.table("sink"), ("path", "late"))
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
    "replay",
    "arrival",
    "page",
    "trigger",
)


def _stream(where: str, name: str, values: object, folder: Path) -> StreamJob:
    table = _Table(where, values, _STREAM_KEYS)
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
        with _about(f"{where}.{key}"):
            if value is not None and microseconds(value) <= 0:
                raise JobError(f'{value!r} must be longer than nothing, as in {key} = "10 seconds"')
    return StreamJob(
        name=name,
        format=format,
        path=path,
        options=_options(f"{where}.options", table.table("options")),
        schema=schema,
        time=table.need("time", 'time = "sent"'),
        source=table.text("source"),
        disorder=_disorder(f"{where}.disorder", table.values.get("disorder")),
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
            f"{where}: unknown policy {next(iter(value))!r}{_nearest(next(iter(value)), POLICIES)}; "
            f"known policies: {', '.join(POLICIES)}"
        )
    if len(chosen) > 1:
        raise JobError(f"{where}: {chosen[0]!r} and {chosen[1]!r} are two policies; choose one")
    name = chosen[0]
    settings = _Table(where, value, (name, *POLICIES[name].options)).values
    with _about(where):
        try:
            return make_policy(name, settings)
        except (TypeError, AttributeError):
            raise JobError(f"{value!r} cannot be read; write for example {POLICIES[name].example}") from None


def _options(where: str, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for key, value in values.items():
        if isinstance(value, (dict, list)):
            raise JobError(f"{_at(where, key)}: an option is text, a number or true/false")
        pairs.append((key, str(value).lower() if isinstance(value, bool) else str(value)))
    return tuple(pairs)


_WINDOW_KEYS = ("range", "slide", "offset", "rows", "wattr", "disorder")
_QUERY_KEYS = ("from", "where", "select", *_WINDOW_KEYS, "group_by", "agg")


def _query(table: _Table, streams: list[str]) -> QueryJob:
    source = table.need("from", f'from = "{streams[0]}"')
    if source not in streams:
        raise JobError(
            f"query.from: there is no stream {source!r}{_nearest(source, streams)}; there are {', '.join(streams)}"
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
    )


class _Table:
    """A table of the file whose keys are all known; what is read from it has the right type."""

    def __init__(self, where: str, values: object, known: tuple[str, ...]) -> None:
        if not isinstance(values, dict):
            raise JobError(f"{where}: {values!r} is no table; write [{where}]")
        self.where = where
        self.values: dict[str, Any] = values
        for key in values:
            if key not in known:
                raise JobError(
                    f"{_at(where, key)}: unknown key{_nearest(key, known)}; known keys: {', '.join(known)}"
                )

    def need(self, key: str, example: str) -> str:
        """Text that must be there."""
        value = self.text(key)
        if value is None:
            raise JobError(f"{_at(self.where, key)} is missing; write for example {example}")
        return value

    def text(self, key: str) -> str | None:
        """Text, if it is there."""
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise JobError(f'{_at(self.where, key)}: {value!r} is no text; write {key} = "…"')

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise JobError(f"{_at(self.where, key)}: {value!r}; write true or false, without quotes")
        return value

    def span(self, key: str) -> Span | None:
        """A length of time, or a whole number where time is one."""
        value = self.values.get(key)
        if value is None or type(value) in (str, int):
            return value
        raise JobError(f'{_at(self.where, key)}: {value!r} is no length; write {key} = "30 minutes"')

    def table(self, key: str) -> dict[str, Any]:
        """A table inside, empty if it is not there."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise JobError(f"{_at(self.where, key)}: {value!r} is no table; write [{_at(self.where, key)}]")
        return value

    def columns(self, key: str) -> Columns:
        """A list of expressions or a table of named ones."""
        value = self.values.get(key, [])
        entries = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
            raise JobError(f"{_at(self.where, key)}: {value!r}; expressions are text, each in quotes")
        if isinstance(value, dict):
            return Columns(named=tuple(value.items()))
        if key == "agg" and entries:
            raise JobError('query.agg: aggregates need names; write [query.agg] with n = "count(*)"')
        return Columns(listed=tuple(entries))


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _path(text: str | None, folder: Path) -> str | None:
    return text if text is None or "://" in text else str(folder / text)


@contextmanager
def _about(where: str) -> Iterator[None]:
    """Errors inside are about this key."""
    try:
        yield
    except SlackwaterError as error:
        raise JobError(f"{where}: {error}") from error


# --- building


def build(job: Job, session: Session) -> Query:
    """Declare the streams and the query on a session; Spark analyses all of it, and nothing starts."""
    for key, folder in (("sink.path", job.sink), ("sink.late", job.late), ("journal", job.journal)):
        if folder is not None and "://" not in folder and Path(folder).is_file():
            raise JobError(f"{key}: {folder!r} is a file; give a folder")
    streams = {stream.name: _declare(stream, session) for stream in job.streams}
    query = job.query
    rows = streams[query.source]
    if query.where is not None:
        with _about("query.where"):
            rows = rows.where(query.where)
    if query.select != Columns():
        with _about("query.select"):
            rows = rows.select(*query.select.listed, **dict(query.select.named))
    with _about("query"):
        windows = rows.window(
            query.range, query.slide, query.offset, rows=query.rows, wattr=query.wattr, disorder=query.disorder
        )
    if query.group_by != Columns():
        with _about("query.group_by"):
            windows = windows.group_by(*query.group_by.listed, **dict(query.group_by.named))
    with _about("query.agg"):
        return windows.agg(**dict(query.agg))


def _declare(stream: StreamJob, session: Session) -> Stream:
    where = f"streams.{stream.name}"
    if stream.format in FILE_FORMATS:
        assert stream.path is not None
        _must_exist(stream.path, where)
    reader: Any = session.spark.read if stream.replay else session.spark.readStream
    reader = reader.format(stream.format).options(**dict(stream.options))
    if stream.schema is not None:
        with _spark_says(f"{where}.schema: cannot read {stream.schema!r}"):
            reader = reader.schema(stream.schema)
    formats = (*FILE_FORMATS, "kafka", "rate")
    hint = "" if stream.format in formats else _nearest(stream.format, formats)
    with _spark_says(f"{where}: Spark cannot read format {stream.format!r}{hint}"):
        frame = reader.load(stream.path) if stream.path is not None else reader.load()
    with _about(where):
        return session.stream(
            stream.name,
            frame,
            time=stream.time,
            source=stream.source,
            disorder=stream.disorder,
            arrival=stream.arrival,
            page=stream.page or "10 seconds",
            trigger=stream.trigger,
        )


def _must_exist(path: str, where: str) -> None:
    local = path.removeprefix("file://")
    if "://" in local or Path(local).exists() or glob.glob(local):
        return
    raise JobError(
        f"{where}.path: there is no file or folder {local!r}; make it, or correct the path "
        "(a relative one starts at the job file's folder)"
    )


@contextmanager
def _spark_says(what: str) -> Iterator[None]:
    """Spark's errors in one line; their classes are known in `slackwater.spark` only."""
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise JobError(f"{what}: {lines[0]}") from error
