"""Topics of Kafka as a stream of decoded messages. Only the fields that queries use are decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from slackwater.errors import QueryError, did_you_mean, shown
from slackwater.spark.storage.spark_errors import briefly

#: Options that are set unless the user sets them. Measured on 2 M small messages, Spark's reader alone gives 0.93 M
#: rows a second with them, and 0.51 M with Kafka's defaults (500 messages, 1 MiB a partition, 50 MiB).
FAST_READER = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(16 * 2**20),
    "kafka.fetch.max.bytes": str(64 * 2**20),
}
FORMATS = ("json", "avro", "columns")
PARTITION = "kafka_partition"
#: Columns of Kafka's own for each message, in addition to its fields.
ABOUT = {
    "kafka_key": "CAST(key AS STRING)",
    "kafka_offset": "offset",
    "kafka_timestamp": "timestamp",
    "kafka_topic": "topic",
}
_OURS = {
    "kafka.bootstrap.servers": "servers=",
    "subscribe": "topic=",
    "subscribepattern": "topic=",
    "assign": "topic=",
    "startingoffsets": "start=",
}
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_AVRO = "org.apache.spark:spark-avro_2.13"


class Topics:
    """Some topics, and how their messages are decoded."""

    def __init__(
        self,
        spark: SparkSession,
        servers: str | Sequence[str],
        topic: str | Sequence[str],
        schema: str | StructType | None,
        format: str,
        start: str,
        options: Mapping[str, Any],
    ) -> None:
        """Check the arguments: a mistake is a QueryError. No broker is asked yet."""
        addresses, topics = _listed("servers", servers, "localhost:9092"), _listed("topic", topic, "calls")
        _check(format, schema, options)
        given = {name: _text(name, value) for name, value in options.items()}
        known = {name.lower() for name in given}
        fast = {name: value for name, value in FAST_READER.items() if name not in known}
        reader = spark.readStream.format("kafka").options(**fast, **given)
        reader = reader.option("kafka.bootstrap.servers", ",".join(addresses)).option("subscribe", ",".join(topics))
        try:
            self._rows = reader.option("startingOffsets", start).load()
        except (PySparkException, Py4JJavaError) as error:
            raise QueryError(_why_not_read(error, spark)) from error
        number = "CAST(partition AS STRING)"
        self._partition = "partition" if len(topics) == 1 else f"concat(topic, '-', {number})"
        self._format = format
        self._message, self._fields = self._decoder(schema)
        taken = {name.lower() for name in (*ABOUT, PARTITION)} if self._fields is not None else set()
        if clash := next((f.name for f in self._fields or () if f.name.lower() in taken), None):
            raise QueryError(f"read_kafka(schema=…): the name {clash!r} is taken by Kafka's own; rename the field")
        self._narrowed: dict[frozenset[str] | None, DataFrame] = {}

    def frame(self, columns: Sequence[str] | None = None) -> DataFrame:
        """The decoded messages, with all columns; or with at least those that are named here."""
        key = None if columns is None else frozenset(columns)
        if key not in self._narrowed:
            self._narrowed[key] = self._decoded(key)
        return self._narrowed[key]

    def _decoded(self, columns: frozenset[str] | None) -> DataFrame:
        if self._fields is None:
            kept = [f"`{name}`" for name in self._rows.columns]
            return self._rows.selectExpr(*kept, f"{self._partition} AS {PARTITION}")
        wanted = [f for f in self._fields if columns is None or f.name in columns]
        about = [*ABOUT.items(), (PARTITION, self._partition)]
        beside = [f"{sql} AS {name}" for name, sql in about if columns is None or name in columns]
        if not wanted:
            return self._rows.selectExpr(*beside)
        message = self._message(StructType(wanted)).alias("__message")
        rows = self._rows.select(message, *map(F.expr, beside))
        fields = [F.col(f"__message.`{f.name}`").alias(f.name) for f in wanted]
        return rows.select(*fields, *(c for c in rows.columns if c != "__message"))

    def _decoder(self, schema: str | StructType | None) -> tuple[Any, StructType | None]:
        """What decodes some fields of a message, and all of its fields; None for Kafka's own columns."""
        value = F.col("value")
        if self._format == "columns":
            return None, None
        if self._format == "json":
            fields = _fields(schema, self._rows.sparkSession)
            return lambda some: F.from_json(value.cast("string"), some), fields
        from pyspark.sql.avro.functions import from_avro

        try:
            message = from_avro(value, str(schema), {"mode": "PERMISSIVE"})
            found = self._rows.select(message.alias("m")).schema["m"].dataType
        except Exception as error:
            if "AVRO" in str(error).upper() and _lacks(str(error)):
                raise QueryError(
                    f"read_kafka(format='avro'): Spark's package for Avro is missing; start Python with "
                    f'PYSPARK_SUBMIT_ARGS="--packages {_CONNECTOR}:VERSION,{_AVRO}:VERSION pyspark-shell"'
                ) from error
            raise QueryError(f"read_kafka(schema=…): this is no schema of Avro: {_first_line(error)}") from error
        if not isinstance(found, StructType):
            raise QueryError("read_kafka(schema=…): the schema of Avro must be that of a record")
        return lambda some: message, found


def _lacks(text: str) -> bool:
    signs = ("not found", "NotFound", "'JavaPackage' object", "AVRO_NOT_LOADED", "deploy")
    return any(sign in text for sign in signs)


def _check(format: str, schema: object, options: Mapping[str, Any]) -> None:
    if format not in FORMATS:
        near = did_you_mean(str(format), FORMATS)
        raise QueryError(f"read_kafka(format={shown(format)}): the formats are {', '.join(FORMATS)}{near}")
    if (schema is None) != (format == "columns"):
        raise QueryError(
            "read_kafka(schema=…): say which fields a message has, as in schema='sent TIMESTAMP, tower STRING'; or "
            "take Kafka's own columns with format='columns'"
            if schema is None
            else "read_kafka(format='columns'): Kafka's own columns are always the same; leave out schema="
        )
    for name in options:
        if not isinstance(name, str):
            raise QueryError(f"read_kafka(options=…): {shown(name)} is no name of an option; write a text")
        if name.lower() in _OURS:
            raise QueryError(f"read_kafka(options={{{name!r}: …}}): write {_OURS[name.lower()]} instead")


def _listed(what: str, given: object, example: str) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not listed or not all(isinstance(t, str) and t.strip() for t in listed):
        raise QueryError(f"read_kafka({what}={shown(given)}): write {what}={example!r}, or a list of such texts")
    return [text.strip() for text in listed]


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise QueryError(f"read_kafka(options={{{name!r}: {shown(value)}}}): an option is a text or a whole number")
    return str(value)


def _fields(schema: object, spark: SparkSession) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str) or not schema.strip():
        raise QueryError(f"read_kafka(schema={shown(schema)}): write fields with types, as in 'tower STRING'")
    try:
        return spark.createDataFrame([], schema).schema
    except Exception as error:
        raise QueryError(f"read_kafka(schema={schema!r}): Spark cannot read it: {_first_line(error)}") from error


def _why_not_read(error: Exception, spark: SparkSession) -> str:
    if "DATA_SOURCE_NOT_FOUND" in str(error) or "deploy" in str(error):
        return (
            "read_kafka: Spark's connector for Kafka is missing; start Python with "
            f'PYSPARK_SUBMIT_ARGS="--packages {_CONNECTOR}:{spark.version} pyspark-shell"'
        )
    return f"read_kafka: Spark refuses the options: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    text = briefly(error) if isinstance(error, Py4JJavaError) else str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0]
