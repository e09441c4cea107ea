"""Words, names and rows that make no sense, through the public interface on Spark: an error of ours, or a count."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import SlackwaterError

pytestmark = pytest.mark.spark

SIZES = [40, pytest.param(1_500, marks=pytest.mark.long)]
QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))
WORDS = [
    "t",
    "k",
    "v",
    "count(*)",
    "sum(v)",
    "sum(",
    "",
    " ",
    "10 minutes",
    "-1 second",
    "0 seconds",
    "nothing",
    "*",
]
WORDS += ["k = k", "max(nothing)", "row_number() OVER ()", "rand()", "`", "'", "k; DROP TABLE x", "é", "avg(k)"]
JUNK = st.one_of(
    st.sampled_from(WORDS),
    st.none(),
    st.booleans(),
    st.integers(-5, 10**19),
    st.floats(),
    st.text(max_size=8),
    st.just(timedelta(days=-1)),
    st.just(object()),
    st.lists(st.sampled_from(WORDS), max_size=2),
)
#: Calls of a query that a user may write, by name, and the words of their arguments.
CALLS: dict[str, tuple[str, ...]] = {
    "where": (),
    "select": ("a", "t"),
    "window": ("slide", "offset", "rows", "slide_rows", "disorder", "fill", "forget"),
    "rolling": ("range", "rows"),
    "sessions": ("gap",),
    "group_by": (),
    "agg": ("n", "m"),
    "drop_duplicates": ("within",),
    "join": ("on", "within", "how"),
    "union": ("ordered",),
    "explode": (),
}


@pytest.mark.parametrize("size", SIZES)
def test_a_query_of_random_words_is_refused_or_runs(spark: SparkSession, size: int) -> None:
    """Whatever is refused: the session goes on, and a good query still gives its answer."""
    rows = spark.createDataFrame(
        [(datetime(2026, 3, 1, 10, n, tzinfo=UTC), "ab"[n % 2], n) for n in range(6)],
        "t TIMESTAMP, k STRING, v INT",
    )
    with sw.Session(spark) as s:
        stream = s.stream("rows", rows, time="t", arrival="t", disorder=sw.bounded("1 minute"))

        @settings(QUIET, max_examples=size)
        @given(data=st.data())
        def check(data: st.DataObject) -> None:
            query: Any = stream
            try:
                for _ in range(data.draw(st.integers(1, 4))):
                    name = data.draw(st.sampled_from([*CALLS]))
                    given = data.draw(st.lists(JUNK, max_size=2))
                    words = data.draw(st.dictionaries(st.sampled_from(CALLS[name] or ("x",)), JUNK, max_size=2))
                    query = getattr(query, name)(*given, **words)
                query.explain()
            except SlackwaterError as error:
                assert str(error)

        check()
        run = stream.window("10 minutes").agg(n="count(*)").start()
        s.run_available()
        assert [row["n"] for row in run.results().to_pylist()] == [6]


DECLARED: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "name": lambda: st.one_of(st.text(max_size=5), JUNK),
    "time": lambda: JUNK,
    "source": lambda: JUNK,
    "arrival": lambda: JUNK,
    "page": lambda: JUNK,
    "trigger": lambda: JUNK,
    "ahead": lambda: JUNK,
    "role": lambda: JUNK,
    "disorder": lambda: JUNK,
    "history": lambda: JUNK,
    "seam": lambda: JUNK,
}


@pytest.mark.parametrize("size", SIZES)
def test_a_declaration_of_random_words_is_refused_or_made(spark: SparkSession, size: int) -> None:
    rows = spark.createDataFrame([(datetime(2026, 3, 1, tzinfo=UTC), "a", 1)], "t TIMESTAMP, k STRING, v INT")
    with sw.Session(spark) as s:

        @settings(QUIET, max_examples=size)
        @given(data=st.data())
        def check(data: st.DataObject) -> None:
            how: dict[str, Any] = {"name": f"s{data.draw(st.integers(0, 10**9))}", "time": "t", "arrival": "t"}
            how |= {"disorder": sw.bounded("1 minute")}
            for word in data.draw(st.lists(st.sampled_from([*DECLARED]), max_size=3)):
                how[word] = data.draw(DECLARED[word]())
            frame = data.draw(st.sampled_from([rows, rows, rows, None, "rows"]))
            try:
                s.stream(how.pop("name"), frame, **how)
            except SlackwaterError as error:
                assert str(error)

        check()


def test_words_that_the_random_ones_found(spark: SparkSession) -> None:
    """These gave raw errors."""
    rows = spark.createDataFrame([(datetime(2026, 3, 1, tzinfo=UTC), "a")], "t TIMESTAMP, k STRING")
    with sw.Session(spark) as s:
        stream = s.stream("rows", rows, time="t", arrival="t", disorder=sw.bounded("1 minute"))
        for keys in (timedelta(days=1), 5, [1]):
            with pytest.raises(SlackwaterError, match=r"write keys='k' or \['k', 'l'\]"):
                stream.drop_duplicates(keys, within="1 minute")  # type: ignore[arg-type]
        with pytest.raises(SlackwaterError, match="is no text and no number"):
            stream.drop_duplicates("k", within=[])  # type: ignore[arg-type]
        for words in (("k", True), (None,)):
            with pytest.raises(SlackwaterError, match="explode"):
                stream.explode(*words)  # type: ignore[arg-type]
        with pytest.raises(SlackwaterError, match="a stream's name is a text"):
            s.stream(["x"], rows, time="t", arrival="t", disorder=sw.bounded("1 minute"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "BIGINT", "DOUBLE", "DATE"])
def test_rows_without_a_time_that_can_be_believed_are_counted(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The ends of each type, nulls, and what is no number: each row is in an answer, late, or missing."""
    far = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    values: dict[str, tuple[list[Any], pa.DataType]] = {
        "TIMESTAMP": ([None, *far, datetime(2026, 3, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "BIGINT": ([None, -(2**63), 2**63 - 1, 10**18, -(10**18), 5], pa.int64()),
        "DOUBLE": ([None, math.nan, math.inf, -math.inf, 1e300, -1e300, 0.25, -0.0], pa.float64()),
        "DATE": ([None, far[0].date(), far[1].date(), datetime(2026, 3, 1, tzinfo=UTC).date()], pa.date32()),
    }
    times, of = values[kind]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": pa.array(times, of)}), tmp_path / "in" / "0.parquet")
    length = 10 if kind in ("BIGINT", "DOUBLE") else "1 day"
    with sw.Session(spark) as s:
        frame = spark.readStream.schema(f"t {kind}").parquet(str(tmp_path / "in"))
        stream = s.stream("rows", frame, time="t", disorder=sw.bounded(length))
        run = stream.window(length).agg(n="count(*)").start(hold=True)
        s.run_available()
        figures = run.metrics()
        answered = sum(row["n"] for row in run.results().to_pylist())
        assert figures["rows"] == len(times)
        assert answered + figures["late_rows"] + figures["missing_time"] + figures["far_ahead"] == len(times)
