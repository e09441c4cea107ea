"""How a user says a query without SQL: stream, where, select, window, group_by, agg, each a frozen step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Never

from pyspark.sql import Column, DataFrame

from slackwater.calls import NamesCounterparts, called
from slackwater.engine.settings import QuerySettings
from slackwater.errors import QueryError, UnknownTableError, shown
from slackwater.estimates.early import Early
from slackwater.plan import logical as L
from slackwater.plan.corrections import with_corrections
from slackwater.plan.explain import Format, explain_plan
from slackwater.plan.function import check_function
from slackwater.plan.node import PlanNode, describe
from slackwater.plan.step import Function
from slackwater.progress.time import Span
from slackwater.spark.api import counterparts as words
from slackwater.spark.api.column_sql import On, keys_of, named_aggregates, pairs_of, text_of
from slackwater.spark.api.grouping_words import GroupedBy
from slackwater.spark.api.journal_queries import OnChange
from slackwater.spark.api.notebook import query_html, query_line
from slackwater.spark.api.ordering import ResultOrder
from slackwater.spark.api.shown import ShownText
from slackwater.spark.api.window_words import CutIntoWindows
from slackwater.spark.sinks.sinks import SinkLike
from slackwater.sql.write import to_sql
from slackwater.windows.sideline import Sideline

if TYPE_CHECKING:
    from slackwater.spark.api.run import Run
    from slackwater.spark.api.session import Session


@dataclass(frozen=True, repr=False)
class Query(CutIntoWindows, ResultOrder, NamesCounterparts):
    """Rows of a stream, or results of windows, filtered and projected so far; ready to start."""

    session: Session
    _logical: L.Logical
    early: Early | None = None
    """When it answers early, where its SQL says so."""
    sideline: Sideline | None = None
    """Whether bursts are set aside, where its SQL says so."""
    corrections: Span | None = None
    """For how long late rows correct its answers, where its SQL says so."""

    _known_as, _words = "query", words.QUERY

    def _advice(self, name: str) -> str | None:
        """A column is no attribute."""
        if name not in self.session._analysis.columns(self._logical):
            return None
        return f"a column is written as text or with F.col({name!r}), as in where('{name} IS NOT NULL')"

    def __getitem__(self, key: object) -> Never:
        """Refused: columns are written in Spark SQL."""
        raise QueryError(
            f"query[{shown(key)}]: write columns as Spark SQL, as in where('delay > 15') and select('delay'); for "
            "rows run it: run = query.start(), session.run_available(), run.results()"
        )

    def __repr__(self) -> str:
        return query_line(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return query_html(self)

    @property
    def _plan(self) -> PlanNode:
        """The checked plan of the query."""
        return with_corrections(self.session._analysis.of(self._logical).node, self.corrections)

    def _step(self, logical: L.Logical) -> Query:
        """The query with one more step. It is checked now, so that the error comes where the mistake is."""
        self.session._analysis.of(logical)
        return Query(self.session, logical, self.early, self.sideline, self.corrections)

    @called()
    def where(self, condition: str | Column) -> Query:
        """The rows, or results, that meet a Spark SQL condition: text, or a Column. `filter` is the same."""
        return self._step(L.Where((self._logical,), text_of("where", condition)))

    filter = where

    @called()
    def withColumn(self, name: str, expression: str | Column) -> Query:
        """The same rows with one more column, or with another value in a column that is there."""
        names = self.session._analysis.of(self._logical).relation.names
        text = text_of("withColumn", expression)
        if not any(name.lower() == known.lower() for known in names):
            return self._step(L.Select((self._logical,), ((None, "*"), (name, text))))
        pairs = tuple((n, text if n.lower() == name.lower() else f"`{n}`") for n in names)
        return self._step(L.Select((self._logical,), pairs))

    @called()
    def select(self, *columns: str | Column, **named: str | Column) -> Query:
        """The same rows with other columns: Spark SQL expressions with an alias, or `name="expression"`.

        Results keep the columns that every result has, such as `window_start`.
        """
        return self._step(L.Select((self._logical,), pairs_of("select", columns, named)))

    @called(column=words.NAME, name=words.NAME)
    def explode(self, column: str, name: str | None = None, *, outer: bool = False) -> Query:
        """One row for each element of an array, with the other columns of its row and its time.

        A row without elements goes; with `outer=True` it stays, with a null. Spark's other generators stand in
        `select`, as in `select("id", "posexplode(items) AS (place, item)")`.

        Args:
            column: a column, or Spark SQL that gives an array or a map.
            name: the name of the element; without it the element takes the place of the column.
            outer: whether rows without elements stay.
        """
        names = self.session._analysis.of(self._logical).relation.names
        if column is None or (name is None and column.lower() not in [known.lower() for known in names]):
            raise QueryError(f"explode({column!r}): give the element a name, as in explode({column!r}, 'item')")
        return self.withColumn(name or column, f"explode{'_outer' * outer}({column})")

    @called(words.DISTINCT_ARGUMENTS, keys=words.NAMES)
    def drop_duplicates(self, keys: str | Sequence[str] | None = None, *, within: Span) -> Query:
        """The rows without duplicates: rows that are equal in some columns and near in time. `dropDuplicates` too.

        The first row that comes goes on at once. Rows with the same keys whose time is at most `within` before or
        after its own are dropped. Of the rows of one micro-batch the earliest comes first.

        Args:
            keys: a column, or several; without them rows must be equal in all columns.
            within: how far in time a duplicate may be from the row that has gone on, as in "10 minutes". Keys are
                kept for that long, and at most for as long again.
        """
        names = (keys,) if isinstance(keys, str) else tuple(keys or ())
        return self._step(L.DropDuplicates((self._logical,), names, within))

    dropDuplicates = drop_duplicates

    @called()
    def map(self, function: Function, schema: str) -> Query:
        """Each row through a Python function, such as a model. Rows keep their time.

        Args:
            function: gets a `pyarrow.RecordBatch` of the columns so far. It gives one (or a `pyarrow.Table`) with
                the columns of `schema`, and a row for each row in the same order. It runs in Spark's Python
                workers, page after page. Prods overtake the pages that wait for it.
            schema: its columns in Spark SQL, such as "a INT, b DOUBLE".
        """
        check_function(function, "map: the function", "a pyarrow.RecordBatch")
        logical = L.Map((self._logical,), function, schema)
        # On results it makes sense only before another window.
        self.session._analysis.of(logical, as_rows=True)
        return Query(self.session, logical)

    @called()
    def union(self, *others: Query, ordered: bool = False) -> Query:
        """The rows, or results, of this and of others together, columns by name.

        All sides have the same columns, of types that go together, and the same kind of time. Rows are passed on as
        they arrive. Windows wait for the side that is furthest behind. Each stream keeps its own disorder policy.

        With `ordered=True` rows go on in the order of time (S3's union, a sort-merge): each waits until time has
        come to it on all sides. What comes later than that is late.
        """
        for other in others:
            if not isinstance(other, Query):
                raise QueryError(f"union({shown(other)}): write streams or queries, as in flights.union(trains)")
            if other.session is not self.session:
                raise QueryError("union(): the other query is of another session; declare its streams in this one")
        logical = L.Union((self._logical, *(other._logical for other in others)), ordered)
        # What no window can take is refused here. What a sink cannot take is refused by start().
        self.session._analysis.of(logical, as_rows=True)
        return Query(self.session, logical)

    @called()
    def join(
        self,
        other: Query | Windowed | DataFrame | str,
        on: On = None,
        how: str = "inner",
        within: Span | tuple[Span, Span] | None = None,
    ) -> Query:
        """The pairs with a static DataFrame, or with the rows of another stream that are near in time.

        With a static DataFrame each row meets all its rows: `flights.join(carriers, on="carrier")`. With another
        stream, say how far apart two rows may be: `clicks.join(buys, on="user", within=("0 seconds", "1 hour"))`
        pairs a click with the buys up to an hour after it. Or say for each side how long its rows find partners:
        `a.rolling(range="10 minutes").join(b.rolling(range="5 minutes"), on="a_id = b_id")`. Results of windows,
        and pairs of another join, need neither: results meet those of the same time.

        Args:
            other: another stream or query, a window of one, a static DataFrame, or the name of a table.
            on: a column of both sides, or several, or a Spark SQL condition over the columns of both: text, or a
                Column. Other columns have different names on both sides.
            how: "inner", "left", "right", "full", "semi" or "anti"; with a DataFrame not "right" or "full".
            within: (before, after): a row of the other side may be at most this far before and after a row of this
                one, both ends included. One length means both.
        """
        return _join(self.session, (self._logical, None), other, on, how, within)

    @called(words.ASOF_ARGUMENTS)
    def join_asof(
        self,
        other: Query,
        on: On = None,
        within: Span | None = None,
        how: str = "left",
        direction: str = "backward",
    ) -> Query:
        """Each row with the one row of another stream that is valid at its time: the last one at or before it.

        `trades.join_asof(prices, on="symbol")` gives each trade the price of its time. The other stream is a
        relation that changes: each of its rows counts from its own time until the next one with the same key. A
        row comes out when the heartbeat of the other stream has passed its time.

        Args:
            other: the stream whose rows count.
            on: a column of both sides, or several, or a condition of equalities, as in "symbol = code".
            within: how far apart both rows may be, the end included; None: any distance.
            how: "left" keeps rows for which no other counts; "inner" leaves them out.
            direction: "backward", or "forward" for the first row at or after it, or "nearest". These two need
                `within`, and wait for so long.
        """
        if not isinstance(other, Query) or other.session is not self.session:
            raise QueryError(f"join_asof({shown(other)}): write a stream or a query of the same session")
        logical = L.JoinAsof((self._logical, other._logical), keys_of(on), how, within, direction)
        return self._step(logical)

    def _windowed(self, window: L.Window) -> Windowed:
        analysis = self.session._analysis
        analysis.window(analysis.rows_of(self._logical), window)
        return Windowed(self.session, L.Aggregate((self._logical,), window, (), ()))

    @called(
        words.START_ARGUMENTS,
        sink=words.SINK,
        name=words.NAME,
        hold=words.FLAG,
        ordered=words.FLAG,
        on_change=words.CHANGE,
    )
    def start(
        self,
        sink: SinkLike = None,
        late: SinkLike = None,
        name: str | None = None,
        hold: bool = False,
        early: Early | None = None,
        sideline: Sideline | None = None,
        ordered: bool = False,
        on_change: OnChange | None = None,
        corrections: Span | None = None,
    ) -> Run:
        """The running query: from now on its results go to `sink`.

        Args:
            sink: takes the results. None keeps them in memory, for `run.results()`. A folder gets Parquet files. A
                function gets (DataFrame, commit_id), and may give back sw.prod(…) or True to ask for early answers.
                `sw.sinks` has others. A list of sinks gives each of them all results, each once.
            late: takes the rows that came too late for some window or partner, or have no time; a folder or a
                function. None only counts them.
            name: the query's name in the journal.
            hold: do not read a live stream before `session.run_available()`, or before another query of it starts
                without `hold`: so that several queries see a stream from its first row.
            early: when to answer before windows are final, as in sw.early(at=0.75).
            sideline: set the rest of a prodded burst aside before a `map`, a join with a table, or a filter, so
                that later windows need not wait for it, as in sw.sideline(ratio=4).
            ordered: give the sink rows in the order of their time: each waits until time has passed it.
            on_change: what to do if the journal holds another query of this name. "continue" goes on with its open
                windows, where these can be used; "new" drops them and begins anew. None refuses to start.
            corrections: for how long late rows correct final answers, as in "1 day".
        """
        query = self if corrections is None else replace(self, corrections=corrections)
        early = self.early if early is None else early
        sideline = self.sideline if sideline is None else sideline
        settings = QuerySettings(early=early, sideline=sideline, ordered=ordered)
        return self.session._open().start(query, sink, late, name, hold, settings, on_change)

    @called()
    def describe(self) -> str:
        """The plan as text, one line a step."""
        return describe(self._plan)

    @called()
    def explain(self, format: Format = "text") -> str:
        """The plan as text, or drawn as "mermaid" or "svg"."""
        return ShownText(explain_plan(self._plan, format))

    def to_sql(self) -> str:
        """The query as SQL text, which gives the same query again."""
        return to_sql(self._logical, self.session._interpreter.scope, self.early, self.sideline, self.corrections)


@dataclass(frozen=True, repr=False)
class Stream(Query):
    """A declared stream."""

    _known_as = "stream"


@dataclass(frozen=True)
class Windowed(GroupedBy, NamesCounterparts):
    """A stream cut into windows, perhaps grouped; `agg` makes it a query."""

    session: Session
    _logical: L.Aggregate

    _known_as, _words = "window", words.WINDOWED

    @called()
    def join(self, other: Query | Windowed, on: On = None, how: str = "inner") -> Query:
        """The pairs of rows that are alive at the same time; see `Query.join`.

        A row of time t finds partners until t + range. With `rows=n` it finds partners until n more rows of its own
        side have come. A pair is given as soon as both rows are there. Its time is that of the later row.
        """
        _check_plain(self)
        return _join(self.session, (self._logical.inputs[0], self._logical.window), other, on, how)

    @called()
    def agg(self, *columns: Column, **aggregates: str | Column) -> Query:
        """The answers of a window: `name="aggregate(expression)"` each, or an expression over aggregates.

        As in `agg(n="count(*)", rate="sum(late) / count(*)")`, or with Columns, `agg(F.count("*").alias("n"))`.
        """
        logical = replace(self._logical, aggregates=named_aggregates(columns, aggregates))
        self.session._analysis.of(logical)
        return Query(self.session, logical)


#: Rows, and for how long they find partners.
_Side = tuple[L.Logical, L.Window | None]


def _join(
    session: Session, left: _Side, other: object, on: On, how: str, within: Span | tuple[Span, Span] | None = None
) -> Query:
    keys = keys_of(on)
    if isinstance(other, (DataFrame, str)):
        if left[1] is not None:
            raise QueryError("join() with a stored relation needs no window; leave rolling(…) out before it")
        if within is not None:
            raise QueryError("join(within=…) with a stored relation: its rows have no time; leave within out")
        name = _table_name(session, other) if isinstance(other, str) else session._stored(other)
        logical: L.Logical = L.JoinStored((left[0],), name, keys, how)
    else:
        if not isinstance(other, (Query, Windowed)):
            raise QueryError(f"join({shown(other)}): write a stream with a window, or a static DataFrame of Spark")
        if other.session is not session:
            raise QueryError("join(): the other query is of another session; declare its streams in this one")
        right: _Side = (other._logical, None) if isinstance(other, Query) else _side_of(other)
        logical = L.Join((left[0], right[0]), (left[1], right[1]), keys, how, _both_ends(within))
    session._analysis.of(logical)
    return Query(session, logical)


def _table_name(session: Session, name: str) -> str:
    try:
        session._analysis.table(name)
    except UnknownTableError as error:
        raise QueryError(
            f"join({name!r}): {error}; write a stream with a window, a static DataFrame of Spark, or the name of a "
            "table"
        ) from None
    return name


def _both_ends(within: object) -> tuple[Span, Span] | None:
    """How far before and how far after; one length means both."""
    ends = within if isinstance(within, (tuple, list)) else (within, within)
    if within is not None and (len(ends) != 2 or any(end is None for end in ends)):
        raise QueryError(
            f"join(within={within!r}): write one length, or (before, after), as in ('1 minute', '1 hour')"
        )
    return None if within is None else (ends[0], ends[1])


def _side_of(windowed: Windowed) -> _Side:
    _check_plain(windowed)
    return windowed._logical.inputs[0], windowed._logical.window


def _check_plain(windowed: Windowed) -> None:
    if windowed._logical.groups:
        raise QueryError("join() of a grouped window: a join takes rows; leave group_by(…) out, or add agg(…)")
