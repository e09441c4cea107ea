"""A crash while pages wait before an expensive operator, and what may be different after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.engine.settings import QuerySettings
from slackwater.errors import RunError
from slackwater.estimates.early import Early
from slackwater.operators.page import Page, SavedRows
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import WindowNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from tests.kit.faults import Died
from tests.kit.streams import SAMPLE, frame

MADE = pa.schema([("y", pa.int64())])
Work = Callable[[pa.RecordBatch], pa.RecordBatch]


def work(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([rows["i"]], schema=MADE)


def dies_at(run: int) -> Work:
    runs: list[int] = []

    def deadly(rows: pa.RecordBatch) -> pa.RecordBatch:
        runs.append(1)
        if len(runs) == run:
            raise Died
        return work(rows)

    return deadly


def query(function: Work = work) -> WindowNode:
    plan = arrow_plan(SAMPLE, 10, 10, map=(function, MADE), disorder=bounded(0), n="count(*)", total="sum(y)")
    assert isinstance(plan, WindowNode)
    return plan


class Session:
    """An executor on a journal, with queries on one stream."""

    def __init__(self, folder: Path) -> None:
        journal = FileJournal(fs.LocalFileSystem(), str(folder), sync=False)
        self.executor = Executor(ManualClock(), journal, pages=ArrowPages())

    def start(self, name: str, sink: ListSink, function: Work = work, early: Early | None = None) -> Session:
        add_query(self.executor, name, query(function), sink, QuerySettings(early=early))
        return self

    def read(self) -> Session:
        """Four pages, which are all acknowledged even if the map dies at a later one."""
        pages = [frame([[n, "a", 0, 1.0, 10**n]]) for n in range(4)]
        tickets = [self.executor.admit(source_label("s"), arrow_page(p, n, 0, "t")) for n, p in enumerate(pages)]
        try:
            self.executor.run_until_idle()
        finally:
            assert all(ticket.done for ticket in tickets)
        return self


def finals(sink: ListSink) -> list[tuple[int, int]]:
    return [(r["n"], r["total"]) for r in sink.rows if r["kind"] == "final"]


@pytest.mark.parametrize("before", [None, sw.early(at=0.5)])
@pytest.mark.parametrize("after", [None, sw.early(at=0.5)])
def test_early_answers_may_be_asked_for_or_not_after_a_restart(
    tmp_path: Path, before: Early | None, after: Early | None
) -> None:
    sink = ListSink()
    with pytest.raises(Died):
        Session(tmp_path).start("q", sink, dies_at(2), before).read()
    Session(tmp_path).start("q", sink, early=after).read().executor.drain()
    assert finals(sink) == [(4, 1111)]


def test_an_arc_of_the_journal_that_is_gone_is_said_and_not_forgotten(tmp_path: Path) -> None:
    with pytest.raises(Died):
        Session(tmp_path).start("q", ListSink(), dies_at(2)).read()
    other = Session(tmp_path)
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)", total="sum(i)")
    add_query(other.executor, "q", plan, ListSink())
    with pytest.raises(RunError, match="pages that wait for q/map0, which this query does not have"):
        other.read()


def test_a_prod_before_all_queries_are_back_forgets_nothing_of_the_others(tmp_path: Path) -> None:
    one, other = ListSink(), ListSink()
    deadly = dies_at(2)
    with pytest.raises(Died):
        Session(tmp_path).start("q1", one, deadly).start("q2", other, deadly).read()
    back = Session(tmp_path).start("q1", one)
    loop = Loop(back.executor, held=True)

    def ask() -> None:
        back.executor.prod(Prod(query="q1"))
        back.executor.answer_prods()

    loop.interrupt(ask)
    loop.stop()
    Session(tmp_path).start("q1", one).start("q2", other).read().executor.drain()
    assert finals(one) == finals(other) == [(4, 1111)]


class Full(ListSink):
    def write(self, payload: Payload, commit_id: int) -> None:
        raise OSError("disk full")


def test_a_query_whose_sink_failed_at_what_a_crash_left_can_be_started_again(tmp_path: Path) -> None:
    first = Session(tmp_path).start("q", Full()).read()
    with pytest.raises(RunError, match=r"it cannot give its results to Full: OSError: disk full; .*start it again"):
        first.executor.drain()
    back, sink = Session(tmp_path), ListSink()
    with pytest.raises(RunError, match="disk full"):
        back.start("q", Full())
    back.start("q", sink)
    assert finals(sink) == [(4, 1111)]


def test_a_page_that_is_saved_before_its_source_takes_it_has_what_the_policy_needs(tmp_path: Path) -> None:
    deadly = dies_at(1)
    plan = arrow_plan(SAMPLE, 10, 10, map=(deadly, MADE), disorder=sw.drop_ratio(0.01), n="count(*)")
    session = Session(tmp_path)
    add_query(session.executor, "q", plan, ListSink())
    for n in range(3):
        session.executor.admit(source_label("s"), arrow_page(frame([[n, "a"]]), n, 0, "t"))
    with pytest.raises(Died):
        session.executor.run_until_idle()
    journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
    waiting = [e for entries in journal.recover().records[-1].queues.values() for e in entries if "page" in e]
    assert len(waiting) == 3
    assert all(Page.from_json(e["page"]).arrival.sketch is not None for e in waiting)


def test_rows_that_are_saved_already_go_when_they_are_worked_off() -> None:
    dropped: list[str] = []
    seen: list[list[str]] = []

    class Store(ArrowBackend):
        def delete(self, folder: str) -> None:
            dropped.append(folder)

    def look(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(list(dropped))
        return work(rows)

    sink = ListSink()
    executor = Executor(ManualClock(), pages=ArrowPages(here=Store()))
    add_query(executor, "q", query(look), sink)
    for n in range(3):
        # Durable before it is admitted, as a page of the spool is.
        page = replace(arrow_page(frame([[n, "a", 0, 1.0, 1]]), n, 0, "t"), copy=SavedRows(f"spool/{n}"))
        executor.admit(source_label("s"), page)
    executor.run_until_idle()
    executor.drain()
    assert sorted(dropped) == [f"spool/{n}" for n in range(3)]
    assert all(f"spool/{n}" not in done for n, done in enumerate(seen)), "not before they have been worked on"
    assert finals(sink) == [(3, 3)]


def shared_map(folder: Path, names: list[str], function: Any, parts: dict[str, dict[str, str]]) -> Executor:
    """Queries over one map, started in this order as a session starts them, on a journal."""
    executor = Executor(ManualClock(), FileJournal(fs.LocalFileSystem(), str(folder), sync=False), ArrowPages())
    for name in names:
        reserved = frozenset(label for n, mine in parts.items() if n != name for label in mine.values())
        settings = QuerySettings(labels=parts.get(name, {}), reserved=reserved)
        parts[name] = add_query(executor, name, query(function), ListSink(), settings)
    return executor


def test_a_part_that_queries_shared_must_be_shared_again(tmp_path: Path) -> None:
    """What waits there is for both; a part of its own would begin without it."""

    def other(rows: Any) -> Any:
        return work(rows)

    parts: dict[str, dict[str, str]] = {}
    first = shared_map(tmp_path, ["q0", "q1"], work, parts)
    assert parts["q0"] == parts["q1"]
    first.admit("source:s", arrow_page(frame([[1, "a"]]), 0, 0, "t"))
    first.run_until_idle()
    again = shared_map(tmp_path, ["q1", "q0"], work, dict(parts))
    assert sorted(again.graph.nodes[parts["q0"]["map0"]].queries) == ["q0", "q1"]
    executor = shared_map(tmp_path, ["q1"], work, dict(parts))
    for function in (other, lambda rows: work(rows)):
        with pytest.raises(RunError, match=r"it shares q0/map0 with q1, .*start the queries as they were"):
            add_query(executor, "q0", query(function), ListSink(), QuerySettings(labels=parts["q0"]))


def test_a_new_query_takes_no_label_that_the_journal_keeps_for_another(tmp_path: Path) -> None:
    parts: dict[str, dict[str, str]] = {}
    executor = shared_map(tmp_path, ["q0", "q1"], work, parts)
    executor.remove("q0")
    executor.commit()
    del parts["q0"]
    assert parts["q1"] == {"map0": "q0/map0"}
    back = shared_map(tmp_path, ["q0", "q1"], work, parts)
    assert back.graph.nodes["q0/map0"].queries == {"q1"} and parts["q0"] == {"map0": "q0/map0'"}
