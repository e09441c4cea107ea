"""Elements: what travels on an arc. Pages carry rows, punctuations carry time, answers leave the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.operators.page import Page
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class Punctuation:
    """Time has passed: no later page on this arc has a row at or below the heartbeat.

    With `after` it is a range punctuation (S5 section 6.2): no later row lies in (after, heartbeat], while earlier
    ones may still come.
    """

    heartbeat: Heartbeat
    sources: SourceHeartbeats | None = None
    """The same for each source, where that is known and asked for."""
    after: int | None = None

    def saved(self) -> dict[str, Any]:
        """As JSON values."""
        by = self.sources
        return {
            "heartbeat": self.heartbeat.tick,
            "sources": None if by is None else [by.names, by.ticks.tolist(), by.others],
            "after": self.after,
        }

    @staticmethod
    def load(saved: dict[str, Any]) -> Punctuation:
        """From what `saved` gave."""
        by = saved["sources"]
        sources = None if by is None else SourceHeartbeats(by[0], np.array(by[1], dtype=np.int64), by[2])
        return Punctuation(Heartbeat(saved["heartbeat"]), sources, saved.get("after"))


@dataclass(frozen=True, slots=True)
class Prod:
    """Answer now (S5 section 3.1): every operator gives what it has so far; what a final result needs stays.

    It speaks of the windows that end after `after` and at or before `until`, and of the groups that meet `where`.
    """

    until: int | None = None
    after: int | None = None
    where: str | None = None
    timed: bool = False
    """Whether the Prodder has chosen its moment for these windows: it learns from the answer when to prod."""

    def saved(self) -> dict[str, Any]:
        """As JSON values."""
        return {"prod": [self.until, self.after, self.where, self.timed]}

    @staticmethod
    def load(saved: dict[str, Any]) -> Prod:
        """From what `saved` gave."""
        return Prod(*saved["prod"])


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows too many for the driver: a folder of Parquet files on the journal's file system."""

    location: str
    rows: int


#: Rows that go to a sink.
Payload: TypeAlias = pa.Table | Staged


def payload_rows(payload: Payload) -> int:
    """How many rows there are."""
    return payload.rows if isinstance(payload, Staged) else int(payload.num_rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows on their way to a sink: results of windows, or rows that came too late for some."""

    payload: Payload
    early: bool = False
    """Whether it answers a prod; the final answer is still to come."""


@dataclass(frozen=True, slots=True)
class Provisional:
    """Rows that count for the prod behind them and no longer: early results on their way to another aggregate."""

    page: Page


Element: TypeAlias = Page | Punctuation | Prod | Answer | Provisional
