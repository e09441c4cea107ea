"""The plan node of a Python function on rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan.identifiers import Wanted
from slackwater.plan.node import ByAttribute, NeverEarly, PlanNode, TimeOfInput
from slackwater.plan.steps import Map


@dataclass(frozen=True, eq=False)
class MapNode(TimeOfInput, NeverEarly, PlanNode):
    """A Python function on the rows of each page: S5's Expensive operator. It is equal only to itself."""

    expensive: ClassVar[bool] = True
    runs_function: ClassVar[bool] = True
    inputs: tuple[PlanNode, ...]
    step: Map

    @property
    def schema(self) -> pa.Schema:
        """The columns that the function gives."""
        return self.step.schema

    def describe(self) -> str:
        """The function."""
        return self.step.describe()

    def same_work(self) -> object:
        """The same function for the same columns."""
        return "map", id(self.step.function), self.step.columns

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """All columns."""
        return self.step.wants(wanted)

    def is_source(self, text: str) -> bool:
        """As the step says."""
        return self.step.is_source(text, self.inputs[0].is_source)

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """Not possible: the function may have changed the attribute."""
        raise QueryError(
            f"window on={written!r}: rows have their place in time before map(); write the window's attribute as a "
            "column of the stream, or before the map"
        )

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """That of the rows before it."""
        return self.inputs[0].lifetime(missing)
