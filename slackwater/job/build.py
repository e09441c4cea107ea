"""A job on a session: Spark analyses every expression, and nothing starts."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slackwater.job.read import FILE_FORMATS
from slackwater.job.settings import Columns, Job, StreamJob
from slackwater.job.table import JobError, about, nearest
from slackwater.spark.api.prods import check_settings
from slackwater.spark.api.query import Query, Stream
from slackwater.spark.api.session import Session


def build(job: Job, session: Session) -> Query:
    """Declare the streams and the query on a session; Spark analyses all of it, and nothing starts."""
    for key, folder in (("sink.path", job.sink), ("sink.late", job.late), ("journal", job.journal)):
        if folder is not None and "://" not in folder and Path(folder).is_file():
            raise JobError(f"{key}: {folder!r} is a file; give a folder")
    streams = {stream.name: _declare(stream, session) for stream in job.streams}
    query = job.query
    rows: Query = streams[query.source]
    if query.where is not None:
        with about("query.where"):
            rows = rows.where(query.where)
    if query.select != Columns():
        with about("query.select"):
            rows = rows.select(*query.select.listed, **dict(query.select.named))
    with about("query"):
        windows = rows.window(
            query.range, query.slide, query.offset, rows=query.rows, wattr=query.wattr, disorder=query.disorder
        )
    if query.group_by != Columns():
        with about("query.group_by"):
            windows = windows.group_by(*query.group_by.listed, **dict(query.group_by.named))
    with about("query.agg"):
        made = windows.agg(**dict(query.agg))
    with about("query.early"):
        check_settings(made.plan, query.early, None)
    return made


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
    hint = "" if stream.format in formats else nearest(stream.format, formats)
    with _spark_says(f"{where}: Spark cannot read format {stream.format!r}{hint}"):
        frame = reader.load(stream.path) if stream.path is not None else reader.load()
    with about(where):
        return session.stream(
            stream.name,
            frame,
            time=stream.time,
            source=stream.source,
            disorder=stream.disorder,
            arrival=stream.arrival,
            page=stream.page or "10 seconds",
            trigger=stream.trigger,
            role=stream.role,
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
