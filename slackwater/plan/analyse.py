"""Analysis: the one place that knows what is a legal query, and the one text for each mistake.

`analyse(logical, types)` gives the plan of what was written. Where results of windows stand before another
window, they are rows of it (`as_rows`); at the end of a query they are answers, and keep the columns that every
result has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction
from slackwater.aggregates.first_last import from_one_row
from slackwater.aggregates.over import has_over, taken_out
from slackwater.aggregates.parse import parse_aggregate
from slackwater.aggregates.types import is_value, spoken
from slackwater.columns import bad_name, unquoted
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.aggregate_kinds import aggregate_node
from slackwater.plan.asof import asof
from slackwater.plan.attribute import apart
from slackwater.plan.distinct import distinct
from slackwater.plan.expressions import check_condition, check_of_one_row, check_over_aggregates
from slackwater.plan.generator import exploded
from slackwater.plan.grouping_sets import grouping_sets, refuse_grouping
from slackwater.plan.join import joined, joined_stored
from slackwater.plan.map_node import MapNode
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.nodes import AggregateNode, StampNode, StepNode, StreamNode
from slackwater.plan.over_rows import over_rows
from slackwater.plan.post_aggregate import spelled, split
from slackwater.plan.relation import Relation, Types
from slackwater.plan.signals import data_rows, prod_condition, time_of_rows
from slackwater.plan.steps import Map, Where
from slackwater.plan.time_domains import check_time_kinds
from slackwater.plan.unite import AnalysedPlan, in_order, united
from slackwater.plan.window_rows import in_windows, of_same_windows
from slackwater.plan.window_specs import outer_spec, spec_of, with_gaps
from slackwater.plan.within_window import projection, qualified, sorted_results, with_over
from slackwater.progress.policies import best_effort
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.per_row.rolling import RollingSpec
from slackwater.windows.results import RESULT_COLUMNS, WINDOW_END, WINDOW_START, row_columns
from slackwater.windows.spec import WindowSpec


def analyse(query: L.Logical, types: Types) -> PlanNode:
    """The plan of a query, or an error that says what to write instead."""
    return Analysis(types).of(query).node


class Analysis:
    """Analyses queries step by step, and remembers the result of each step."""

    #: At most this many steps are remembered.
    _MOST = 1024

    def __init__(self, types: Types) -> None:
        self._types = types
        self._known: dict[tuple[L.Logical, bool], AnalysedPlan] = {}

    def of(self, query: L.Logical, as_rows: bool = False) -> AnalysedPlan:
        """The plan of a query; with `as_rows`, of one whose results are the rows of another window."""
        key = (L.checked(query), as_rows)
        if key not in self._known:
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = self._analyse(query, as_rows)
        return self._known[key]

    def columns(self, query: L.Logical) -> list[str]:
        """The columns of a query's rows."""
        return self.of(query, as_rows=True).relation.names

    def table(self, name: str) -> list[str]:
        """The columns of a stored relation."""
        return self._types.stored(name).names

    def _analyse(self, query: L.Logical, as_rows: bool) -> AnalysedPlan:
        try:
            return _ANALYSERS[type(query)](self, query, as_rows)
        except QueryError as error:
            error.nodes.append(query)
            raise

    def _scan(self, query: L.Scan, as_rows: bool) -> AnalysedPlan:
        node, relation = self._types.stream(query.stream)
        return AnalysedPlan(data_rows(node), relation)

    def _distinct(self, query: L.DropDuplicates, as_rows: bool) -> AnalysedPlan:
        return distinct(self.of(query.inputs[0], as_rows), query)

    def _union(self, query: L.Union, as_rows: bool) -> AnalysedPlan:
        union = united([self.of(below, as_rows) for below in query.inputs])
        return in_order(union) if query.ordered else union

    def _join(self, query: L.Join, as_rows: bool) -> AnalysedPlan:
        plain, same = of_same_windows(query)
        return joined([self.of(below, as_rows=True) for below in plain.inputs], plain, same)

    def _in_windows(self, query: L.InWindows, as_rows: bool) -> AnalysedPlan:
        with _in_clause("window"):
            return in_windows(*self.window(self.rows_of(query.inputs[0]), query.window), query.window, self._types)

    def _asof(self, query: L.JoinAsof, as_rows: bool) -> AnalysedPlan:
        return asof([self.of(below, as_rows=True) for below in query.inputs], query)

    def _join_stored(self, query: L.JoinStored, as_rows: bool) -> AnalysedPlan:
        return joined_stored(self.of(query.inputs[0], as_rows=True), self._types.stored(query.table), query)

    def _where(self, query: L.Where, as_rows: bool) -> AnalysedPlan:
        below = self.of(query.inputs[0], as_rows)
        if has_over(query.condition):
            return qualified(below, query.condition)
        check_condition(query.condition)
        where = StepNode((below.node,), Where(query.condition), below.node.schema, below.node.early_schema)
        return AnalysedPlan(where, below.relation.where(query.condition))

    def _select(self, query: L.Select, as_rows: bool) -> AnalysedPlan:
        below, columns = exploded(self.of(query.inputs[0], as_rows), query.columns)
        pairs = _named(columns, below.relation, "select", star=True)
        if not pairs:
            raise QueryError("select() needs at least one column, as in select('carrier', late='dep_delay > 15')")
        _check_names([name for name, _ in pairs], "select")
        for name, sql in pairs:
            check_of_one_row(name, taken_out(sql, "x")[0], "select")
        if any(has_over(sql) for _, sql in pairs):
            if below.node.whole_windows() is None and not below.node.answers():
                over, pairs = over_rows(below, query, pairs, self.of)
                return projection(over, pairs, "select")
            return with_over(below, pairs, "select")
        return projection(below, pairs, "select")

    def _sort(self, query: L.Sort, as_rows: bool) -> AnalysedPlan:
        return sorted_results(self.of(query.inputs[0], as_rows), query)

    def _map(self, query: L.Map, as_rows: bool) -> AnalysedPlan:
        below = self.of(query.inputs[0], as_rows)
        if below.node.answers():
            raise QueryError(
                "map() on results: its rows would have no window any more; put a window behind it, or work on the "
                "results in the sink's function"
            )
        columns, schema = self._types.declared(query.schema, "map")
        _check_names([name for name, _ in columns], "map")
        return AnalysedPlan(
            MapNode((below.node,), Map(query.function, columns, schema)), self._types.relation(schema)
        )

    # --- aggregates

    def window(self, rows: AnalysedPlan, window: L.Window) -> tuple[AnalysedPlan, WindowSpec | RollingSpec]:
        """The rows of a window, with a time, and the arithmetic of the windows."""
        if rows.node.over_results:
            return with_gaps(rows, outer_spec(rows.node, window))
        check_time_kinds(rows.node, window)
        if window.wattr is not None:
            rows = self._windowed_by(rows, window)
        elif window.disorder is not None:
            for stream in streams_of(rows.node):
                self._types.check_policy(replace(stream, disorder=window.disorder))
        spec = spec_of(rows.node, window)
        return with_gaps(AnalysedPlan(StampNode((rows.node,)), rows.relation) if rows.node.latent else rows, spec)

    def groups(self, rows: AnalysedPlan, groups: Sequence[L.Column]) -> tuple[Group, ...]:
        """The groups of a window."""
        pairs = _named(groups, rows.relation, "group_by")
        for (written, _), (name, text) in zip(groups, pairs, strict=True):
            if written is None and not name.isidentifier() and name == text:
                raise QueryError(f"group_by {text!r}: give the expression a name, as in group_by(k={text!r})")
        _check_names([name for name, _ in pairs], "group_by")
        for pair in pairs:
            check_of_one_row(*pair, "group_by")
        return tuple(Group(*pair) for pair in pairs)

    def rows_of(self, query: L.Logical) -> AnalysedPlan:
        """A query's rows, for a window over them."""
        rows = self.of(query, as_rows=True)
        if rows.node.answers():
            raise QueryError(
                "window() on the results of windows for each row: there would be as many results as rows, each at "
                "its own time; give the first window a slide, as in window('30 seconds', slide='10 seconds')"
            )
        return rows

    def _aggregate(self, query: L.Aggregate, as_rows: bool) -> AnalysedPlan:
        if not (query.aggregates or query.groups):
            raise QueryError("agg() needs an aggregate, as in agg(n='count(*)'), or group_by(…) before it")
        rows = self.rows_of(query.inputs[0])
        with _in_clause("window"):
            rows, spec = self.window(rows, query.window)
        with _in_clause("groups"):
            groups = self.groups(rows, query.groups)
        if query.sets is not None:
            types = [_group_type(rows.relation, group) for group in groups]
            return grouping_sets(query, groups, types, lambda one: self.of(one, as_rows))
        refuse_grouping(query.aggregates)
        _check_names([g.name for g in groups] + [name for name, _ in query.aggregates], "agg")
        aggregates, expressions = self._aggregates(rows.relation, query)
        relation = rows.relation

        def kinds(kernel: PaneKernel) -> list[pa.DataType]:
            relation.check(kernel.make_sql().values(), "agg")
            return [_group_type(relation, group) for group in groups]

        plan = aggregate_node(rows.node, spec, query.window, groups, aggregates, kinds)
        _check_early_names(plan)
        return self._finished(plan, groups, query, expressions, as_rows)

    def _aggregates(
        self, relation: Relation, query: L.Aggregate
    ) -> tuple[tuple[AggregateFunction, ...], dict[str, str]]:
        """The aggregates, hidden ones last, and the expressions over them by name."""

        def parsed(name: str, written: str, call: str, hidden: str | None = None) -> AggregateFunction:
            def type_of(sql: str) -> pa.DataType:
                return relation.compared_type_of(sql, f"{name}=", written)

            def aggregate_type(sql: str) -> pa.DataType:
                return relation.aggregate_type_of(sql, f"{name}=", written)

            try:
                aggregate = parse_aggregate(name, call, type_of, written, aggregate_type)
            except QueryError:
                bare = unquoted(written, relation.names)
                if bare is None:
                    raise
                wrong = f"{bare!r} is no plain name; write it in backticks, `{bare}`"
                raise QueryError(f"{name}={written!r}: {wrong}") from None
            if aggregate.argument != "*":
                relation.type_of(aggregate.argument, f"{name}=", written)
            return aggregate if hidden is None else replace(aggregate, name=hidden)

        names = {text: name for name, written in query.aggregates if (text := spelled(written)) is not None}
        aggregates: list[AggregateFunction] = []
        expressions: dict[str, str] = {}
        for name, written in query.aggregates:
            parts = split(written, names)
            if parts is None:
                aggregates.append(parsed(name, written, written))
                continue
            expressions[name] = parts.expression
            aggregates += [parsed(name, written, call, own) for own, call in parts.calls]
        return tuple(
            sorted(from_one_row(aggregates), key=lambda aggregate: aggregate.name.startswith("__"))
        ), expressions

    def _finished(
        self,
        plan: AggregateNode,
        groups: tuple[Group, ...],
        query: L.Aggregate,
        expressions: dict[str, str],
        as_rows: bool,
    ) -> AnalysedPlan:
        """The results, with expressions over aggregates in the order of the user's columns."""
        node: PlanNode = plan.as_rows() if as_rows else plan
        relation = self._types.relation(node.schema)
        if not expressions:
            return AnalysedPlan(node, relation)
        columns = [*row_columns(plan.kernel)]
        for name, written in query.aggregates:
            if name in expressions:
                check_over_aggregates(name, written, expressions[name], columns)
                _try(relation, plan, name, written, expressions[name])
        names = [g.name for g in groups] + [name for name, _ in query.aggregates]
        pairs = tuple((name, expressions.get(name, f"`{name}`")) for name in names)
        if not node.answers():
            pairs += ((WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END))
        return projection(AnalysedPlan(node, relation), pairs, "agg")

    def _windowed_by(self, rows: AnalysedPlan, window: L.Window) -> AnalysedPlan:
        """The same rows over streams whose time is another attribute (S4's WATTR), with a heartbeat of its own."""
        assert window.wattr is not None
        return AnalysedPlan(
            rows.node.by_attribute(window.wattr, lambda stream, written: self._by(stream, written, window)),
            rows.relation,
        )

    def _by(self, stream: StreamNode, written: str, window: L.Window) -> StreamNode:
        _, relation = self._types.stream(stream.declared)
        policy = stream.policy(window.disorder)
        ticks, domain = relation.ticks(written, "window on")
        ticks = time_of_rows(prod_condition(stream), ticks)
        other = replace(stream, time=ticks, written_time=written, domain=domain, disorder=policy, bounds=None)
        try:
            self._types.check_policy(other)
        except QueryError:
            if window.disorder is not None:
                raise
            # The stream's policy is for another kind of time: nobody has said how late this attribute comes.
            policy = stream.policy(best_effort())
            other = replace(other, disorder=policy)
        if (other.time, policy) == (stream.time, stream.disorder):
            return stream
        name = apart(stream.declared, written, f"{other.time} {policy.describe()}")
        return replace(other, name=name, of=stream.declared)


