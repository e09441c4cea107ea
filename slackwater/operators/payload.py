"""Rows on their way out of the plan, as a sink takes them: few in the driver, many as files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows too many for the driver: a folder of Parquet files on the journal's file system."""

    location: str
    rows: int


Payload: TypeAlias = pa.Table | Staged


def payload_rows(payload: Payload) -> int:
    """How many rows there are."""
    return payload.rows if isinstance(payload, Staged) else int(payload.num_rows)
