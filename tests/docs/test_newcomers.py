"""Mistakes of newcomers from other systems: each message names what was written, and what to write.

No Spark runs here: queries are checked against a sample of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

import slackwater as sw
from slackwater.plan import logical as L
from slackwater.progress.time import TimeDomain
from slackwater.sql.scope import Scope
from slackwater.windows.spec import WindowSpec
from tests.kit.sql import SCOPE, plan


def session_without_spark() -> Any:
    """A session that checks queries, and starts none."""
    session: Any = sw.Session.__new__(sw.Session)
    session._analysis = SCOPE.analysis
    session.__dict__["_interpreter"] = SimpleNamespace(scope=cast(Scope, SCOPE))
    return session


s = session_without_spark()
trips: Any = sw.Stream(s, L.Scan("trips"))
gates: Any = sw.Stream(s, L.Scan("gates"))
by_minute: Any = trips.window("1 minute")
counts: Any = by_minute.agg(n="count(*)")
run: Any = sw.Run.__new__(sw.Run)
words: Any = sw
MINUTE = "[RANGE 1 MINUTE, SLIDE 1 MINUTE]"

#: What was done, what of it the message names, and what to write instead.
MISTAKES: list[tuple[Callable[[], Any], str, str]] = [
    # PySpark's words
    (lambda: trips.groupBy("carrier"), "stream.groupBy", "window('10 minutes').group_by("),
    (lambda: trips.group_by("carrier").count(), "stream.group_by", "window('10 minutes').group_by("),
    (lambda: trips.agg(n="count(*)"), "stream.agg", "window('10 minutes')"),
    (lambda: trips.count(), "stream.count", "agg(n='count(*)')"),
    (lambda: trips.withWatermark("ts", "10 seconds"), "stream.withWatermark", "disorder=sw.bounded('10 seconds')"),
    (lambda: counts.writeStream.format("console"), "query.writeStream", "start('folder')"),
    (lambda: counts.write.parquet("out"), "query.write", "start('folder')"),
    (lambda: counts.foreachBatch(print), "query.foreachBatch", "start(lambda df, commit_id: …)"),
    (lambda: counts.collect(), "query.collect", "run.show()"),
    (lambda: counts.show(), "query.show", "session.run_available()"),
    (lambda: counts.toPandas(), "query.toPandas", "run.results(as_='pandas')"),
    (lambda: counts.having("n > 3"), "query.having", "where(…)"),
    (lambda: trips.printSchema(), "stream.printSchema", "print(query)"),
    (lambda: trips.columns, "stream.columns", "print(query)"),
    (lambda: trips.drop("delay"), "stream.drop", "select("),
    (lambda: trips.withColumnRenamed("a", "b"), "stream.withColumnRenamed", "select("),
    (lambda: trips.selectExpr("delay AS d"), "stream.selectExpr", "select("),
    (lambda: trips.unionByName(gates), "stream.unionByName", "union(…)"),
    (lambda: trips.crossJoin(gates), "stream.crossJoin", "within='10 minutes'"),
    (lambda: trips.cache(), "stream.cache", "leave it out"),
    (lambda: trips.repartition(8), "stream.repartition", "leave it out"),
    (lambda: trips.createOrReplaceTempView("v"), "stream.createOrReplaceTempView", "CREATE VIEW v AS"),
    (lambda: trips.mapInPandas(print, "a INT"), "stream.mapInPandas", "map(function, 'a INT, b DOUBLE')"),
    (lambda: trips.transformWithState(), "stream.transformWithState", "rolling(range=…)"),
    (lambda: trips.dropna(), "stream.dropna", "IS NOT NULL"),
    (lambda: trips.rdd, "stream.rdd", "map(…)"),
    (lambda: trips.delay > 3, "stream.delay", "F.col('delay')"),
    (lambda: trips["delay"], "['delay']", "select('delay')"),
    (lambda: list(trips), "[0]", "run.results()"),
    (lambda: trips.isStreaming, "stream.isStreaming", "s.stream(df=…)"),
    # of windows
    (lambda: by_minute.start("out"), "window.start", "agg(n='count(*)').start("),
    (lambda: by_minute.count(), "window.count", "agg(n='count(*)')"),
    (lambda: by_minute.avg("delay"), "window.avg", "agg(avg='avg(v)')"),
    (lambda: by_minute.select("delay"), "window.select", "agg(name='aggregate(column)')"),
    (lambda: by_minute.where("delay > 1"), "window.where", "behind agg(…)"),
    (lambda: by_minute.pivot("carrier"), "window.pivot", "sum(if("),
    (lambda: by_minute.applyInPandasWithState(), "window.applyInPandasWithState", "rolling(rows=…)"),
    # Flink's, ksqlDB's and pandas' words
    (lambda: trips.key_by("carrier"), "stream.key_by", "group_by("),
    (lambda: trips.process(print), "stream.process", "map(…)"),
    (lambda: trips.sink_to(None), "stream.sink_to", "start('folder')"),
    (lambda: trips.tumble("1 minute"), "stream.tumble", "window('1 minute')"),
    (lambda: trips.hopping("1 minute"), "stream.hopping", "slide='2 minutes'"),
    (lambda: trips.resample("1min"), "stream.resample", "window('1 minute')"),
    (lambda: trips.assign(x=1), "stream.assign", "select("),
    (lambda: trips.rolling(range="1 minute").mean(), "window.mean", "agg(mean='mean(v)')"),
    (lambda: trips.merge(gates), "stream.merge", "join(other, on='device'"),
    # slips of the pen
    (lambda: trips.filtr("delay > 1"), "stream.filtr", "'filter'"),
    (lambda: trips.windw("1 minute"), "stream.windw", "'window'"),
    (lambda: counts.startt(), "query.startt", "'start'"),
    (lambda: run.explian(), "run.explian", "'explain'"),
    (lambda: words.bound("1 second"), "sw.bound", "'bounded'"),
    # of the session, the run and the module
    (lambda: s.readStream, "session.readStream", "session.spark.readStream"),
    (lambda: s.read, "session.read", "session.spark.read"),
    (lambda: s.table("trips"), "session.table", "session.sql("),
    (lambda: s.execute_sql("SELECT 1"), "session.execute_sql", "session.sql(…)"),
    (lambda: s.udf.register("f", len), "session.udf", "session.spark.udf.register("),
    (lambda: s.close(), "session.close", "session.stop()"),
    (lambda: s.awaitAnyTermination(), "session.awaitAnyTermination", "run.await_termination()"),
    (lambda: run.processAllAvailable(), "run.processAllAvailable", "session.run_available()"),
    (lambda: run.recentProgress, "run.recentProgress", "run.metrics()"),
    (lambda: run.to_pandas(), "run.to_pandas", "run.results(as_='pandas')"),
    (lambda: run.cancel(), "run.cancel", "run.stop()"),
    (lambda: words.col("delay"), "sw.col", "functions as F"),
    (lambda: words.watermark("1 second"), "sw.watermark", "sw.bounded("),
    (lambda: words.SparkSession, "sw.SparkSession", "sw.Session()"),
    (lambda: words.stream("x"), "sw.stream", "s.stream(name, df, …)"),
    # arguments
    (lambda: counts.start(format="delta"), "format='delta'", "df.write.format('delta')"),
    (lambda: counts.start("out", checkpointLocation="cp"), "checkpointLocation='cp'", "sw.Session(journal='cp')"),
    (lambda: counts.start(outputMode="append"), "outputMode='append'", "early=sw.early(at=0.75)"),
    (lambda: counts.start(trigger="5 seconds"), "trigger='5 seconds'", "s.stream(…, trigger='5 seconds')"),
    (lambda: counts.start(queryName="q"), "queryName='q'", "name='q'"),
    (lambda: counts.start(name=5), "name=5", "'5'"),
    (lambda: counts.start(hold="yes"), "hold='yes'", "hold=True"),
    (lambda: counts.start(ordered="ts"), "ordered='ts'", "ordered=True"),
    (lambda: trips.window(windowDuration="1 minute"), "windowDuration='1 minute'", "window('1 minute')"),
    (lambda: trips.window("10 minutes", step="1 minute"), "step='1 minute'", "slide='1 minute'"),
    (lambda: trips.window("1 minute", early=0.75), "early=0.75", "start(early=0.75)"),
    (lambda: trips.window("1 minute", disorder="5 seconds"), "disorder='5 seconds'", "sw.bounded('5 seconds')"),
    (lambda: trips.rolling(window=5), "window=5", "rolling(rows=…)"),
    (lambda: trips.where("delay > 3", "seats > 1"), "where()", "where(condition)"),
    (lambda: trips.withColumn("x"), "withColumn()", "withColumn(name, expression)"),
    (lambda: trips.map(lambda r: r), "map()", "map(function, schema)"),
    (lambda: s.stream("x", None, time="ts", disorder="10 seconds"), "'10 seconds'", "sw.bounded('10 seconds')"),
    (lambda: s.stream("x", None, time="ts", disorder=10), "disorder=10", "sw.bounded('10 seconds')"),
    (lambda: s.stream("x", None, time="ts", disorder=timedelta(1)), "timedelta(days=1)", "sw.bounded("),
    (lambda: s.stream("x", None, time="ts", disorder=0.01), "disorder=0.01", "sw.drop_ratio(0.01)"),
    (lambda: s.stream("x", None, time="ts", disorder=sw.bounded), "disorder=", "sw.bounded(…)"),
    (lambda: s.stream("x", None, disorder=None), "'time'", "stream(name, df, time=…"),
    (lambda: s.stream("x", None, event_time="ts"), "event_time='ts'", "time='ts'"),
    (lambda: s.stream("x", None, time="ts", watermark="1 hour"), "watermark='1 hour'", "sw.bounded('1 hour')"),
    (lambda: words.Session("local[2]"), "'local[2]'", "SparkSession.builder.master("),
    (lambda: words.Session(checkpoint="cp"), "checkpoint='cp'", "journal='cp'"),
    (lambda: counts.start("console"), "sink='console'", "None: results stay in memory"),
    (lambda: counts.start("kafka"), "sink='kafka'", "a function (DataFrame, commit_id)"),
    (lambda: s.stream("x", None, time="ts", page=10), "page=10", "page='10 seconds'"),
    (lambda: s.stream("x", None, time="ts", trigger={"once": True}), "{'once': True}", "trigger='10 seconds'"),
    (lambda: words.Session(resident_limit="1 GB"), "'1 GB'", "2**28"),
    # settings
    (lambda: sw.bounded("-10 seconds"), "bounded('-10 seconds')", "bounded('0 seconds')"),
    (lambda: sw.bounded("soon"), "bounded('soon')", "bounded('20 seconds')"),
    (lambda: sw.bounded("INTERVAL '5' SECOND"), "INTERVAL '5' SECOND", "bounded('20 seconds')"),
    (lambda: words.bounded(delay="5 seconds"), "delay='5 seconds'", "slack="),
    (lambda: sw.bounded("5 seconds", idle="-1 minute"), "idle='-1 minute'", "idle='1 minute'"),
    (lambda: sw.drop_ratio(1), "drop_ratio(1)", "'1%'"),
    (lambda: words.drop_ratio(), "drop_ratio()", "drop_ratio(p"),
    (lambda: words.skew("5 seconds"), "skew('5 seconds')", "{('fast', 'slow'): (0, '5 seconds')}"),
    (lambda: sw.early("often"), "at='often'", "as in 0.75"),
    (lambda: sw.early(at="75%"), "at='75%'", "as in 0.75"),
    (lambda: sw.early(accuracy=98), "accuracy=98", "accuracy=0.98"),
    (lambda: sw.early(at=75).offset(WindowSpec(60, 60), TimeDomain.TIMESTAMP), "at=75", "as in 0.75"),
    # expressions
    (lambda: trips.window("ts", "1 minute"), "window('ts', …)", "window('10 minutes')"),
    (lambda: trips.window("a minute"), "size='a minute'", "'30 minutes'"),
    (lambda: trips.window(60), "size=60", "size='30 minutes'"),
    (lambda: trips.where("count(*) > 3"), "count(*) > 3", "agg(n='count(*)').where('n > 3')"),
    (lambda: trips.where(lambda r: r.delay > 3), "where(", "as in where('delay > 15')"),
    (lambda: trips.where("dely > 3"), "'dely'", "'delay'"),
    (lambda: trips.select(r="row_number() OVER (ORDER BY ts)"), "OVER (…)", "rolling(rows=…)"),
    (lambda: trips.select(**{"*": "delay"}), "'*'", "'star'"),
    (lambda: by_minute.agg(**{"^n$": "count(*)"}), "'^n$'", "'star'"),
    (lambda: by_minute.agg({"delay": "avg"}), "{'delay': 'avg'}", "agg(n='count(*)')"),
    (lambda: by_minute.agg("count(*)"), "count(*)", "agg(n='count(*)')"),
    (lambda: by_minute.agg(t="averge(delay)"), "'averge'", "'average'"),
    (lambda: by_minute.agg(t="delay"), "t='delay'", "t='sum(x)'"),
    (lambda: trips.join("gates", on="carrier"), "'gates'", "a static DataFrame"),
    (lambda: trips.union([gates]), "union(", "flights.union(trains)"),
    # SQL
    (lambda: plan("SELECT avg(delay) AS d FROM trips"), "an aggregate", "[RANGE 10 MINUTES, SLIDE 2 MINUTES]"),
    (lambda: plan(f"SELECT averge(delay) AS d FROM trips {MINUTE}"), "'averge'", "'average'"),
    (
        lambda: plan("SELECT avg(delay) OVER w AS d FROM trips WINDOW w AS (PARTITION BY dest)"),
        "OVER (PARTITION BY dest)",
        "ORDER BY ts",
    ),
    (
        lambda: plan("SELECT count(*) AS n FROM trips WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 MINUTE)"),
        "how long a window waits",
        "DISORDER BOUNDED",
    ),
    (
        lambda: plan(f"SELECT max(n) AS m FROM (SELECT count(*) AS n FROM trips {MINUTE}) [ROWS 11]"),
        "rolling() over results",
        "window('10 minutes')",
    ),
    (lambda: run.await_termination("10 seconds"), "timeout='10 seconds'", "timeout=10"),
    (lambda: run.show("all"), "rows='all'", "rows=20"),
]


@pytest.mark.parametrize("n", range(len(MISTAKES)))
def test_a_mistake_is_named_with_what_to_write(n: int) -> None:
    act, written, advice = MISTAKES[n]
    with pytest.raises(sw.SlackwaterError) as caught:
        act()
    told = str(caught.value)
    assert written in told, told
    assert advice in told, told


def test_unknown_words_are_no_attributes() -> None:
    """As Python and notebooks ask for them."""
    assert not hasattr(trips, "collect") and not hasattr(run, "collect") and not hasattr(sw, "col")
    assert not hasattr(trips, "_repr_png_") and not hasattr(trips, "__len__") and bool(trips)


def test_an_error_inside_a_property_is_told_as_it_is() -> None:
    broken: Any = sw.Stream(cast(Any, SimpleNamespace()), L.Scan("trips"))
    with pytest.raises(AttributeError, match="_analysis"):
        _ = broken._plan


def test_there_are_a_hundred() -> None:
    assert len(MISTAKES) > 100 and len({written for _, written, _ in MISTAKES}) > 100


def test_lists_and_names_behind_as_are_taken_as_in_pyspark() -> None:
    grouped = by_minute.group_by(["carrier", "dest"]).agg("count(*) AS n")
    assert grouped.describe() == by_minute.group_by("carrier", "dest").agg(n="count(*)").describe()
    assert trips.select(["carrier", "delay"]).describe() == trips.select("carrier", "delay").describe()


def test_having_may_have_an_aggregate_that_select_lacks() -> None:
    text = f"SELECT carrier FROM trips {MINUTE} GROUP BY carrier HAVING count(*) > 3"
    assert plan(text).schema.names[:2] == ["carrier", "window_start"]