@contextmanager
def _in_clause(clause: str) -> Iterator[None]:
    """Note on errors in which clause of a query they are."""
    try:
        yield
    except QueryError as error:
        error.clause = error.clause or clause
        raise


#: Checks a logical node and gives its plan; with `as_rows`, the plan of rows for another window.
Analyser = Callable[[Analysis, Any, bool], AnalysedPlan]
#: What checks each kind of logical node.
_ANALYSERS: dict[type[Any], Analyser] = {
    L.Scan: Analysis._scan,
    L.Where: Analysis._where,
    L.Select: Analysis._select,
    L.Sort: Analysis._sort,
    L.Map: Analysis._map,
    L.DropDuplicates: Analysis._distinct,
    L.Union: Analysis._union,
    L.Join: Analysis._join,
    L.JoinAsof: Analysis._asof,
    L.JoinStored: Analysis._join_stored,
    L.InWindows: Analysis._in_windows,
    L.Aggregate: Analysis._aggregate,
}


def register(kind: type[Any], analyser: Analyser) -> None:
    """Register the function that checks a kind of logical node."""
    _ANALYSERS[kind] = analyser


def _named(
    columns: Sequence[L.Column], relation: Relation, what: str, star: bool = False
) -> tuple[tuple[str, str], ...]:
    """Columns with their names."""
    pairs: list[tuple[str, str]] = []
    for name, sql in columns:
        if star and name is None and isinstance(sql, str) and sql.strip() == "*":
            pairs += [(c, f"`{c}`") for c in relation.names]
        else:
            pairs.append((relation.name_of(sql, what) if name is None else name, sql))
    return tuple(pairs)


