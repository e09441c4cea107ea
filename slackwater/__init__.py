"""Slackwater: a data stream management system for application time, on Apache Spark."""

from typing import TYPE_CHECKING, Never

from slackwater import papers
from slackwater.calls import no_word
from slackwater.dashboard import LivePage
from slackwater.dashboard.telemetry import export_metrics
from slackwater.engine.enabling import Enabling, on_demand
from slackwater.engine.records import History, Snapshot
from slackwater.errors import JournalError, QueryError, QueryWarning, RunError, SinkError, SlackwaterError, SqlError
from slackwater.estimates.early import Early, early
from slackwater.events import log_json
from slackwater.plan.request import ProdRequest, prod
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.bounds.skew_policy import skew, tuples
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.progress.result_error.result_error import result_error
from slackwater.progress.time_kinds import internal, latent
from slackwater.scheduling.chain import chain
from slackwater.scheduling.fifo import fifo
from slackwater.scheduling.heartbeats import Heartbeats, memory_aware, operator_level
from slackwater.scheduling.strategy import Strategy
from slackwater.spark import sinks
from slackwater.spark.api.back_test import tune
from slackwater.spark.api.counterparts import MODULE
from slackwater.spark.api.metric_types import Metrics
from slackwater.spark.api.query import Query, Stream, Windowed
from slackwater.spark.api.run import Run
from slackwater.spark.api.session import Session
from slackwater.spark.sinks.parquet_sink import Parquet, parquet
from slackwater.tune.report import Report
from slackwater.windows.sideline import Sideline, sideline

__version__ = "0.1.0"

__all__ = [
    "Disorder",
    "Early",
    "Enabling",
    "Heartbeats",
    "History",
    "JournalError",
    "LivePage",
    "Metrics",
    "Parquet",
    "ProdRequest",
    "Query",
    "QueryError",
    "QueryWarning",
    "Report",
    "Run",
    "RunError",
    "Session",
    "Sideline",
    "SinkError",
    "SlackwaterError",
    "Snapshot",
    "SqlError",
    "Strategy",
    "Stream",
    "Windowed",
    "bounded",
    "chain",
    "drop_ratio",
    "early",
    "export_metrics",
    "fifo",
    "internal",
    "latent",
    "learned",
    "log_json",
    "memory_aware",
    "on_demand",
    "operator_level",
    "papers",
    "parquet",
    "prod",
    "punctuated",
    "result_error",
    "sensors",
    "sideline",
    "sinks",
    "skew",
    "tune",
    "tuples",
]


def _lacks(name: str) -> Never:
    """Name what to write instead of a word that the package lacks."""
    if name.startswith("_"):
        raise AttributeError(f"module 'slackwater' has no attribute {name!r}")
    raise no_word("sw", name, __all__, MODULE)


if not TYPE_CHECKING:  # with a `__getattr__`, type checkers would accept every attribute
    __getattr__ = _lacks
