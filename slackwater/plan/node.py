"""A node of a plan, and the questions that every kind of node answers (D12).

A kind of node answers all questions about itself: what it does, which columns it reads, when two do the same work,
how long it holds rows. No other code asks which kind it is. `engine/build.py` has the one table from kinds to
operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan.identifiers import Wanted
from slackwater.plan.time_columns import TimeColumns
from slackwater.progress.time import TimeDomain
from slackwater.windows.results import KIND

if TYPE_CHECKING:
    from slackwater.plan.nodes import AggregateNode, StreamNode

#: Gives the stream that replaces another, for an attribute in terms of that stream's columns.
ByAttribute = Callable[["StreamNode", str], "StreamNode"]


class PlanNode(ABC):
    """Rows in, rows out: every node has inputs, the schema of its rows, and the domain of their time."""

    if TYPE_CHECKING:
        # Fields of a dataclass in some kinds, derived in others.
        @property
        def inputs(self) -> tuple[PlanNode, ...]: ...

        @property
        def schema(self) -> pa.Schema: ...

        @property
        def early_schema(self) -> pa.Schema | None: ...

        @property
        def domain(self) -> TimeDomain: ...

    expensive: ClassVar[bool] = False
    """Whether we assume that work on its rows takes long, whatever is measured."""
    drops_rows: ClassVar[bool] = False
    """Whether it is a filter."""
    runs_function: ClassVar[bool] = False
    """Whether a Python function of the user works on its rows."""
    pairs_rows: ClassVar[bool] = False
    """Whether it pairs rows of two inputs."""
    orders_rows: ClassVar[bool] = False
    """Whether rows leave it in the order of time. Then rows behind the heartbeat are late."""
    drops_duplicates: ClassVar[bool] = False
    """Whether it drops duplicates."""
    keeps_nothing: ClassVar[bool] = False
    """Whether it works on each row of its one input by itself: a restart may change it."""
    keeps_rows: ClassVar[bool] = False
    """Whether it keeps rows that came before a query started. Then a later query cannot share it."""

    @abstractmethod
    def describe(self) -> str:
        """What it does, in words. A journal compares this text when a query continues."""

    def kept_text(self) -> str:
        """What it keeps over a restart depends on this: what it does, without what a restart may change."""
        return self.describe()

    @property
    def shown(self) -> bool:
        """Whether people see it as a step of the plan."""
        return True

    def same_work(self) -> object:
        """Two nodes over the same rows are the same work if this is equal."""
        return self

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """The expressions that it reads of its inputs, given those that later nodes read of its rows.

        With `late_rows`, a late sink may need whole rows.
        """
        return wanted

    def is_source(self, text: str) -> bool:
        """Whether a column, as `column_text` writes it, is the source of the streams below."""
        return all(below.is_source(text) for below in self.inputs)

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """The same node over streams whose time is another attribute (S4's WATTR)."""
        return self.over(tuple(below.by_attribute(written, stream) for below in self.inputs))

    def over(self, inputs: tuple[PlanNode, ...]) -> PlanNode:
        """The same node over other inputs."""
        return replace(self, inputs=inputs)  # type: ignore[type-var]

    def renamed(self, names: Mapping[str, str]) -> PlanNode | None:
        """A stream under another name; None for what is no stream."""
        return None

    def time_columns(self) -> TimeColumns:
        """The columns of its rows that tell their time, as far as is known."""
        return {}

    @property
    def latent(self) -> bool:
        """Whether its rows have no time yet (S3 section 5)."""
        return any(below.latent for below in self.inputs)

    @property
    def over_results(self) -> bool:
        """Whether it reads the results of windows as rows; else it reads streams."""
        return self.inputs[0].over_results  # a union is of rows or of results, not of both

    @property
    def passes_early_rows(self) -> bool:
        """Whether rows come through it, or from it, that count for one prod only."""
        return any(below.passes_early_rows for below in self.inputs)

    @property
    def gives_pairs(self) -> bool:
        """Whether what comes out are rows of a join, which do not say whether they are early."""
        return any(below.gives_pairs for below in self.inputs)

    @property
    def compares_rows(self) -> bool:
        """Whether the results of the topmost window are compared with one another."""
        return any(below.compares_rows for below in self.inputs)

    @property
    def looks_ahead(self) -> bool:
        """Whether its rows up to some time may depend on later rows of its inputs."""
        return False

    def as_stream(self) -> StreamNode | None:
        """Itself, if it is a stream."""
        return None

    def as_aggregate(self) -> AggregateNode | None:
        """Itself, if its results are answers."""
        return None

    @property
    def by_count(self) -> bool:
        """Whether rows that it pairs live until a number of later rows has come."""
        return False

    def answers(self) -> list[AggregateNode]:
        """The aggregates whose results it gives as answers, after filters, projections and unions."""
        return []

    def prodded(self) -> list[AggregateNode]:
        """The aggregates that early answers are about: its answers, or the topmost below a join of results."""
        if not self.gives_pairs:
            return self.answers()
        above = [below for node in self.inputs for below in node.topmost()]
        return list({id(aggregate): aggregate for aggregate in above}.values()) if self.passes_early_rows else []

    def topmost(self) -> list[AggregateNode]:
        """The topmost aggregates of a plan, itself included."""
        own = self.as_aggregate()
        return [own] if own is not None else [found for below in self.inputs for found in below.topmost()]

    def group_names(self, names: list[str]) -> list[str]:
        """The names of group columns in its rows, given those in its input."""
        return names

    def whole_windows(self) -> PlanNode | None:
        """The same node, with all results of a window in one page; None where that cannot be.

        Then a window closes for all groups at once, though they may contain the source (D4).
        """
        return None

    def carrying(self, names: Sequence[str], below: PlanNode) -> PlanNode:
        """The same step of answers over others, which have more columns, whole numbers, that stay."""
        raise TypeError(f"{self.describe()} is no step of answers")

    @property
    def reach(self) -> int:
        """By how many ticks the last row that it gives for a row may be later than that row."""
        return 0

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """How many ticks the pairs in its rows live at most; raises `missing` if its rows are no pairs."""
        raise missing()


class TimeOfInput:
    """Time passes through."""

    inputs: tuple[PlanNode, ...]

    @property
    def domain(self) -> TimeDomain:
        """That of the first input."""
        return self.inputs[0].domain


class NeverEarly:
    """Rows that no prod has asked for."""

    @property
    def early_schema(self) -> pa.Schema | None:
        """There are none."""
        return None


def walk(plan: PlanNode) -> Iterator[PlanNode]:
    """Every node of a plan, inputs first, each once."""
    visited: dict[int, PlanNode] = {}

    def visit(node: PlanNode) -> Iterator[PlanNode]:
        if id(node) not in visited:
            visited[id(node)] = node
            for below in node.inputs:
                yield from visit(below)
            yield node

    yield from visit(plan)


def expensive_nodes(plan: PlanNode) -> list[PlanNode]:
    """What prods overtake and bursts wait before: maps and joins with tables; without these the last filter."""
    of_rows = [node for node in walk(plan) if not (node.over_results or node.answers())]
    return [n for n in of_rows if n.expensive] or [n for n in of_rows if n.drops_rows][-1:]


def describe(plan: PlanNode) -> str:
    """A plan as text, inputs first, one line a step; equal plans give equal text."""
    lines = [describe(below) for below in plan.inputs]
    return "\n".join([*lines, *([plan.describe()] if plan.shown else [])])


def streams_of(plan: PlanNode) -> list[StreamNode]:
    """The streams that a plan reads, each once."""
    return list(dict.fromkeys(stream for node in walk(plan) if (stream := node.as_stream()) is not None))


def with_streams(plan: PlanNode, names: Mapping[str, str]) -> PlanNode:
    """The same plan over sources of other names; the declared streams that they read stay the same."""
    done: dict[int, PlanNode] = {}

    def renamed(node: PlanNode) -> PlanNode:
        if id(node) not in done:
            done[id(node)] = node.renamed(names) or node.over(tuple(map(renamed, node.inputs)))
        return done[id(node)]

    return renamed(plan)


def early_schema_of(plan: PlanNode) -> pa.Schema | None:
    """The columns of early rows, with those that only they have; None if no row of a query is early.

    Pairs do not say whether they are early: such rows have one column more, which does.
    """
    if not plan.gives_pairs or not plan.prodded():
        return plan.early_schema
    return plan.schema.append(pa.field(KIND, pa.string()))


def answering(plan: PlanNode) -> AggregateNode | None:
    """The one aggregate whose results a query gives; None if it has none or several."""
    answers = plan.answers()
    return answers[0] if len(answers) == 1 else None


def aggregates_of(plan: PlanNode) -> list[AggregateNode]:
    """All aggregates of a plan, each once, the topmost first."""
    aggregates: dict[int, AggregateNode] = {}
    levels: list[PlanNode] = [plan]
    while levels:
        for aggregate in (node.as_aggregate() for node in levels):
            if aggregate is not None:
                aggregates.setdefault(id(aggregate), aggregate)
        levels = [below for node in levels for below in node.inputs]
    return list(aggregates.values())


def first_aggregates(
    plan: PlanNode, above: AggregateNode | None = None
) -> list[tuple[StreamNode, AggregateNode | None]]:
    """Each stream with the first aggregate over its rows; None if nothing aggregates them."""
    stream = plan.as_stream()
    if stream is not None:
        return [(stream, above)]
    nearest = plan.as_aggregate() or above
    return list(dict.fromkeys(pair for below in plan.inputs for pair in first_aggregates(below, nearest)))


def reach_of(plan: PlanNode, stream: StreamNode) -> int | None:
    """How many ticks after a row of a stream its last window ends; None if the stream is not read."""
    if plan.as_stream() is not None:
        return 0 if plan == stream else None
    below = [reach for node in plan.inputs if (reach := reach_of(node, stream)) is not None]
    return max(below) + plan.reach if below else None


def check_domains(nodes: Sequence[PlanNode], what: str) -> None:
    """Refuse times that cannot be compared."""
    for node in nodes[1:]:
        if node.domain != nodes[0].domain:
            kinds = " and ".join(f"{_streams(n)} has {n.domain.value}s" for n in (nodes[0], node))
            raise QueryError(f"{what}: times must be of one kind, but {kinds}; declare both streams with one kind")


def _streams(node: PlanNode) -> str:
    return ", ".join(stream.declared for stream in streams_of(node))
