"""Where results go. `sw.sinks` is this registry: a function for each kind of table, by its name, also for SQL."""

from collections.abc import Callable

from slackwater.spark.sinks.delta_sink import delta
from slackwater.spark.sinks.kafka_sink import kafka
from slackwater.spark.sinks.parquet_sink import parquet
from slackwater.spark.sinks.postgres_sink import postgres
from slackwater.spark.sinks.table_sink import TableSettings

#: What INSERT INTO name(…) calls.
SINKS: dict[str, Callable[..., TableSettings]] = {
    "delta": delta,
    "kafka": kafka,
    "parquet": parquet,
    "postgres": postgres,
}

__all__ = ["SINKS", "delta", "kafka", "parquet", "postgres"]
