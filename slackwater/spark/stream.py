"""How a user says a query without SQL: stream, where, select, window, group_by, agg, each a frozen step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.aggregates.parse import parse_aggregate
from slackwater.columns import TIME
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.plan.describe import describe
from slackwater.plan.nodes import (
    Function,
    MapNode,
    QueryNode,
    ResultsNode,
    RollingNode,
    RowNode,
    SelectNode,
    WhereNode,
    WindowNode,
    inner_query,
    stream_of,
)
from slackwater.plan.sources import source_group
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span
from slackwater.spark.analysis import arrow_type, columns_of, fields_of, filtered, simple_name, to_arrow
from slackwater.spark.declare import check_policy
from slackwater.spark.function import check_function
from slackwater.spark.sinks import SinkLike
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec, window_spec
from slackwater.windows.results import RESULT_COLUMNS, early_schema, result_schema, row_columns
from slackwater.windows.sideline import Sideline
from slackwater.windows.spec import WindowSpec

if TYPE_CHECKING:
    from slackwater.spark.run import Run
    from slackwater.spark.session import Session


@dataclass(frozen=True)
class Stream:
    """Rows of a declared stream, filtered and projected so far."""

    session: Session
    node: RowNode
    frame: DataFrame
    """A DataFrame of the same columns; only its schema is asked for."""

    def where(self, condition: str) -> Stream:
        """Keep the rows that meet a Spark SQL condition."""
        return Stream(self.session, WhereNode(self.node, condition), filtered(self.frame, condition))

    def select(self, *columns: str, **named: str) -> Stream:
        """Replace the columns: Spark SQL expressions with an alias, or `name="expression"`."""
        pairs: list[tuple[str, str]] = []
        for text in columns:
            if text.strip() == "*":
                pairs += [(c, f"`{c}`") for c in self.frame.columns]
            else:
                pairs += [(name, text) for name, _ in columns_of(self.frame, [text], "select")]
        pairs += list(named.items())
        if not pairs:
            raise QueryError("select() needs at least one column, as in select('carrier', late='dep_delay > 15')")
        columns_of(self.frame, [sql for _, sql in pairs], "select")
        _check_names([name for name, _ in pairs], "select")
        frame = self.frame.select(*(F.expr(sql).alias(name) for name, sql in pairs))
        return Stream(self.session, SelectNode(self.node, tuple(pairs)), frame)

    def map(self, function: Function, schema: str) -> Stream:
        """Replace each row by what a Python function makes of it, such as the answer of a model.

        The function gets a `pyarrow.RecordBatch` of the columns so far and gives one (or a `pyarrow.Table`) with
        the columns of `schema`, Spark SQL such as "a INT, b DOUBLE", and a row for each row in the same order. Rows
        keep their time. It runs in Spark's Python workers, page after page; prods overtake the pages that wait.
        """
        check_function(function, "map: the function", "a pyarrow.RecordBatch")
        fields = fields_of(schema, "map")
        _check_names([name for name, _ in fields], "map")
        made = pa.schema([(name, to_arrow(kind, f"map: {name}")) for name, kind in fields])
        columns = tuple((name, kind.simpleString()) for name, kind in fields)
        frame = self.frame.select(*(F.lit(None).cast(kind).alias(name) for name, kind in fields))
        return Stream(self.session, MapNode(self.node, function, columns, made), frame)

    def window(
        self,
        range: Span | None = None,
        slide: Span | None = None,
        offset: Span | None = None,
        *,
        rows: int | None = None,
        wattr: str | None = None,
        disorder: Disorder | None = None,
    ) -> Windowed:
        """Windows over the stream's time, or over another attribute of its rows (S4).

        With `slide`: windows of `range`, one each `slide` (tumbling where both are equal), as Spark's `window()`
        lays them. Without it: a window for each row, over the `range` that ends with the row, (t - range, t], or
        over the last `rows` rows; grouped, over rows of the row's own group.

        `wattr` is the attribute that windows go by (a timestamp, a date, a whole number or a decimal) instead of
        the stream's time. `disorder` is a policy for this query alone, instead of the stream's; queries with equal
        ones share it.
        """
        if inner_query(self.node) is not None:
            return Windowed(self, _outer_spec(self.node, range, slide, offset, rows, wattr, disorder), ())
        if wattr is not None:
            by = self.session._windowed_by(self, wattr, disorder)
            return Windowed(by, window_spec(stream_of(by.node).domain, range, slide, offset, rows), ())
        stream = stream_of(self.node)
        if disorder is not None:
            check_policy(stream, disorder)
        spec = window_spec(stream.domain, range, slide, offset, rows)
        return Windowed(self, spec, (), None if disorder == stream.disorder else disorder)


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows, perhaps grouped; `agg` makes it a query."""

    stream: Stream
    spec: WindowSpec | RollingSpec
    groups: tuple[Group, ...]
    disorder: Disorder | None = None

    def group_by(self, *columns: str, **named: str) -> Windowed:
        """Group the rows of a window: columns, expressions with an alias, or `name="expression"`."""
        pairs = [(columns_of(self.stream.frame, [text], "group_by")[0][0], text) for text in columns]
        pairs += list(named.items())
        for name, text in pairs:
            if not simple_name(name) and name == text:
                raise QueryError(f"group_by {text!r}: give the expression a name, as in group_by(k={text!r})")
        _check_names([g.name for g in self.groups] + [name for name, _ in pairs], "group_by")
        return replace(self, groups=self.groups + tuple(Group(*pair) for pair in pairs))

    def agg(self, **aggregates: str) -> Query:
        """The answers of a window: `name="aggregate(expression)"` each."""
        if not aggregates:
            raise QueryError("agg() needs at least one aggregate, as in agg(n='count(*)')")
        frame, node = self.stream.frame, self.stream.node
        _check_names([g.name for g in self.groups] + list(aggregates), "agg")

        def type_of(name: str) -> Callable[[str], Any]:
            return lambda sql: arrow_type(frame, sql, f"{name}=")

        made = tuple(parse_aggregate(name, text, type_of(name)) for name, text in aggregates.items())
        for aggregate in made:
            if aggregate.argument != "*":
                columns_of(frame, [aggregate.argument], f"{aggregate.name}=")
        rolling = isinstance(self.spec, RollingSpec)
        panes = WindowSpec(1, 1) if isinstance(self.spec, RollingSpec) else self.spec
        kernel = PaneKernel(panes, self.groups, made, None if rolling else source_group(node, self.groups))
        columns_of(frame.withColumn(TIME, F.lit(0)), kernel.make_sql().values(), "agg")
        kinds = [to_arrow(columns_of(frame, [g.sql], "group_by")[0][1], g.name) for g in self.groups]
        schema = result_schema(kernel, stream_of(node).domain, kinds)
        if not rolling:
            _check_early_names(kernel, schema)
        plan: QueryNode = WindowNode(node, kernel, schema, self.disorder)
        if isinstance(self.spec, RollingSpec):
            plan = RollingNode(node, RollingKernel(self.spec, self.groups, made), schema, self.disorder)
        return Query(self.stream.session, plan)


