"""`CREATE STREAM` and `CREATE TABLE` on Spark: a reader for the format, and what is declared on it."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from slackwater.errors import QueryError, SlackwaterError, SqlError, did_you_mean
from slackwater.spark.api.query import Stream
from slackwater.spark.backend.relation import FrameRelation
from slackwater.spark.storage.spark_errors import briefly
from slackwater.sql.create_stream import FILE_FORMATS
from slackwater.sql.source_locations import placed
from slackwater.sql.statements import CreateStream, CreateTable

if TYPE_CHECKING:
    from slackwater.spark.api.session import Session

#: Which clause a message is about, by its first word.
_CLAUSES = {"time": "TIME", "source": "SOURCE", "arrival": "REPLAY", "page": "REPLAY", "where": "WHERE"}
_CLAUSES |= {"seam": "HISTORY"}
_CLAUSES |= {"read_kafka": "OPTIONS", "read_kafka:": "FROM"}
#: Options that are arguments of `read_kafka`; Spark's words for them are understood, too.
_OF_KAFKA = {"servers": "servers", "kafka.bootstrap.servers": "servers", "topic": "topic", "subscribe": "topic"}
_OF_KAFKA |= {"start": "start", "startingoffsets": "start", "format": "format"}
_CLAUSES |= {"prods": "PRODS", "punctuated": "DISORDER", "punctuated(": "DISORDER", "ahead": "AHEAD"}


def declare_stream(session: Session, stream: CreateStream, folder: Path) -> Stream:
    """Declare a stream; relative paths start at the folder."""
    topic = stream.format == "kafka" and stream.columns is not None and not stream.is_static
    frame = None if topic else _frame(session, stream, folder)
    try:
        if frame is None:
            return _read_kafka(session, stream)
        if stream.where is not None:
            frame = FrameRelation(frame).where(stream.where).frame
        return session.stream(
            stream.name,
            frame,
            time=stream.time,
            source=stream.source,
            disorder=stream.disorder,
            arrival=stream.arrival,
            history=_history(session, stream),
            seam=stream.seam,
            page=stream.page or "10 seconds",
            trigger=stream.trigger,
            ahead=stream.ahead,
            prods=stream.prods_when,
            role="prods" if stream.prods else None,
        )
    except QueryError as error:
        first = str(error).replace("=", " ").replace("(", " ").split(maxsplit=1)[0]
        raise _error(stream, _CLAUSES.get(first, "FROM"), str(error)) from None


def _read_kafka(session: Session, stream: CreateStream) -> Stream:
    """The fields of messages are the columns; OPTIONS have the arguments of `read_kafka` and options of Spark."""
    if stream.history is not None:
        wrong = "a history needs Kafka's own columns: leave out the columns, and decode the value in a view"
        raise _error(stream, "HISTORY", wrong)
    if stream.where is not None:
        raise _error(stream, "WHERE", "messages are filtered in queries: write WHERE there, or in a view")
    options = dict(stream.options)
    own: dict[str, str] = {}
    for name, word in _OF_KAFKA.items():
        key = next((key for key in options if key.lower() == name), None)
        if key is not None:
            own[word] = options.pop(key)
    for word, example in (("servers", "servers = 'localhost:9092'"), ("topic", "topic = 'calls'")):
        if word not in own:
            raise _error(stream, "FROM", f"a stream of Kafka needs OPTIONS ({example})")
    return session.read_kafka(
        stream.name,
        own.pop("servers"),
        own.pop("topic"),
        stream.columns,
        time=stream.time,
        source=stream.source,
        disorder=stream.disorder,
        options=options,
        trigger=stream.trigger,
        ahead=stream.ahead,
        prods=stream.prods_when,
        **own,
    )


def _history(session: Session, stream: CreateStream) -> DataFrame | None:
    """The stored table whose rows come first."""
    if stream.history is None:
        return None
    if stream.history not in session._tables:
        known = ", ".join(session._tables) or "none; write CREATE TABLE before"
        raise _error(stream, "HISTORY", f"there is no table {stream.history!r}; there are {known}")
    return session._tables[stream.history]


def declare_table(session: Session, table: CreateTable, folder: Path) -> None:
    """Give a stored relation its name; relative paths start at the folder."""
    if table.name in session._tables:
        raise _error(table, "FROM", f"there is already a table {table.name!r}; create each table once")
    frame = _frame(session, table, folder)
    try:
        if table.where is not None:
            frame = FrameRelation(frame).where(table.where).frame
        session.register_table(table.name, frame)
    except QueryError as error:
        raise _error(table, "WHERE" if str(error).startswith("where") else "FROM", str(error)) from None


def _frame(session: Session, stream: CreateTable, folder: Path) -> DataFrame:
    options = dict(stream.options)
    key = next((key for key in options if key.lower() == "path"), None)
    path = options.pop(key) if key is not None and stream.format in FILE_FORMATS else None
    if path is not None:
        path = path if "://" in path else str(folder / path)
        _must_exist(stream, path)
    reader: Any = session.spark.read if stream.is_static else session.spark.readStream
    reader = reader.format(stream.format).options(**options)
    if stream.columns is not None:
        try:
            reader = reader.schema(stream.columns)
        except Exception as error:
            raise _error(stream, "FROM", f"Spark cannot read the columns: {_first_line(error)}") from None
    try:
        frame: DataFrame = reader.load(path) if path is not None else reader.load()
        return frame
    except Exception as error:
        formats = (*FILE_FORMATS, "kafka", "rate")
        hint = "" if stream.format in formats else did_you_mean(stream.format, formats)
        wrong = f"Spark cannot read format {stream.format!r}{hint}: {_first_line(error)}"
        raise _error(stream, "FROM", wrong) from None


def _must_exist(stream: CreateTable, path: str) -> None:
    local = path.removeprefix("file://")
    if "://" in local or Path(local).exists() or glob.glob(local):
        return
    raise _error(stream, "OPTIONS", f"there is no file or folder {local!r}; make it, or correct the path")


def _error(stream: CreateTable, clause: str, message: str) -> SqlError:
    return placed(stream.script, stream.spans.get(clause, stream.spans["FROM"]), message)


def _first_line(error: Exception) -> str:
    if isinstance(error, SlackwaterError):
        raise error
    text = briefly(error) if isinstance(error, Py4JJavaError) else str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0]
