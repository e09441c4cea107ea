"""A quiet stream goes by the rows of another (S1's skew bound): never a late row, never a long wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.errors import QueryError
from slackwater.plan.cross_stream import check_behind
from slackwater.plan.nodes import StreamNode
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Ready
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.sql.parse import parse
from slackwater.sql.policies import policy_sql
from slackwater.sql.scope import Scope
from slackwater.testing import ListSink, Script, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, assert_same_rows, finals, frame
from tests.kit.streams_of_samples import A, B, plan, union, where, windows

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}


@dataclass
class World:
    """Two streams that keep to their bounds, and what these imply: reckoned from emissions and arrivals alone."""

    by: int
    after: int
    latency: int
    own: int | None
    """Slack of the stream that is behind; None: its own rows promise nothing."""
    lead: int
    """Slack of the other one."""
    emitted: list[tuple[int, int]] = field(default_factory=list)
    """Of the leading stream: when each row was sent, and its time."""
    arrived: list[tuple[int, int]] = field(default_factory=list)
    tops: dict[str, int] = field(default_factory=dict)

    @property
    def policies(self) -> dict[str, Any]:
        own = None if self.own is None else sw.bounded(self.own)
        return {
            "a": sw.behind("b", by=self.by, after=self.after, latency=self.latency, own=own),
            "b": sw.bounded(self.lead),
        }

    def least(self, stream: str, sent: int) -> int:
        """The smallest time that a row may have that is sent at an instant."""
        slack = self.lead if stream == "b" else self.own
        floors = [0] if slack is None or stream not in self.tops else [self.tops[stream] - slack]
        if stream == "a":
            floors += [time - self.by + 1 for then, time in self.emitted if sent > then + self.after]
        return max(floors)

    def promised(self, stream: str, now: int) -> int | None:
        """The smallest time that a row may have that comes from now on."""
        slack = self.lead if stream == "b" else self.own
        floors = [] if slack is None or stream not in self.tops else [self.tops[stream] - slack]
        if stream == "a":
            due = self.after + self.latency
            floors += [time - self.by + 1 for then, time in self.arrived if now > then + due]
        return max(floors, default=None)

    def come(self, stream: str, sent: int, now: int, times: list[int]) -> None:
        self.tops[stream] = max([*times, self.tops.get(stream, MIN_TICK)])
        if stream == "b":
            self.emitted += [(sent, time) for time in times]
            self.arrived += [(now, time) for time in times]


WORLDS = st.builds(
    World,
    by=st.integers(0, 8),
    after=st.integers(0, 6),
    latency=st.integers(0, 6),
    own=st.one_of(st.none(), st.integers(0, 5)),
    lead=st.integers(0, 5),
)
#: How long the clock goes on, who sends then, how long rows were under way, how far above the least they are.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(["a", "b", "b", "b", None]),
        st.integers(0, 6),
        st.lists(st.integers(0, 9), min_size=1, max_size=3),
    ),
    max_size=25,
)


@settings(max_examples=200)
@given(world=WORLDS, steps=STEPS, by_wakes=st.booleans())
def test_no_row_that_keeps_to_its_bounds_is_late_and_no_answer_waits_longer_than_they_imply(
    world: World, steps: list[tuple[int, str | None, int, list[int]]], by_wakes: bool
) -> None:
    script = Script(plan(windows(union(A, B), 10, 5), world.policies), clock=ManualClock(20))
    rows, spec = SAMPLE.clear(), WindowSpec(10, 5)
    with watched_arcs():
        for pause, stream, way, above in steps:
            now = script.clock.now() + pause
            if by_wakes:
                script.until(now)
            script.advance(now - script.clock.now())
            if stream is not None:
                sent = now - (min(way, world.latency) if stream == "a" else way)
                least = world.least(stream, sent)
                page = frame([[least + up, "x", 0, 0.0, up] for up in above])
                script.page(page, stream=stream)
                world.come(stream, sent, now, page["t"].to_list())
                rows = pl.concat([rows, page])
            reached = [world.promised(name, now) for name in "ab"]
            known = {r["window_start"] for r in script.results}
            due = [
                r["window_start"]
                for r in recompute(rows, spec, [], COUNT)
                if None not in reached and r["window_end"] <= min(reached)  # type: ignore[type-var]
            ]
            assert set(due) <= known, "the bounds imply that it has ended"
        script.drain()
    assert_same_rows(finals(script.results), recompute(rows, spec, [], COUNT), ["window_start"])
    assert script.metrics()["q/window"]["late_rows"] == 0


def lagging(**bound: Any) -> Script:
    policies = {"a": sw.behind("b", by=5, **bound), "b": sw.bounded(0)}
    return Script(plan(windows(union(A, B), 10, 10), policies))


def test_the_rows_of_one_stream_close_the_windows_of_both_though_the_other_is_quiet() -> None:
    script = lagging(latency=3)
    script.page(frame([[4], [13]]), stream="b", at=100)
    assert script.executor.wake_at() == 101, "what came now may be followed by a row in this very instant"
    script.until(104).advance(0)
    assert script.results == [], "a may still send 9"
    script.page(frame([[14]]), stream="b", at=110).until(113).advance(0)
    assert script.results == []
    script.until(114).advance(0)
    assert [r["n"] for r in script.results] == [1], "14 - 5 closes it, once the latency has passed"
    assert script.metrics()["source:a"]["policies"]["main"]["behind"] == {"b": 9}


class Newest(Fifo):
    """What came last goes first."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        return max(ready, key=lambda r: (r.oldest, r.depth))


