"""Rows on their way out of the plan, as a sink takes them: few in the driver, many as files or as a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from slackwater.plan.steps import JoinTable, Step


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows too many for the driver: a folder of Parquet files on the journal's file system."""

    location: str
    rows: int

    @property
    def folders(self) -> list[str]:
        """What it needs on the journal's file system."""
        return [self.location]


@dataclass(frozen=True)
class Recipe:
    """Rows that nobody has made yet. At any time, after a crash too, the same ones come out."""

    page: dict[str, Any]
    """What finds the page that they are made of (`Page.saved`)."""
    steps: tuple[Step, ...]
    """The steps to be done to its rows."""
    rows: int
    of: Any = field(default=None, compare=False, repr=False)
    """That page, for as long as this process has it; a journal does not keep it."""

    @property
    def folders(self) -> list[str]:
        """What it needs on the journal's file system."""
        return [step.copy for step in self.steps if isinstance(step, JoinTable) and step.copy is not None]


#: Rows that have been made.
MaterializedRows: TypeAlias = pa.Table | Staged
Payload: TypeAlias = MaterializedRows | Recipe


def payload_rows(payload: Payload) -> int:
    """How many rows there are."""
    return payload.rows if isinstance(payload, (Staged, Recipe)) else int(payload.num_rows)
