"""When sources say how far time has passed: on demand, at regular intervals, or never (S3's lines C, B and A)."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.enabling import Enabling
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import Script
from tests.kit.arcs import watched_arcs
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, union, windows

SECOND = 1_000_000


def script(enabling: Enabling | None, time: Any) -> Script:
    query = windows(union(A, B), "10 seconds", "10 seconds")
    return Script(plan(query, dict.fromkeys("ab", time), domain=TimeDomain.TIMESTAMP), quiet_streams=enabling)


def emitted(run: Script) -> list[float]:
    return [r["emitted_at"].timestamp() for r in run.results]


@pytest.mark.parametrize(
    ("enabling", "instants"),
    [(None, [10]), (sw.on_demand(), [10]), (sw.papers.periodic("7 seconds"), [14]), (sw.papers.no_enabling(), [])],
)
def test_a_window_closes_when_the_quiet_stream_has_spoken(enabling: Enabling | None, instants: list[float]) -> None:
    run = script(enabling, sw.internal())
    with watched_arcs():
        run.page(frame([[0]]), stream="a", at=3 * SECOND)
        run.page(frame([[0]]), stream="a", at=SECOND * 3 + 1)
        run.until(40 * SECOND)
    assert emitted(run) == instants
    if not instants:
        run.page(frame([[0]]), stream="a").page(frame([[0]]), stream="b")
        assert emitted(run) == [40], "what comes tells the time, too"


def test_periodic_punctuation_comes_whether_somebody_waits_or_not() -> None:
    run = script(sw.papers.periodic("7 seconds"), sw.internal())
    run.advance(1).until(30 * SECOND)
    assert {run.metrics()[f"source:{name}"]["heartbeat"] for name in "ab"} == {28 * SECOND - 1}
    quiet = script(sw.on_demand(), sw.internal())
    quiet.advance(1).until(30 * SECOND)
    assert {quiet.metrics()[f"source:{name}"]["heartbeat"] for name in "ab"} == {MIN_TICK}


def test_a_source_where_a_page_waits_is_passed_over() -> None:
    """The page came before, and a punctuation must not overtake it."""
    run = script(sw.papers.periodic("1 second"), sw.internal())
    run.advance(SECOND // 2)
    page = frame([[0]])
    run.executor.held = True
    run.page(page, stream="a")
    run.advance(5 * SECOND)
    run.executor.held = False
    with watched_arcs():
        run.advance(0)
        run.until(20 * SECOND)
    assert emitted(run) == [10]


def test_latent_time_needs_no_enabling() -> None:
    run = script(sw.papers.no_enabling(), sw.latent())
    run.page(frame([[0]]), stream="a", at=3 * SECOND).until(40 * SECOND)
    assert emitted(run) == [10]


@pytest.mark.parametrize(("enabling", "instants"), [(sw.on_demand(), [5]), (sw.papers.periodic("3 seconds"), [6])])
def test_a_timeout_is_told_by_an_enabling_timestamp(enabling: Enabling, instants: list[float]) -> None:
    run = script(enabling, sw.bounded("0 seconds", timeout="4 seconds"))
    for stream in "ab":
        run.page(frame([[10 * SECOND - 1]]), stream=stream, at=SECOND)
    run.until(40 * SECOND)
    assert emitted(run) == instants


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(sw.QueryError, match="must be positive, as in periodic"):
        sw.papers.periodic("0 seconds")