@dataclass(frozen=True)
class Query:
    """A continuous window query, ready to start."""

    session: Session
    plan: QueryNode

    def start(
        self,
        sink: SinkLike = None,
        late: SinkLike = None,
        name: str | None = None,
        hold: bool = False,
        early: Early | None = None,
        sideline: Sideline | None = None,
    ) -> Run:
        """Start the query.

        `sink` takes the results, `late` the rows that came too late for some window or have no time: None keeps
        them in memory (late rows are then only counted), a folder gets Parquet files, a function gets
        (DataFrame, commit_id) and may give back a prod, sw.prod(…) or True, to ask for early answers. `name` is the
        query's name in the journal. With `hold`, a streaming source is not read before `session.run_available()`
        or before another query of it starts without `hold`: so that several queries see a stream from its first
        row. `early` asks for early answers, as in sw.early(at=0.75). `sideline` sets the rest of a prodded burst
        aside behind a `map`, so that later windows need not wait for it, as in sw.sideline(ratio=4).
        """
        return self.session._start(self, sink, late, name, hold, early, sideline)

    def window(self, range: Span | None = None, slide: Span | None = None, offset: Span | None = None) -> Windowed:
        """Windows over the results of this query, as in the largest of the sums of all sensors (S5's Q3-4).

        A result is a row with the group columns, the aggregates, `window_start` and `window_end`; its time is the
        last tick of its window. So a window [s, e) takes the results of the windows that end in (s, e]: to compare
        the groups of each window with one another, give `range` and `slide` the slide of this query.
        """
        return self._rows("window").window(range, slide, offset)

    def where(self, condition: str) -> Stream:
        """The results that meet a Spark SQL condition, for another window over them."""
        return self._rows("where").where(condition)

    def select(self, *columns: str, **named: str) -> Stream:
        """The results with other columns, for another window over them."""
        return self._rows("select").select(*columns, **named)

    def _rows(self, what: str) -> Stream:
        if not isinstance(self.plan, WindowNode):
            raise QueryError(
                f"{what}() on the results of windows for each row: there would be as many results as rows, each at "
                "its own time; give the first window a slide, as in window(range='30 seconds', slide='10 seconds')"
            )
        empty = self.plan.schema.empty_table().select(row_columns(self.plan.kernel))
        return Stream(self.session, ResultsNode(self.plan), self.session.spark.createDataFrame(empty))

    def describe(self) -> str:
        """The plan in a few lines."""
        return describe(self.plan)


def _outer_spec(
    node: RowNode,
    range: Span | None,
    slide: Span | None,
    offset: Span | None,
    rows: int | None,
    wattr: str | None,
    disorder: Disorder | None,
) -> WindowSpec:
    """The windows of a query over results."""
    if wattr is not None:
        raise QueryError(f"wattr={wattr!r}: the time of a result is the end of its window; leave out wattr=")
    if disorder is not None:
        raise QueryError(
            f"disorder={disorder.describe()}: results come when their windows close; write the policy in the "
            "first window(…) or at the stream"
        )
    spec = window_spec(stream_of(node).domain, range, slide, offset, rows)
    if isinstance(spec, RollingSpec):
        raise QueryError(
            "window() over results needs a slide: a window for each row is made over the rows of a stream; write "
            f"window(range={range!r}, slide={range!r})"
        )
    return spec


def _check_early_names(kernel: PaneKernel, schema: pa.Schema) -> None:
    """Refuse columns that early results have beside the final ones."""
    for name in early_schema(schema, kernel).names[len(schema.names) :]:
        if name in schema.names:
            raise QueryError(f"agg: {name!r} is a column of early results; choose another name")


def _check_names(names: list[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"{what}: the name {name!r} is used twice; give each column a name of its own")
        if name in RESULT_COLUMNS and what != "select":
            raise QueryError(f"{what}: {name!r} is a column of every result; choose another name")
        if name.startswith("__"):
            raise QueryError(f"{what}: names that begin with two underscores are taken; rename {name!r}")
