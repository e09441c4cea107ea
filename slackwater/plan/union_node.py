"""The plan nodes of a union, and of rows in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from slackwater.plan.identifiers import Wanted
from slackwater.plan.node import ByAttribute, NeverEarly, PlanNode, TimeOfInput, check_domains
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.time_columns import TimeColumns, common


@dataclass(frozen=True)
class UnionNode(TimeOfInput, PlanNode):
    """The rows of all inputs, which have the same columns and the same kind of time. So have their early rows."""

    inputs: tuple[PlanNode, ...]
    schema: pa.Schema

    def describe(self) -> str:
        """How many inputs there are."""
        return f"union of {len(self.inputs)}"

    @property
    def early_schema(self) -> pa.Schema | None:
        """That of all inputs."""
        return self.inputs[0].early_schema

    def same_work(self) -> object:
        """Unions of the same inputs are the same."""
        return "union"

    def time_columns(self) -> TimeColumns:
        """Those of all inputs."""
        return common(below.time_columns() for below in self.inputs)

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """Attributes of one kind of time only."""
        union = super().by_attribute(written, stream)
        check_domains(union.inputs, f"window on={written!r}")
        return union

    def answers(self) -> list[AggregateNode]:
        """Those of all inputs."""
        return [answer for below in self.inputs for answer in below.answers()]

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """The longest."""
        return max(below.lifetime(missing) for below in self.inputs)


@dataclass(frozen=True)
class OrderNode(TimeOfInput, NeverEarly, PlanNode):
    """Rows in the order of time: behind a union it makes S3's union, a sort-merge.

    A prod also gets the rows that wait, as early rows; nothing marks them.
    """

    keeps_rows: ClassVar[bool] = True
    orders_rows: ClassVar[bool] = True
    inputs: tuple[PlanNode, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns stay."""
        return self.inputs[0].schema

    def describe(self) -> str:
        """There is one order."""
        return "in the order of time"

    def same_work(self) -> object:
        """There is one order."""
        return "order"

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """All columns: rows are kept whole."""
        return None

    def is_source(self, text: str) -> bool:
        """No: all sources share one heartbeat."""
        return False

    def time_columns(self) -> TimeColumns:
        """Those of its rows."""
        return self.inputs[0].time_columns()

    @property
    def passes_early_rows(self) -> bool:
        """It does."""
        return True

    @property
    def gives_pairs(self) -> bool:
        """Its rows are like those of a join."""
        return True
