"""What Spark says when it cannot write to the journal's file system, in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from slackwater.errors import RunError
from slackwater.spark.storage.place import Place

_FULL = re.compile(r"No space left on device|[Dd]isk quota exceeded")
_IN_USE = re.compile(
    r"is already active|CONCURRENT_QUERY|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are"
)
_CLOSED = re.compile(
    r"Permission denied|Read-only file system|Mkdirs failed|mkdir of|Cannot create directory|Not a directory|"
    r"ParentNotDirectory|AccessControlException|FileAlreadyExistsException"
)


@contextmanager
def spark_told(act: str, place: Place) -> Iterator[None]:
    """Say an error of Spark that is about a place in our words; let every other error pass."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        advice = _advice(text, place)
        if advice is None:
            raise
        raise RunError(f"Spark cannot {act} {place.address!r}: {_line(text)}; {advice}") from error


def _advice(text: str, place: Place) -> str | None:
    if _FULL.search(text):
        return "the disk is full: make room and start again, the journal goes on from its last commit"
    if _IN_USE.search(text):
        return "another session reads this stream with the same journal: stop it, or give each session its own"
    if _CLOSED.search(text) and any(str(folder) in text for folder in _near(place)):
        return "give Spark the right to write there, or choose another folder for the journal"
    return None


def _near(place: Place) -> list[PurePosixPath]:
    """The place and the two folders above it, which Spark may name instead."""
    path = PurePosixPath(place.path)
    return [path, *path.parents][:3]


def _line(text: str) -> str:
    """The line of a Java error that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    told = [x for x in lines if any(kind.search(x) for kind in (_FULL, _IN_USE, _CLOSED))]
    return (told or lines or [text])[0]
