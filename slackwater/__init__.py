"""Slackwater: a data stream management system for application time, on Apache Spark."""

from slackwater.errors import JournalError, QueryError, RunError, SinkError, SlackwaterError
from slackwater.progress.bounded import bounded
from slackwater.progress.drop_ratio import drop_ratio
from slackwater.spark.run import Run
from slackwater.spark.session import Session
from slackwater.spark.stream import Query, Stream

__version__ = "0.1.0"

__all__ = [
    "JournalError",
    "Query",
    "QueryError",
    "Run",
    "RunError",
    "Session",
    "SinkError",
    "SlackwaterError",
    "Stream",
    "bounded",
    "drop_ratio",
]
