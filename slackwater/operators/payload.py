"""Rows on their way out of the plan, as a sink takes them: few in the driver, many as files or as a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from slackwater.operators.page import Page
from slackwater.plan.steps import JoinTable


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

    page: Page
    rows: int

    @property
    def folders(self) -> list[str]:
        """What it needs on the journal's file system."""
        return [step.copy for step in self.page.steps if isinstance(step, JoinTable) and step.copy is not None]


#: Rows that have been made.
MaterializedRows: TypeAlias = pa.Table | Staged
Payload: TypeAlias = MaterializedRows | Recipe


def payload_rows(payload: Payload) -> int:
    """How many rows there are."""
    return payload.rows if isinstance(payload, (Staged, Recipe)) else int(payload.num_rows)
