"""Checks a user's declaration of a stream and makes it a plan node: time, source, disorder policy."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from slackwater.columns import bad_name
from slackwater.errors import QueryError, shown
from slackwater.plan.nodes import StreamNode
from slackwater.plan.signals import pattern_columns, prod_columns, read_condition, time_of_rows
from slackwater.plan.step import Columns
from slackwater.progress.ahead import read_ahead
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.silence import with_default_timeout
from slackwater.progress.time import Span, TimeDomain
from slackwater.progress.time_kinds import UNSTAMPED, Internal, Latent, is_stamped
from slackwater.spark.backend.relation import FrameRelation, columns_of, time_in_ticks


def check_frame(name: object, df: object) -> None:
    """Refuse what is no DataFrame of Spark, and a name under which nothing can be kept.

    The journal has a folder of that name. The number of a replay follows the name after a `#`.
    """
    if not isinstance(name, str) or not name.strip() or name.startswith(".") or {"/", "#"} & set(name):
        raise QueryError(
            f"stream {shown(name)}: a stream's name is a text without a slash or a #, and does not begin with a "
            "point; write for example s.stream('flights', …)"
        )
    if not isinstance(df, DataFrame):
        raise QueryError(
            f"stream {name!r}: {shown(df)} is no DataFrame of Spark; write for example "
            "spark.readStream.schema(…).parquet('in'), or spark.createDataFrame(…) for rows to be replayed"
        )


def check_table(name: object, df: object, taken: Collection[str]) -> None:
    """Refuse what is no stored relation."""
    if not isinstance(df, DataFrame):
        raise QueryError(
            f"table {name!r}: {shown(df)} is no DataFrame of Spark; write for example spark.table('t')"
        )
    if df.isStreaming:
        raise QueryError(f"table {name!r}: this DataFrame is a stream; declare it with s.stream(…)")
    if not isinstance(name, str) or not name.isidentifier():
        raise QueryError(f"table {name!r}: a table's name is a word, as in s.register_table('carriers', df)")
    if name in taken:
        raise QueryError(f"there is already a stream {name!r}; choose another name for the table")
    _check_columns(name, df.columns)


def stream_node(
    name: str,
    df: DataFrame,
    time: str | Internal | Latent,
    source: str | None,
    disorder: Disorder | None,
    what: str = "time",
    ahead: Span | None = None,
    prods: str | None = None,
    partitioned: bool = False,
) -> StreamNode:
    """The node of a stream, or an error that says what to write."""
    if isinstance(time, (Internal, Latent)):
        given = "disorder=" if disorder is not None else "ahead=" if ahead is not None else None
        if given is not None:
            raise QueryError(
                f"stream {name!r}: time=sw.{time.describe()} stamps rows as they come, so none is out of order; "
                f"leave out {given}"
            )
        disorder = time
    elif disorder is not None and is_stamped(disorder):
        raise QueryError(
            f"stream {name!r}: disorder=sw.{disorder.describe()} is a kind of time and no policy; write "
            f"time=sw.{disorder.describe()} and leave out disorder="
        )
    if disorder is None:
        raise QueryError(f"stream {name!r}: say how late rows may come, as in disorder=sw.bounded('20 seconds')")
    hidden = [c for c in df.columns if c.startswith("__")]
    if hidden:
        raise QueryError(f"stream {name!r}: names that begin with two underscores are taken; rename {hidden[0]!r}")
    _check_columns(name, df.columns)
    ticks, domain = UNSTAMPED, TimeDomain.TIMESTAMP
    if isinstance(time, str):
        ticks, domain = time_in_ticks(df, time, what)
    elif not isinstance(time, (Internal, Latent)):
        raise QueryError(
            f"stream {name!r}: time={shown(time)} is no time; write the column, as in time='sent', or "
            "time=sw.internal()"
        )
    if source is not None:
        _check_source(df, source)
    punctuation: str | None = None
    patterns: Columns = ()
    if isinstance(disorder, Punctuated):
        punctuation = _punctuation_in_ticks(df, disorder.column, time, domain)
        since = None if disorder.since is None else _punctuation_in_ticks(df, disorder.since, time, domain)
        for attribute in disorder.on:
            _check_source(df, attribute, "punctuated(on=…): ")
        patterns = pattern_columns(since, disorder.on)
    if df.isStreaming:
        disorder = with_default_timeout(disorder)
    rows = FrameRelation(df)
    asks = read_condition(prods, rows, name)
    if asks is not None and not isinstance(time, str):
        raise QueryError(f"stream {name!r}: prods= needs rows with a time; write its column, as in time='sent'")
    written = time if isinstance(time, str) else time.describe()
    node = StreamNode(
        name,
        rows.columns,
        time_of_rows(asks, ticks),
        written,
        domain,
        disorder,
        source,
        punctuation,
        rows.schema(),
        (*patterns, *prod_columns(asks, ticks)),
        ahead=ahead,
        live=df.isStreaming,
        partitioned=partitioned,
    )
    check_policy(node)
    read_ahead(ahead, domain)
    return node


def _punctuation_in_ticks(df: DataFrame, column: str, time: object, domain: TimeDomain) -> str:
    ticks, kind = time_in_ticks(df, column, "punctuated")
    if kind != domain:
        raise QueryError(
            f"punctuated({column!r}) is of another kind than time={time!r}: a punctuation is a time of the stream, "
            "so both are timestamps or both are whole numbers"
        )
    return ticks


def _check_columns(stream: str, names: list[str]) -> None:
    """Refuse names that Spark SQL cannot tell apart, or that cannot be written in backticks."""
    by_lower_case: dict[str, str] = {}
    for name in names:
        if wrong := bad_name(name):
            raise QueryError(f"stream {stream!r}: {wrong}")
        if name.lower() in by_lower_case:
            raise QueryError(
                f"stream {stream!r}: the columns {by_lower_case[name.lower()]!r} and {name!r} have one name "
                "(capitals do not count); rename one"
            )
        by_lower_case[name.lower()] = name


def check_policy(stream: StreamNode) -> None:
    """Refuse a policy that does not fit the stream."""
    disorder = stream.disorder
    if isinstance(disorder, Punctuated) and stream.punctuation is None:
        raise QueryError(
            f"window: {disorder.describe()} cannot be a query's own policy; punctuations belong to the stream, "
            "so write it there, as in s.stream(…, disorder=sw.punctuated(…))"
        )
    if stream.source is None and disorder.needs_sources:
        raise QueryError(
            f"stream {stream.name!r}: {disorder.describe()} speaks of sources; say which column names a row's "
            "source, as in source='device'"
        )
    disorder.tracker(stream.domain)


def _check_source(df: DataFrame, source: str, where: str = "") -> None:
    ((_, kind),) = columns_of(df, [source], "source")
    if not isinstance(kind, (StringType, ByteType, ShortType, IntegerType, LongType)):
        raise QueryError(
            f"{where}source={source!r} is of type {kind.simpleString()}; a source is named by a text or a whole "
            f"number: write source='CAST({source} AS STRING)'"
        )
