"""Rows without duplicates: of rows with equal keys that are near in time, the first that comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from slackwater.aggregates.types import is_plain, spoken
from slackwater.columns import backticked
from slackwater.errors import QueryError, did_you_mean
from slackwater.plan import logical as L
from slackwater.plan.group_source import source_group
from slackwater.plan.identifiers import Wanted
from slackwater.plan.node import ByAttribute, NeverEarly, PlanNode, TimeOfInput
from slackwater.plan.nodes import StampNode
from slackwater.plan.relation import Relation
from slackwater.plan.time_columns import TimeColumns
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.time import LONGEST_SPAN
from slackwater.windows.kernel import Group


@dataclass(frozen=True)
class DistinctNode(TimeOfInput, NeverEarly, PlanNode):
    """The rows that no row with the same keys, at most `within` ticks before or after, has come before."""

    drops_duplicates: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True
    inputs: tuple[PlanNode, ...]
    keys: tuple[str, ...]
    within: int
    source: str | None = None
    """The key that is the stream's source."""

    @property
    def schema(self) -> pa.Schema:
        """Columns stay."""
        return self.inputs[0].schema

    def describe(self) -> str:
        """The keys, and how near duplicates are."""
        return f"drop duplicates of {', '.join(self.keys)} within {self.domain.show_span(self.within)}"

    def same_work(self) -> object:
        """By the same keys."""
        return "distinct", self.keys, self.within

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """The keys too; all of a row that may go to a late sink."""
        return None if wanted is None or late_rows else [*wanted, *(f"`{key}`" for key in self.keys)]

    def time_columns(self) -> TimeColumns:
        """Those of the rows."""
        return self.inputs[0].time_columns()

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """Not possible: duplicates are near by the stream's time."""
        raise QueryError(
            f"window on={written!r}: drop_duplicates goes by the stream's time; declare the stream with "
            f"time={written!r}, or leave on= out"
        )

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """That of the rows before it."""
        return self.inputs[0].lifetime(missing)


def distinct(below: AnalysedPlan, query: L.DropDuplicates) -> AnalysedPlan:
    """The plan of rows without duplicates."""
    node, relation = below.node, below.relation
    if node.answers():
        raise QueryError(
            "drop_duplicates() on results: each window has one result for a group; write it before the window, or "
            "group by the columns"
        )
    if node.latent:
        node = StampNode((node,))
    keys = tuple(_key(relation, key) for key in query.keys or relation.names)
    within = node.domain.span(query.within, "within")
    if not 0 < within <= LONGEST_SPAN:
        raise QueryError(
            f"drop_duplicates(within={query.within!r}): it must be positive and at most "
            f"{node.domain.show_span(LONGEST_SPAN)}, as in within='10 minutes'"
        )
    source = source_group(node, [Group(key, backticked(key)) for key in keys])
    return AnalysedPlan(DistinctNode((node,), tuple(dict.fromkeys(keys)), within, source), relation)


def _key(relation: Relation, written: str) -> str:
    """The column that a user names."""
    found = next((name for name in relation.names if name.lower() == written.strip("`").lower()), None)
    if found is None:
        there = ", ".join(relation.names)
        raise QueryError(
            f"drop_duplicates({written!r}): there is no column {written!r}{did_you_mean(written, relation.names)}; "
            f"there are {there}; an expression needs a name first, as in withColumn('k', …)"
        )
    kind = relation.compared_type_of(backticked(found), "drop_duplicates")
    if not is_plain(kind):
        raise QueryError(
            f"drop_duplicates({written!r}): rows cannot be compared by what is {spoken(kind)}; name other columns"
        )
    return found
