"""What Spark says when something fails: short, and in our words where it is about the journal's file system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from slackwater.calls import EXPLAINED
from slackwater.errors import RunError
from slackwater.masking import masked
from slackwater.spark.storage.storage_dir import StorageDir

_FULL = re.compile(r"No space left on device|[Dd]isk quota exceeded")
_IN_USE = re.compile(
    r"is already active|CONCURRENT_QUERY|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are"
)
_CLOSED = re.compile(
    r"Permission denied|Read-only file system|Mkdirs failed|mkdir of|Cannot create directory|Not a directory|"
    r"ParentNotDirectory|AccessControlException|FileAlreadyExistsException"
)

#: A line of a Java error that says what has gone wrong, behind the class of the exception.
_SAID = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)
#: Where Spark's message ends and its plan, or Java's stack, begins.
_BESIDE = re.compile(r"JVM stacktrace:|=== Streaming Query ===")
_UNREADABLE = "[FAILED_READ_FILE"
_DEAD = (
    "Spark's Java process has ended, perhaps killed for its memory; see its output and start the program again: "
    "with a journal it goes on where it was"
)
#: What Py4J raises, also when Java has died.
JAVA_ERRORS = (Py4JError, ConnectionError)


@contextmanager
def spark_errors_explained(act: str, place: StorageDir) -> Iterator[None]:
    """Say an error of Spark that is about a place in our words; let every other error pass."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        advice = _advice(text, place)
        if advice is None:
            raise
        raise RunError(f"Spark cannot {act} {place.address!r}: {_line(text)}; {advice}") from error


def briefly(error: BaseException) -> str:
    """An error without the places in Java that it came through: Spark's own message, and the first cause of all.

    Passwords in it are masked.
    """
    return masked(_briefly(error))


def _briefly(error: BaseException) -> str:
    if _java_has_died(error):
        return _DEAD
    if not isinstance(error, Py4JJavaError):
        return f"{type(error).__name__}: {_BESIDE.split(str(error))[0].strip()}"
    said = [match[1].strip() for match in _SAID.finditer(str(error))]
    # Spark's messages begin with the name of a condition, as in [FAILED_READ_FILE.NO_HINT].
    known = next((text for text in said if text.startswith("[")), said[0] if said else str(error))
    text = known if not said or said[-1] == known else f"{known} ({said[-1]})"
    return f"{text}; mend the file, then start the query again" if _UNREADABLE in known else text


def _java_has_died(error: BaseException) -> bool:
    """Whether an error says that nobody answers for Java any more."""
    if isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)):
        return True
    # What Py4J raises when Java ends in the middle of a call: it has neither an exception of Java nor a trace.
    text = str(error)
    return type(error) is Py4JError and "occurred while calling" in text and "Trace" not in text


def java_has_died(error: BaseException | None) -> bool:
    """Whether an error was raised because Java has died: then it is not one query's alone."""
    while error is not None and not _java_has_died(error):
        error = error.__cause__
    return error is not None


EXPLAINED.append(lambda error: RunError(_DEAD) if _java_has_died(error) else None)


def _advice(text: str, place: StorageDir) -> str | None:
    if _FULL.search(text):
        return "the disk is full: make room and start again, the journal goes on from its last commit"
    if _IN_USE.search(text):
        return "another session reads this stream with the same journal: stop it, or give each session its own"
    if _CLOSED.search(text) and any(str(folder) in text for folder in _near(place)):
        return "give Spark the right to write there, or choose another folder for the journal"
    return None


def _near(place: StorageDir) -> list[PurePosixPath]:
    """The place and the two folders above it, which Spark may name instead."""
    path = PurePosixPath(place.path)
    return [path, *path.parents][:3]


def _line(text: str) -> str:
    """The line of a Java error that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    told = [x for x in lines if any(kind.search(x) for kind in (_FULL, _IN_USE, _CLOSED))]
    return (told or lines or [text])[0]