def _group_type(relation: Relation, group: Group) -> pa.DataType:
    kind = relation.compared_type_of(group.sql, "group_by")
    if not is_value(kind):
        raise QueryError(f"group_by {group.sql!r}: rows cannot be grouped by what is {spoken(kind)}; cast it")
    return kind


def _try(relation: Relation, plan: AggregateNode, name: str, written: str, expression: str) -> None:
    """Refuse an expression over aggregates that Spark does not take, in the user's words."""
    try:
        relation.type_of(expression, f"{name}=", written)
    except QueryError as error:
        message = str(error)
        for call in plan.kernel.aggregates:
            if call.name.startswith("__"):
                message = message.replace(f"`{call.name}`", call.text).replace(call.name, call.text)
        raise QueryError(message) from None


def _check_early_names(plan: AggregateNode) -> None:
    """Refuse names of columns that early results have in addition to the final ones."""
    names = [] if plan.early_schema is None else plan.early_schema.names[len(plan.schema.names) :]
    final = {name.lower(): name for name in plan.schema.names}
    for early in names:
        if early.lower() in final:
            name = final[early.lower()]
            raise QueryError(f"agg: {name!r} is a column of early results; choose another name")


def _check_names(names: Sequence[str], what: str) -> None:
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise QueryError(
                f"{what}: the name {name!r} is used twice; name each column apart (capitals do not count)"
            )
        if wrong := bad_name(name):
            raise QueryError(f"{what}: {wrong}")
        if name.lower() in RESULT_COLUMNS and what != "select":
            raise QueryError(f"{what}: {name!r} is a column of every result; choose another name")
        if name.startswith("__"):
            raise QueryError(f"{what}: names that begin with two underscores are taken; rename {name!r}")
