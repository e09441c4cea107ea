"""What strategies and people see of the work: records of runs, figures of operators, and a bounded history."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.records import History, Measured, Ran, Snapshot
from slackwater.operators.recent_answers import RECENT
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Act, Ready, Situation
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.streams import SAMPLE, frame


def test_old_runs_count_ever_less() -> None:
    measured = Measured()
    for _ in range(200):
        measured.ran(Ran("x", 1.0, 10, 10, 0, 0))
    for _ in range(200):
        measured.ran(Ran("x", 1.0, 100, 10, 0, 0))
    assert measured.cost is not None and abs(measured.cost - 0.01) < 0.001
    assert measured.runs == 400 and measured.rows_in == 22_000


def test_of_the_snapshots_only_the_latest_is_kept() -> None:
    history, held = History(), weakref.WeakSet[_Large]()
    for second in range(5):
        answers = _Large()
        held.add(answers)
        history.publish(Snapshot(second, {"q/sink": {RECENT: answers}}, "fifo"))
    del answers
    gc.collect()
    assert [history.latest.of("q/sink")[RECENT]] == list(held)


class _Large:
    """Stands for what must not be kept for long."""


def test_every_run_gives_a_record() -> None:
    executor, ran = Executor(ManualClock(), pages=ArrowPages()), list[Ran]()
    executor._cycle.on_ran = ran.append
    plan = arrow_plan(SAMPLE, 10, 10, where="h >= 1", disorder=bounded(0), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.admit("source:s", arrow_page(frame([[1, "a", 1], [25, "a", 1]]), 0, 0, "t"))
    executor.run_until_idle()
    by_node = {node: [r for r in ran if r.node == node] for node in {r.node for r in ran}}
    assert set(by_node) == {"source:s", "q/where0", "q/window", "q/sink"}
    assert sum(r.rows_in for r in by_node["q/window"]) == 2 and sum(r.rows_out for r in by_node["q/window"]) == 1
    assert all(r.seconds >= 0 for r in ran)
    figures = executor.snapshot().of("q/window")
    assert figures["runs"] == len(by_node["q/window"]) and 0.49 < figures["selectivity"] < 0.52


def test_a_strategy_sees_rows_bytes_age_cost_and_selectivity() -> None:
    seen: list[Ready] = []

    class Watching(Fifo):
        def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
            seen.extend(ready)
            return super().pick(ready, now)

    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")
    script = Script(plan, strategy=Watching())
    script.page(frame([[1], [25]])).page(frame([[26], [45]]))
    windows = [r for r in seen if r.label == "q/window" and r.bytes > 0]
    assert windows[0].cost is None and windows[-1].cost is not None and windows[-1].selectivity is not None
    assert windows[0].oldest < windows[-1].oldest and windows[-1].last_run > 0


def test_every_operator_has_a_heartbeat_by_its_own_rule() -> None:
    """S1 section 7: results have come to the end of the last closed window, not to the heartbeat."""
    below = arrow_plan(SAMPLE, 10, 10, where="h >= 1", group_by=["g"], disorder=bounded(3), n="count(*)")
    script = Script(arrow_plan(SAMPLE, 20, 20, over=below, most="max(n)"))
    script.page(frame([[1, "a", 1], [38, "a", 1]]))
    beats = {label: figures["heartbeat"] for label, figures in script.metrics().items() if label != "q/prodder"}
    assert beats == {"source:s": 34, "q/where0": 34, "q/inner1": 29, "q/rows0": 29, "q/window": 19, "q/sink": 19}
    assert script.metrics()["q/window"]["registers"] == [29]
