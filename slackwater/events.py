"""Structured records of `logging`: events of queries, decisions of the engine, and a handler for JSON lines.

All loggers are below the name "slackwater".
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_log = logging.getLogger("slackwater.events")
_decisions = logging.getLogger("slackwater.decisions")
#: The operator on whose behalf decisions are made, for code that does not know its label, such as a policy.
_operator: ContextVar[str | None] = ContextVar("operator", default=None)


def event(name: str, **fields: Any) -> None:
    """Log that something has happened, at the level INFO."""
    _write(_log, logging.INFO, name, fields)


def decision(name: str, **fields: Any) -> None:
    """Log a decision of the engine to `slackwater.decisions`, at the level DEBUG; does nothing if that is off.

    Args:
        name: what was decided, as in "panes.spilled".
        fields: what it was decided by. Give values that are at hand: they are computed also if nothing is logged.
    """
    if not _decisions.isEnabledFor(logging.DEBUG):
        return
    operator = _operator.get()
    if operator is not None and "operator" not in fields:
        fields = {"operator": operator, **fields}
    _write(_decisions, logging.DEBUG, name, fields)


def logs_decisions() -> bool:
    """Whether decisions are logged: ask before computing fields that are not at hand."""
    return _decisions.isEnabledFor(logging.DEBUG)


@contextmanager
def decisions_of(operator: str) -> Iterator[None]:
    """Inside, decisions are logged with this operator's label."""
    token = _operator.set(operator)
    try:
        yield
    finally:
        _operator.reset(token)


def _write(logger: logging.Logger, level: int, name: str, fields: dict[str, Any]) -> None:
    text = " ".join(f"{key}={value!r}" for key, value in fields.items())
    logger.log(level, "%s %s", name, text, extra={"event": name, "fields": fields})


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, event and its fields; else the message.

    >>> told = {"created": 0, "levelname": "INFO", "event": "query.stopped", "fields": {"query": "q1"}}
    >>> JsonLines().format(logging.makeLogRecord(told))
    '{"at": "1970-01-01T00:00:00+00:00", "level": "INFO", "event": "query.stopped", "query": "q1"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line; what JSON does not know is written as text."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
        }
        name = getattr(record, "event", None)
        if name is None:
            line |= {"event": "log", "logger": record.name, "message": record.getMessage()}
        else:
            line |= {"event": name, **getattr(record, "fields", {})}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def log_json(path: str | os.PathLike[str]) -> logging.Handler:
    """A log of events, warnings and errors as JSON lines, appended to a file from now on.

    It gives the handler: `logging.getLogger("slackwater").removeHandler(handler)` ends it.
    """
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("slackwater")
    logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    return handler
