"""A disorder policy of one's own: `batches(n)`. A sender delivers in batches, and within a batch in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.policies import POLICIES, Policy
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.testing import Script, arrow_plan
from tests.kit.sql import SCOPE
from tests.kit.sql import plan as sql_plan
from tests.kit.streams import SAMPLE, frame


@dataclass(frozen=True)
class Batches:
    """All rows of a batch are above those of earlier batches; a batch is `pages` pages."""

    pages: int

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> BatchTracker:
        if self.pages < 1:
            raise QueryError(f"batches({self.pages}): a batch has at least one page")
        return BatchTracker(self.pages)

    def describe(self) -> str:
        return f"batches({self.pages})"


def batches(pages: int = 1) -> Batches:
    return Batches(pages)


class BatchTracker(Tracker):
    """Promises the largest time of all batches that are complete."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._came = 0
        self._highest = self._promised = MIN_TICK

    @property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self._promised)

    def arrive(self, arrival: Arrival) -> None:
        self._came += 1
        if arrival.highest is not None:
            self._highest = max(self._highest, arrival.highest)
        if self._came % self._pages == 0:
            self._promised = self._highest

    def state(self) -> dict[str, Any]:
        return {"counts": [self._came, self._highest, self._promised]}

    def restore(self, state: dict[str, Any]) -> None:
        self._came, self._highest, self._promised = state["counts"]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    policy = Policy(("BATCHES",), batches, (), "BATCHES 2")
    POLICIES.append(policy)
    yield
    POLICIES.remove(policy)


def starts(script: Script) -> list[int]:
    return [row["window_start"] for row in script.results]


def test_a_window_closes_with_the_batch_that_passes_it() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=batches(2), n="count(*)"))
    script.page(frame([[12]]))
    assert starts(script) == [], "the batch is not complete"
    script.page(frame([[3], [19]]))
    assert starts(script) == [0, 10], "row 3 was not late"


def test_sql_knows_it_at_a_stream_and_in_a_window() -> None:
    text = "CREATE STREAM x (t BIGINT) FROM 'parquet' OPTIONS (path = 'in') TIME t DISORDER BATCHES 2"
    (statement,) = parse(text, SCOPE).statements
    assert isinstance(statement, S.CreateStream) and statement.disorder == batches(2)
    node: Any = sql_plan("SELECT count(*) AS n FROM s [RANGE 10, SLIDE 10, DISORDER BATCHES 3]")
    assert node.disorder == batches(3)
    with pytest.raises(sw.SqlError, match="a batch has at least one page"):
        sql_plan("SELECT count(*) AS n FROM s [RANGE 10, SLIDE 10, DISORDER BATCHES 0]")