def test_a_page_that_waits_is_not_behind_what_came_after_it() -> None:
    """The page of a was admitted before the rows of b that would forbid it, and is taken after them."""
    policies = {"a": sw.behind("b", by=5), "b": sw.bounded(0)}
    script = Script(plan(windows(union(A, B), 10, 10), policies), strategy=Newest())
    executor = script.executor
    executor.between = lambda: script.clock.advance(1)
    executor.admit(source_label("a"), arrow_page(frame([[3], [88]]), 0, 0, "t"))
    script.clock.set(20)
    executor.admit(source_label("b"), arrow_page(frame([[90]]), 0, 0, "t"))
    with watched_arcs():
        executor.run_until_idle()
        script.drain()
    assert sum(r["n"] for r in script.results) == 3


def test_nothing_is_promised_where_nobody_waits_or_nobody_reads_the_other_stream() -> None:
    policies = {"a": sw.behind("b", by=5), "b": sw.bounded(0)}
    script = Script(plan(windows(where(union(A, B), "i > 100"), 10, 10), policies))
    script.page(frame([[50]]), stream="b", at=10).advance(50)
    assert script.metrics()["source:a"]["heartbeat"] == MIN_TICK
    alone = Script(plan(windows(A, 10, 10), policies))
    alone.page(frame([[3]]), stream="a").advance(1_000)
    assert alone.results == []


def test_another_query_may_read_the_other_stream_and_come_and_go() -> None:
    policies = {"a": sw.behind("b", by=5), "b": sw.bounded(0)}
    clock, sinks = ManualClock(), [ListSink(), ListSink(), ListSink()]
    executor = Executor(clock, pages=ArrowPages())
    add_query(executor, "one", plan(windows(A, 10, 10), policies), sinks[0])

    def give(stream: str, number: int, time: int) -> None:
        executor.admit(source_label(stream), arrow_page(frame([[time]]), number, clock.now(), "t"))
        executor.run_until_idle()
        clock.advance(10)
        executor.run_until_idle()

    give("a", 0, 3)
    add_query(executor, "two", plan(windows(B, 10, 10), policies), sinks[1])
    give("b", 0, 20)
    assert [r["window_start"] for r in sinks[0].rows] == [0]
    executor.remove("two")
    add_query(executor, "three", plan(windows(B, 10, 10), policies), sinks[2])
    give("a", 1, 25)
    give("b", 1, 40)
    assert [r["window_start"] for r in sinks[0].rows] == [0, 20]
    executor.remove("one")
    give("b", 2, 60)
    listeners = executor.graph.nodes["source:b"].operator._listeners
    assert listeners == {}, "nobody is told any more"


