"""Words of PySpark, Flink, ksqlDB and pandas, each with what to write here instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import SparkSession

from slackwater.calls import Kind
from slackwater.progress.time import is_length


def _same(advice: str, *words: str) -> dict[str, str]:
    return dict.fromkeys(words, advice)


_WINDOWED = (
    "write window('10 minutes').group_by('device').agg(n='count(*)'), or for totals without a window "
    "totals().group_by('device').agg(n='count(*)')"
)
_SINK = "a query is started with its sink: write start('folder') for Parquet, or start(lambda df, commit_id: …)"
_ROWS = "a query has no rows before it runs: write run = query.start(), session.run_available() and run.show()"
_TABLE = "write run = query.start(), session.run_available() and run.results(as_='pandas')"
_COLUMNS = "name the columns to have: write select('a', b='upper(c)')"
_NO_PLAN = "Slackwater plans the work itself; leave it out"
_NULLS = "write Spark SQL: where('v IS NOT NULL'), or select(v='coalesce(v, 0)')"
_MAP = "write map(function, 'a INT, b DOUBLE'), which gets a pyarrow.RecordBatch and gives one"
_STATE = "write rolling(range=…) or rolling(rows=…) for a window that ends with each row, or map(…) for single rows"
_ONCE = "a stream has no end; do it with the results, in the sink or after run.results()"

#: Of a stream or a query.
QUERY: Mapping[str, str] = {
    **_same(f"groups belong to a window: {_WINDOWED}", "groupBy", "group_by", "groupby", "keyBy", "key_by"),
    **_same(f"an aggregate needs a window: {_WINDOWED}", "agg", "aggregate", "avg", "sum", "mean", "min", "max"),
    **_same(f"it would never end; count by windows: {_WINDOWED}", "count", "summary"),
    **_same("write where(…), which filters the results behind agg(…)", "having", "query"),
    **_same(
        "how late rows may come stands at the stream: write s.stream(…, disorder=sw.bounded('10 seconds'))",
        *("withWatermark", "with_watermark", "assign_timestamps_and_watermarks", "watermark"),
    ),
    **_same(_SINK, "writeStream", "write", "writeTo", "foreach", "foreachBatch", "sink_to", "add_sink", "to"),
    **_same("write start(…)", "execute", "execute_insert", "run", "awaitTermination", "await_termination"),
    **_same(_ROWS, "collect", "show", "head", "first", "take", "tail", "print", "results", "toLocalIterator"),
    **_same(_TABLE, "toPandas", "to_pandas", "toArrow", "to_arrow", "to_polars"),
    **_same("print(query) shows the columns; describe() the plan", "schema", "printSchema", "dtypes", "columns"),
    **_same(_COLUMNS, "drop", "withColumnRenamed", "withColumnsRenamed", "toDF", "rename", "assign"),
    "withColumns": "write withColumn(name, expression) for each, or select('*', name='expression')",
    "selectExpr": "select(…) takes Spark SQL: write select('a', b='2 * a')",
    **_same("write union(…), which goes by the names of columns", "unionByName", "unionAll", "concat"),
    **_same("write join(other, on='device', within='10 minutes')", "crossJoin", "merge", "connect", "coGroup"),
    **_same(_NO_PLAN, "cache", "persist", "checkpoint", "repartition", "coalesce", "hint", "localCheckpoint"),
    **_same(
        "write session.sql('CREATE VIEW v AS SELECT …')",
        "createOrReplaceTempView",
        "createTempView",
        "registerTable",
    ),
    "alias": "SQL names the sides of a join; here give columns of one name other names with select(…)",
    **_same(
        _MAP, "mapInArrow", "mapInPandas", "mapPartitions", "flatMap", "flat_map", "apply", "transform", "pipe"
    ),
    **_same(
        "say how far duplicates may be apart: write drop_duplicates('id', within='10 minutes')",
        *("dropDuplicatesWithinWatermark", "distinct", "unique", "deduplicate"),
    ),
    **_same(_STATE, "transformWithState", "transformWithStateInPandas", "process"),
    **_same("a stream has no RDD; write select(…) or map(…)", "rdd"),
    **_same(_NULLS, "na", "fillna", "dropna", "replace"),
    "sample": "write where('rand() < 0.1')",
    **_same(_ONCE, "intersect", "intersectAll", "subtract", "exceptAll"),
    **_same("write window('1 minute')", "tumble", "tumbling", "resample", "window_all"),
    **_same("write window('10 minutes', slide='2 minutes')", "hop", "hopping", "sliding"),
    **_same("every stream is one; s.stream(df=…) says which is replayed", "isStreaming"),
}

#: Of a window, before agg(…).
WINDOWED: Mapping[str, str] = {
    **_same(
        "a window needs aggregates: write agg(n='count(*)').start(…)", "start", "writeStream", "write", "execute"
    ),
    **{
        name: f"write agg({name}='{name}(v)')" if name != "count" else "write agg(n='count(*)')"
        for name in ("count", "sum", "avg", "mean", "min", "max", "first", "last", "std", "stddev")
    },
    **_same("filter rows before window(…), or results behind agg(…)", "where", "filter", "having"),
    **_same("write agg(name='aggregate(column)') for the columns of the results", "select", "aggregate", "reduce"),
    **_same("write a column for each value: agg(a=\"sum(if(k = 'a', v, 0))\")", "pivot", "unpivot"),
    **_same(_STATE, "applyInPandas", "applyInPandasWithState", "transformWithState", "apply", "process"),
    **_same("groups are named with group_by('device')", "keyBy", "key_by", "groupby", "partitionBy"),
    **_same(_ROWS, "show", "collect", "toPandas"),
}

#: Of a session.
SESSION: Mapping[str, str] = {
    **_same("write session.spark.readStream, and session.stream(name, df, …) with what it gives", "readStream"),
    **_same("Spark's own session has it: write session.spark.read", "read"),
    **_same("write session.spark.createDataFrame(…)", "createDataFrame", "range"),
    **_same("write session.spark.conf", "conf"),
    **_same("write session.spark.udf.register('f', f), and call it in Spark SQL", "udf"),
    **_same("write session.sql('SHOW STREAMS') or session.sql('SHOW TABLES')", "catalog", "streams", "tables"),
    **_same("write session.sql('SELECT * FROM name')", "table", "from_path", "query", "view"),
    **_same("write session.sql(…)", "execute_sql", "sql_query", "execute", "create_temporary_view"),
    **_same("write session.register_table(name, df)", "register", "createTable", "add_table", "create_table"),
    **_same("write session.stream(name, df, time=…, disorder=…)", "from_source", "add_source", "source", "declare"),
    **_same("write session.stop()", "close", "shutdown", "cancel"),
    **_same("write query.start(…), then session.run_available()", "run", "start", "run_all", "wait"),
    **_same("write run.await_termination() for each run of session.queries()", "awaitAnyTermination"),
    **_same("write session.queries()", "runs", "active"),
}

#: Of a running query.
RUN: Mapping[str, str] = {
    **_same("write run.results(), or run.show() to print them", "result", "collect", "head", "take", "rows"),
    **_same("write run.results(as_='pandas')", "toPandas", "to_pandas", "df"),
    **_same("write run.results(as_='polars')", "to_polars", "polars"),
    **_same("write session.run_available()", "processAllAvailable", "run", "execute"),
    **_same("write run.metrics(), which has the latest figures", "recentProgress", "progress", "stats"),
    **_same("write run.name", "id", "runId"),
    **_same("write run.stop()", "cancel", "close", "kill"),
    **_same("write run.await_termination()", "join", "result_wait", "awaitAnyTermination"),
}

#: Of the module.
MODULE: Mapping[str, str] = {
    **_same(
        "it is PySpark's: write from pyspark.sql import functions as F, or Spark SQL as text", "col", "expr", "lit"
    ),
    **_same("aggregates are Spark SQL: write agg(n='count(*)')", "count", "sum", "avg", "min", "max", "mean"),
    **_same("write stream.window('1 minute')", "window", "tumbling", "tumble", "Tumble", "TumblingWindow"),
    **_same("write stream.window('10 minutes', slide='2 minutes')", "hopping", "sliding", "Slide"),
    **_same("write stream.rolling(range='10 minutes')", "rolling", "Over"),
    **_same("write disorder=sw.bounded('10 seconds') at the stream", "watermark", "WatermarkStrategy"),
    **_same("write s = sw.Session(), then s.stream(name, df, …)", "stream", "source", "from_source"),
    **_same("write s = sw.Session(), then s.sql(…)", "sql", "query"),
    **_same("write sw.Session()", "SparkSession", "session", "connect", "StreamExecutionEnvironment"),
    **_same("write session.run_available()", "run", "run_available"),
}

#: Arguments of `Session(…)`.
SESSION_ARGUMENTS: Mapping[str, str] = {
    **_same("write journal={value}", "checkpoint", "checkpointLocation", "checkpoint_location", "checkpoint_dir"),
    **_same("write spark= with a SparkSession of that master", "master", "url", "app_name", "appName", "config"),
}

#: Arguments of `Session.stream`.
STREAM_ARGUMENTS: Mapping[str, str] = {
    **_same("write time={value}", "event_time", "eventTime", "timestamp", "time_column", "rowtime", "ts"),
    **_same(
        "write disorder=sw.bounded({value})",
        *("watermark", "delay", "lateness", "allowed_lateness", "delayThreshold", "slack"),
    ),
    **_same("write source={value}", "key", "partition", "device"),
    **_same("write arrival={value}", "arrived", "ingestion_time", "received"),
    **_same("the DataFrame has it already; leave it out", "schema", "format", "path", "options"),
}

#: Arguments of `Query.window`.
WINDOW_ARGUMENTS: Mapping[str, str] = {
    **_same("write window({value})", "windowDuration", "duration", "length", "timedelta"),
    **_same("write slide={value}", "slideDuration", "step", "hop", "every", "period", "advance"),
    **_same("write offset={value}", "startTime", "origin", "start"),
    **_same("write it at the start: start(early={value})", "early"),
    **_same("a window for each row: write rolling(rows=…) or rolling(range=…)", "min_periods", "center"),
    "range": "write window({value}) for windows side by side, or rolling(range={value}) for a window for each row",
    "watermark": "write disorder=sw.bounded({value})",
}

#: Arguments of `Query.join_asof`.
ASOF_ARGUMENTS: Mapping[str, str] = {
    **_same("write on={value}; times are those of the streams", "by", "left_by", "right_by"),
    **_same("times are those of the streams; write on= for the columns that are equal", "left_on", "right_on"),
    **_same("write within={value}", "tolerance"),
    **_same("write direction={value}", "strategy"),
}

#: Arguments of `Query.rolling`.
ROLLING_ARGUMENTS: Mapping[str, str] = _same(
    "write rolling(rows=…) for a number of rows, or rolling(range=…) for a length of time", "window", "size", "n"
)

#: Arguments of `Query.drop_duplicates`.
DISTINCT_ARGUMENTS: Mapping[str, str] = _same("write drop_duplicates({value}, within=…)", "subset", "columns", "by")

#: Arguments of `Query.start`.
START_ARGUMENTS: Mapping[str, str] = {
    **_same(
        "start('folder') writes Parquet; for other formats write a function: "
        "start(lambda df, commit_id: df.write.format({value}).mode('append').save('folder'))",
        "format",
    ),
    **_same(
        "the journal is the session's: write sw.Session(journal={value})",
        "checkpointLocation",
        "checkpoint",
        "journal",
    ),
    **_same(
        "final results are written once, when their window closes; leave it out, or ask for early ones with "
        "early=sw.early(at=0.75)",
        *("outputMode", "output_mode", "mode"),
    ),
    **_same("how often a stream is read stands there: s.stream(…, trigger={value})", "trigger", "processingTime"),
    **_same("write name={value}", "queryName", "query_name"),
    **_same("write sink={value}", "path", "output", "to", "foreachBatch"),
}


def _policy_for(value: object) -> str:
    """The policy to write instead of something that is none."""
    if callable(value):
        return f"sw.{getattr(value, '__name__', 'bounded')}(…), with parentheses"
    if isinstance(value, float) and 0 < value < 1:
        return f"sw.drop_ratio({value!r}), or sw.bounded('10 seconds')"
    length = repr(value) if isinstance(value, str) else "'10 seconds'"
    return f"sw.bounded({length}), or another policy such as sw.drop_ratio(0.01)"


#: Words of Spark for sinks, which are no folders.
_FORMATS = ("memory", "console", "noop", "kafka", "delta", "iceberg", "jdbc", "parquet")

#: A disorder policy.
POLICY = Kind(lambda value: hasattr(value, "tracker") and not isinstance(value, type), _policy_for)
#: True or False.
FLAG = Kind(lambda value: isinstance(value, bool), lambda value: "True or False")
#: A name.
NAME = Kind(lambda value: isinstance(value, str), lambda value: repr(str(value)))
#: What to do when the journal holds another query.
CHANGE = Kind(lambda value: value in ("continue", "new"), lambda value: "'continue' or 'new'")
#: One name, or several.
NAMES = Kind(
    lambda value: isinstance(value, Sequence) and all(isinstance(name, str) for name in value),
    lambda value: "'k' or ['k', 'l']",
)
#: A number of rows.
COUNT = Kind(
    lambda value: isinstance(value, int) and not isinstance(value, bool), lambda value: "20 or another number"
)
#: A number of bytes.
BYTES = Kind(lambda value: type(value) is int, lambda value: "2**28 or another number of bytes")
#: A length of time on the clock.
LENGTH = Kind(
    lambda value: isinstance(value, (str, timedelta)) and is_length(value),
    lambda value: repr(f"{value} seconds" if isinstance(value, int) else "10 seconds"),
)
#: Where results go.
SINK = Kind(
    lambda value: not isinstance(value, str) or value not in _FORMATS,
    lambda value: (
        "None: results stay in memory, for run.results() and run.show()"
        if value in ("memory", "console", "noop")
        else "'out/counts' or another folder, one of sw.sinks, or a function (DataFrame, commit_id)"
    ),
)
#: Seconds.
NUMBER = Kind(lambda value: isinstance(value, (int, float)), lambda value: "10 or another number of seconds")
#: A Spark session.
SPARK = Kind(
    lambda value: isinstance(value, SparkSession),
    lambda value: "SparkSession.builder.master('local[2]').getOrCreate() or another SparkSession",
)
