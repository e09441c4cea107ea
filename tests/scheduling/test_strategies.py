"""What strategies choose: the rules that all of them share (D9), and the order of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

import slackwater as sw
from slackwater.engine.records import MOST_CHOICES
from slackwater.errors import QueryError
from slackwater.scheduling.paths import PathWork
from slackwater.scheduling.strategy import Act, Ordered, Ready, Situation, Strategy, WaitingPages
from slackwater.testing import Script, arrow_plan
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import SAMPLE, frame

BUSY, LULL, DIRTY = Situation(), Situation(lull=True), Situation(dirty=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_prods_go_first(strategy: Ordered) -> None:
    ready = [Ready("old", oldest=1, last_run=0), Ready("prodded", oldest=9, last_run=9, prodded=True)]
    assert strategy.pick(ready, BUSY) == ready[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_can_wait_waits_for_a_lull(strategy: Ordered) -> None:
    aside, other = Ready("aside", oldest=1, spare=True), Ready("other", oldest=2)
    assert strategy.pick([aside, other], BUSY) == other
    assert strategy.pick([aside], BUSY) is Act.WAIT
    assert strategy.pick([aside], LULL) == aside
    assert strategy.pick([], LULL) is Act.WAIT


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_before_expensive_work_there_is_a_commit_if_there_is_something_to_commit(strategy: Ordered) -> None:
    dear = Ready("map", expensive=True)
    assert strategy.pick([dear], DIRTY) is Act.COMMIT
    assert strategy.pick([dear], BUSY) == dear


def test_senders_wait_for_some_runs_at_most() -> None:
    ready, strategy = [Ready("window")], type(sw.fifo())(commit_every=3)
    assert strategy.pick(ready, Situation(dirty=True, uncommitted=2, senders=1)) == ready[0]
    assert strategy.pick(ready, Situation(dirty=True, uncommitted=3, senders=1)) is Act.COMMIT
    assert strategy.pick(ready, Situation(dirty=True, uncommitted=3, senders=0)) == ready[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_results_on_their_way_go_before_a_commit_that_only_the_clock_asks_for(strategy: Ordered) -> None:
    window, sink = Ready("window", oldest=1), Ready("sink", oldest=2, unsaved=True)
    for seconds, wanted in ((1.0, None), (2.0, sink), (2.9, sink), (3.0, Act.COMMIT)):
        picked = strategy.pick([window, sink], Situation(dirty=True, seconds=seconds))
        assert wanted is None or picked == wanted
    due = Situation(dirty=True, seconds=2.0)
    assert strategy.pick([window], due) is Act.COMMIT
    assert strategy.pick([window, replace(sink, expensive=True)], due) is Act.COMMIT
    assert strategy.pick([window, replace(sink, spare=True)], due) is Act.COMMIT


def test_a_strategy_of_ones_own_need_only_pick() -> None:
    class Last(Strategy):
        def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
            return ready[-1] if ready else Act.WAIT

    script = Script(arrow_plan(SAMPLE, 10, 10, where="h >= 0", n="count(*)"), strategy=Last())
    script.page(frame([[1, "a", 1], [25, "a", 1]])).drain()
    assert [row["n"] for row in script.results] == [1, 1]
    assert {figures["strategy"] for figures in script.executor.snapshot().operators.values()} == {"custom"}


def test_fifo_finishes_a_page_before_the_next() -> None:
    ready = [
        Ready("source", oldest=2, depth=0),
        Ready("where", oldest=1, depth=1),
        Ready("sink", oldest=1, depth=3),
    ]
    assert sw.fifo().pick(ready, BUSY) == ready[2]


def test_a_turn_of_round_robin_ends_with_its_quantum_or_when_nothing_is_left() -> None:
    strategy = sw.papers.round_robin(quantum="1 second")
    a, b = Ready("a", last_run=1), Ready("b", last_run=2)
    assert strategy.pick([a, b], BUSY) == a
    later = replace(a, last_run=3, seconds=0.5)
    assert strategy.pick([later, b], BUSY) == later
    assert strategy.pick([b], BUSY) == b
    assert strategy.pick([later, replace(b, last_run=4, seconds=1.0)], BUSY) == later
    with pytest.raises(QueryError, match="must be positive"):
        sw.papers.round_robin(quantum="0 seconds")


def test_round_robin_gives_every_operator_its_turn() -> None:
    a, b, c, new = Ready("a"), Ready("b", depth=1), Ready("c", depth=2), Ready("new", depth=1)
    strategy = sw.papers.round_robin()
    assert [strategy.pick([c, b, a], BUSY) for _ in range(4)] == [a, b, c, a]
    assert [strategy.pick([a, c, new], BUSY) for _ in range(3)] == [c, new, a], "b has nothing to do"


def test_a_random_mix_goes_by_fifo_as_often_as_it_should() -> None:
    plan = {
        "s": PathWork((), 0.0),
        "where": PathWork(("s",), 1.0, 0.2),
        "map": PathWork(("where",), 5.0),
    }
    ready = [Ready("where", oldest=7), Ready("map", oldest=2)]
    strategy = sw.papers.random_mix(fifo=0.25, seed=3)
    strategy.learn(plan)
    picked = [strategy.pick(ready, BUSY) for _ in range(1_000)]
    assert 200 <= picked.count(ready[1]) <= 300
    again = sw.papers.random_mix(fifo=0.25, seed=3)
    again.learn(plan)
    assert picked == [again.pick(ready, BUSY) for _ in range(1_000)]
    with pytest.raises(QueryError, match="between 0 and 1"):
        sw.papers.random_mix(fifo=1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_choice_has_its_reason(strategy: Ordered) -> None:
    plain, prodded, aside = Ready("a"), Ready("b", prodded=True), Ready("c", spare=True)
    dear, out = Ready("d", expensive=True), Ready("e", unsaved=True)
    waits = Situation(dirty=True, uncommitted=strategy.commit_every, senders=1)
    for ready, now, why in (
        ([plain, prodded], BUSY, "a prod waits for it"),
        ([aside], LULL, "nothing else is to do"),
        ([dear], DIRTY, "expensive work comes next"),
        ([plain], waits, "senders wait"),
        ([plain], Situation(dirty=True, seconds=9.0), "the last one was long ago"),
        ([plain, out], Situation(dirty=True, seconds=2.0), "its rows should be out before the commit that is due"),
        ([], BUSY, "nothing is ready"),
    ):
        assert strategy.why(strategy.pick(ready, now), ready, now) == why


def test_the_reason_of_each_order() -> None:
    ready = [Ready("where", oldest=7, last_run=3), Ready("map", oldest=2, last_run=9)]
    plan = {
        "s": PathWork((), 0.0),
        "where": PathWork(("s",), 1.0, 0.2),
        "map": PathWork(("where",), 5.0),
    }
    for strategy, why in (
        (sw.fifo(), "its page is the oldest, 2"),
        (sw.papers.round_robin(), "its turn: it last ran in run 3"),
        (sw.chain(), "its chain frees 0.8 rows a second"),
        (sw.papers.greedy(), "its chain frees 0.8 rows a second"),
        (sw.chain(max_wait="9 seconds"), "its chain frees 0.8 rows a second"),
    ):
        strategy.learn(plan)
        assert strategy.why(strategy.pick(ready, BUSY), ready, BUSY) == why
    hurried = [replace(one, waits=(WaitingPages(one.oldest, 8.0, 1.0),)) for one in ready]
    late = sw.chain(max_wait="9 seconds")
    late.learn(plan)
    assert late.why(late.pick(hurried, BUSY), hurried, BUSY) == "page 2 or a younger one can lose no more time"


def test_the_engine_keeps_the_last_choices() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, n="count(*)"))
    for number in range(30):
        script.page(frame([[10 * number, "a"]]))
    told = script.executor.snapshot().choices
    assert len(told) == MOST_CHOICES and told[-1].run <= script.executor._cycle.runs
    ran = [choice for choice in told if choice.chose != "commit"]
    assert [later.run - choice.run for choice, later in pairwise(ran)] == [1] * (len(ran) - 1), "none is left out"
    assert {choice.chose for choice in told} == {"source:s", "q/window", "q/sink"}
    assert all(choice.why and choice.ready >= (choice.chose != "commit") for choice in told)