def test_a_restart_keeps_what_the_other_stream_has_promised(tmp_path: Path) -> None:
    policies = {"a": sw.behind("b", by=5, latency=100, own=sw.bounded(2)), "b": sw.bounded(0)}
    clock, sink = ManualClock(), ListSink()

    def started() -> Executor:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        executor = Executor(clock, journal, pages=ArrowPages())
        add_query(executor, "q", plan(windows(union(A, B), 10, 10), policies), sink)
        return executor

    first = started()
    first.admit(source_label("b"), arrow_page(frame([[4], [30]]), 0, 0, "t"))
    first.run_until_idle()
    again = started()
    clock.set(100)
    again.run_until_idle()
    assert sink.rows == []
    clock.set(101)
    again.run_until_idle()
    assert [r["n"] for r in sink.rows] == [1]


# --- mistakes


def stream(name: str, policy: Any, domain: TimeDomain = TimeDomain.SEQUENCE, of: str = "") -> StreamNode:
    return StreamNode(name, (("t", "bigint"),), "t", "t", domain, policy, of=of)


@pytest.mark.parametrize(
    ("mine", "others", "wrong"),
    [
        (
            stream("a", sw.behind("c", by=5)),
            [stream("b", sw.bounded(0))],
            "declare 'c' before 'a', so that promises",
        ),
        (stream("a", sw.behind("a", by=5)), [], "names the stream itself"),
        (
            stream("a", sw.behind("b", by="5 seconds"), TimeDomain.TIMESTAMP),
            [stream("b", sw.bounded(0))],
            "'a' has timestamps and 'b' has sequences",
        ),
        (
            stream("a", sw.behind("b", by="5 seconds"), TimeDomain.TIMESTAMP),
            [stream("b", sw.latent(), TimeDomain.TIMESTAMP)],
            "latent time, which promises nothing",
        ),
        (stream("a.i.0", sw.behind("b", by=5), of="a"), [stream("b", sw.bounded(0))], "not of another attribute"),
    ],
)
def test_a_bound_by_a_stream_that_cannot_give_one_is_refused(
    mine: StreamNode, others: list[StreamNode], wrong: str
) -> None:
    with pytest.raises(QueryError, match=wrong):
        check_behind(mine, [(other, False) for other in others], False)


def test_a_replay_and_a_live_stream_have_different_clocks() -> None:
    with pytest.raises(QueryError, match="replay both streams, or none"):
        check_behind(stream("a", sw.behind("b", by=5)), [(stream("b", sw.bounded(0)), True)], False)


@pytest.mark.parametrize(
    ("write", "wrong"),
    [
        (lambda: sw.behind("", by=5), "write the name of the other stream"),
        (lambda: sw.behind("b", by=-5), "by is -5, which is negative"),
        (lambda: sw.behind("b", by=5, own=sw.internal()), r"own=sw.bounded\('20 seconds'\)"),
        (lambda: sw.behind("b", by=5, own=sw.behind("c", by=5)), r"own=sw.bounded\('20 seconds'\)"),
        (lambda: sw.behind("b", by="5 seconds").tracker(TimeDomain.SEQUENCE), "write a whole number"),
    ],
)
def test_wrong_settings_are_refused(write: Any, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        write()


def test_sql_says_it_too() -> None:
    policy = sw.behind(
        "orders", by="30 seconds", latency="5 seconds", own=sw.bounded("10 seconds", timeout="1 minute")
    )
    words = "BEHIND 'orders' BY 30 seconds LATENCY 5 seconds OWN (BOUNDED 10 seconds TIMEOUT 1 minute)"
    assert policy_sql(policy) == words
    for text in (words, words.replace("'orders'", "orders")):
        (found,) = parse(f"CREATE STREAM x FROM 'rate' TIME t DISORDER {text} TRIGGER 1 SECOND", Scope()).statements
        assert found.disorder == policy  # type: ignore[union-attr]
