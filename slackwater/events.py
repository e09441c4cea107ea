"""What happens to queries, as structured events: records of `logging`, and a handler that writes JSON lines.

All loggers are below the name "slackwater".
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any

_log = logging.getLogger("slackwater.events")


def event(name: str, **fields: Any) -> None:
    """Log that something has happened, at the level INFO."""
    said = " ".join(f"{key}={value!r}" for key, value in fields.items())
    _log.info("%s %s", name, said, extra={"event": name, "fields": fields})


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
