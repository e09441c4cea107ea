"""Bursts behind an expensive operator (S5 sections 4.3.2 and 6.2).

Prods overtake the backlog; with a sideline, later windows need not wait for a burst, and a crash at any point loses
nothing. Any interleaving of all that is in `test_everything_together.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.engine.loop import Loop
from slackwater.operators.prod import Prod
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.scheduling.strategy import Ordered, Ready
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import Script, arrow_page
from tests.kit.bursts import admit, query, twice
from tests.kit.faults import Fate, MortalFiles, MortalSink
from tests.kit.streams import assert_same_rows, finals, frame

SECOND = 1_000_000


def calm(pages: Sequence[pl.DataFrame], slack: int, window: tuple[int, int]) -> list[dict[str, Any]]:
    script = Script(query(slack, window))
    for page in pages:
        script.page(page)
    return finals(script.drain().results)


# --- a crash at every point


BURST = [
    frame([[1, "a", 0, 1.0, 1], [4, "b", 0, 1.0, 2]]),
    frame([[6, "a", 0, 1.0, 4]]),
    frame([[8, "b", 0, 1.0, 8], [9, "a", 0, 1.0, 16]]),
    frame([[12, "a", 0, 1.0, 32]]),
    frame([[25, "a", 0, 1.0, 64]]),
    frame([[38, "b", 0, 1.0, 128]]),
]


def life(folder: Path, sink: MortalSink, fate: Fate, safe: set[int]) -> Script:
    """All pages at once; the window of the first ones is prodded when one page has been worked on."""
    sink.fate = fate
    journal = FileJournal(MortalFiles(fate), str(folder))
    script = Script(query(0, (10, 10)), journal, sink, sideline=sw.sideline(ratio=5))

    asked: list[Prod] = []

    def prod() -> None:
        if script.metrics()["q/map0"]["mapped_pages"] == 1 and not asked:
            asked.append(Prod(until=10, query="q"))
            script.executor.prod(asked[0])

    script.executor.between = prod
    for number in range(len(BURST)):
        done = admit(script, BURST[number], number)
        assert done or number not in safe
        if not done:
            script.executor._admission.tickets[-1].on_done = lambda number=number: safe.add(number)
    script.executor.run_until_idle()
    return script.drain()


def test_the_process_may_die_at_every_point_of_a_sidelined_burst(tmp_path: Path) -> None:
    wanted, undisturbed, safe = calm(BURST, 0, (10, 10)), MortalSink(), set[int]()
    deaths: list[tuple[Path, MortalSink, set[int]]] = []

    def copy() -> None:
        folder = tmp_path / str(len(deaths))
        if (tmp_path / "calm").exists():
            shutil.copytree(tmp_path / "calm", folder)
        deaths.append((folder, undisturbed.copied(), set(safe)))

    script = life(tmp_path / "calm", undisturbed, Fate(witness=copy), safe)
    assert script.metrics()["q/map0"]["sidelined_pages"] == 2
    assert [r["window_start"] for r in finals(undisturbed.rows)] == [10, 20, 0, 0, 30], "two are closed ahead"
    assert len(deaths) > 40
    for folder, sink, known in deaths:
        life(folder, sink, Fate(), known)
        assert_same_rows(finals(sink.rows), wanted, ["window_start", "g"])


# --- what it is for


@dataclass
class Costly:
    """A function that takes a second of the clock for each batch; pages arrive meanwhile."""

    arrivals: list[tuple[int, pl.DataFrame]]
    sideline: Any = None
    strategy: Any = None
    early: Any = None

    def __post_init__(self) -> None:
        clock = ManualClock()

        def slow(rows: pa.RecordBatch) -> pa.RecordBatch:
            clock.advance(SECOND)
            return twice(rows)

        plan = query("0 seconds", ("10 seconds", "10 seconds"), slow, domain=TimeDomain.TIMESTAMP)
        early = self.early or sw.early(at=1.0)
        self.script = Script(plan, early=early, sideline=self.sideline, clock=clock, strategy=self.strategy)
        self.script.executor.between = self.admit
        self._next = 0

    def admit(self) -> None:
        while self._next < len(self.arrivals) and self.arrivals[self._next][0] <= self.script.clock.now():
            admit(self.script, self.arrivals[self._next][1], self._next)
            self._next += 1

    def run(self) -> Script:
        while self._next < len(self.arrivals):
            self.script.until(max(self.script.clock.now(), self.arrivals[self._next][0]))
            self.admit()
            self.script.executor.run_until_idle()
        return self.script.drain()


def burst_of_pages() -> list[tuple[int, pl.DataFrame]]:
    """A page every 2 seconds; between 10 and 20 there are 40 of them instead of 5."""

    def page(at: float) -> tuple[int, pl.DataFrame]:
        return int(at * SECOND), frame([[int(at * SECOND), "a", 0, 1.0, 1]])

    quiet = [*range(0, 10, 2), *range(20, 80, 2)]
    return sorted([page(at) for at in quiet] + [page(10 + n / 4) for n in range(40)], key=lambda p: p[0])


def when(script: Script, kind: str) -> dict[int, float]:
    """By the second at which a window begins, the one at which it was answered."""
    rows = [r for r in script.results if r["kind"] == kind]
    return {int(r["window_start"].timestamp()): r["emitted_at"].timestamp() for r in rows}


def test_with_a_sideline_later_windows_do_not_wait_for_the_burst() -> None:
    plain = Costly(burst_of_pages()).run()
    aside = Costly(burst_of_pages(), sw.sideline(ratio=4)).run()
    assert_same_rows(finals(aside.results), finals(plain.results), ["window_start", "g"])
    assert aside.metrics()["q/map0"]["sidelined_pages"] > 10
    before, after = when(plain, "final"), when(aside, "final")
    assert before[20] - 30 > 15, "without it the windows behind the burst are late"
    later = range(20, 70, 10)
    assert all(after[start] - (start + 10) <= 1 < before[start] - (start + 10) for start in later), (
        "these come sooner"
    )
    assert after[10] > after[20], "the burst's own window comes when its pages are worked off"


def test_early_answers_come_at_their_time_though_pages_wait() -> None:
    script = Costly(burst_of_pages(), sw.sideline(ratio=4)).run()
    early = when(script, "early")
    assert 20 <= early[10] <= 21


class MapLast(Ordered):
    """All that leads to the map goes first, so that its backlog waits on its own arc."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        return min(ready, key=lambda r: ("/map" in r.label, r.oldest))


@pytest.mark.parametrize("strategy", [None, MapLast()], ids=["backlog at the source", "backlog at the map"])
def test_a_prod_overtakes_the_backlog(strategy: Any) -> None:
    script = Script(query(0, (10, 10)), strategy=strategy)
    seen = []

    def between() -> None:
        if script.metrics()["q/map0"]["mapped_pages"] == 2 and not seen:
            script.executor.prod(Prod(until=10, query="q"))
            script.executor.answer_prods()
            seen.append((script.metrics()["q/map0"]["mapped_pages"], script.results[:]))

    script.executor.between = between
    for number in range(8):
        admit(script, frame([[number, "a", 0, 1.0, 1]]), number)
    script.executor.run_until_idle()
    ((mapped, rows),) = seen
    assert (mapped, [(r["kind"], r["n_seen"]) for r in rows]) == (2, [("early", 2)])


def test_a_page_is_safe_before_the_work_on_it_begins(tmp_path: Path) -> None:
    safe = []

    def noted(rows: pa.RecordBatch) -> pa.RecordBatch:
        safe.append([ticket.done for ticket in tickets])
        return twice(rows)

    script = Script(query(0, (10, 10), noted), FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False))
    pages = [arrow_page(frame([[n, "a"]]), n, 0, "t") for n in range(2)]
    tickets = [script.executor.admit(source_label("s"), page) for page in pages]
    script.executor.run_until_idle()
    assert safe == [[True, True], [True, True]]


def test_a_prod_from_another_thread_is_answered_between_two_pages() -> None:
    asked: list[Any] = []
    answered: list[Any] = []

    def slow(rows: pa.RecordBatch) -> pa.RecordBatch:
        answered.append([request.done() for request in asked])
        if len(answered) == 2:
            user = Thread(target=post)
            user.start()
            user.join()
        return twice(rows)

    def post() -> None:
        asked.append(loop.post(ask, urgent=True))
        asked.append(loop.post(lambda: None))

    def ask() -> int:
        script.executor.prod(Prod(until=10, query="q"))
        script.executor.answer_prods()
        return [r["n_seen"] for r in script.results if r["kind"] == "early"][-1]

    def admit_all() -> None:
        for number in range(4):
            admit(script, frame([[number, "a", 0, 1.0, 1]]), number)

    script = Script(query(0, (10, 10), slow))
    loop = Loop(script.executor)
    loop.call(admit_all)
    loop.call(script.executor.drain)
    loop.stop()
    assert answered == [[], [], [True, False], [True, False]], "what is not urgent waits for the end"
    assert asked[0].result() == 2


def in_order() -> tuple[list[int], Callable[[pa.RecordBatch], pa.RecordBatch]]:
    """A function for a map, and the first values of the pages that it has worked on."""
    order: list[int] = []

    def noted(rows: pa.RecordBatch) -> pa.RecordBatch:
        order.append(rows["i"][0].as_py())
        return twice(rows)

    return order, noted


def test_one_page_in_so_many_is_a_sidelined_one() -> None:
    order, noted = in_order()
    script = Script(query(0, (10, 10), noted), sideline=sw.sideline(ratio=3)).page(frame([[0, "a", 0, 1.0, 0]]))
    script.prod(until=10)
    for number in range(1, 11):
        admit(script, frame([[number if number < 5 else 10 + number, "a", 0, 1.0, number]]), number)
    script.executor.run_until_idle()
    assert order == [0, 5, 1, 6, 7, 2, 8, 9, 3, 10, 4]


def test_a_large_sidelined_page_waits_until_as_many_rows_have_gone_before_it() -> None:
    order, noted = in_order()
    script = Script(query(0, (10, 10), noted), sideline=sw.sideline(ratio=3)).page(frame([[0, "a", 0, 1.0, 0]]))
    script.prod(until=10)
    admit(script, frame([[t, "a", 0, 1.0, 1] for t in (1, 2)]), 1)
    for number in range(2, 9):
        admit(script, frame([[10 + number, "a", 0, 1.0, number]]), number)
    script.executor.run_until_idle()
    assert order == [0, 2, 3, 4, 1, 5, 6, 7, 8], "two rows of it for four others, the first page among them"


def test_a_window_that_lacks_little_does_not_wait_for_a_burst() -> None:
    order, noted = in_order()
    script = Script(query(9, (10, 10), noted), sideline=sw.sideline(ratio=9)).page(frame([[11, "a", 0, 1.0, 0]]))
    script.prod(until=20)
    for number, time in enumerate([4, 5, 6, 12, 7, 21], start=1):
        admit(script, frame([[time, "a", 0, 1.0, number]]), number)
    script.executor.run_until_idle()
    assert order == [0, 6, 4, 1, 2, 3, 5], "the only page of its window goes first, then the burst in order"


def test_nothing_is_set_aside_by_a_prod_for_all_windows_or_for_some_groups() -> None:
    for prod in (Prod(), Prod(until=10, where="g = 'a'"), Prod(until=9), Prod(until=10, after=10)):
        script = Script(query(0, (10, 10)), sideline=sw.sideline()).page(frame([[1, "a"]]))
        script.executor.prod(replace(prod, query="q"))
        script.page(frame([[2, "a"]])).page(frame([[5, "a"]]))
        assert script.metrics()["q/map0"]["sidelined_pages"] == 0


def test_a_prod_far_ahead_sets_nothing_aside_of_windows_that_had_no_row_yet() -> None:
    script = Script(query(0, (10, 10)), sideline=sw.sideline()).prod(until=10**9).page(frame([[1, "a"]]))
    assert script.metrics()["q/map0"]["sidelined_pages"] == 0, "at the prod there was no row at all"
    script.prod(until=10**9).page(frame([[5, "a"]]))
    assert script.metrics()["q/map0"]["sidelined_pages"] == 1
    for time in range(10, 40):
        script.page(frame([[time, "a"]]))
    assert script.metrics()["q/map0"]["sidelined_pages"] == 1


# --- the function


def failing(rows: pa.RecordBatch) -> pa.RecordBatch:
    raise KeyError("no such model")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, "map\\(failing\\) failed on page 1: 'no such model'"),
        (lambda rows: rows.to_pylist(), "page 1: the function gave a list; return a pyarrow.RecordBatch"),
        (lambda rows: twice(rows).slice(1), "page 1: the function gave 0 rows for 1; give a row for each"),
        (lambda rows: rows, "page 1: the function gave no column 'y'; it gave t, g, h"),
        (lambda rows: pa.table({"g": ["a"], "y": ["one"]}), "page 1: .*one"),
    ],
)
def test_an_error_of_the_function_stops_the_query_and_names_the_page(function: Any, message: str) -> None:
    calls = []

    def second(rows: pa.RecordBatch) -> Any:
        calls.append(rows)
        return twice(rows) if len(calls) == 1 else function(rows)

    second.__qualname__ = getattr(function, "__qualname__", "f")
    script = Script(query(0, (10, 10), second)).page(frame([[1, "a"]]))
    with pytest.raises(sw.RunError, match=message):
        script.page(frame([[2, "a"]]))


def test_rows_that_a_function_sees_are_those_that_a_filter_has_left() -> None:
    script = Script(query(0, (10, 10), where="h > 0"))
    script.page(frame([[1, "a", 0, 1.0, 5], [2, "a", 1, 1.0, 7], [3, "b", 0, 1.0, 9]])).drain()
    assert [(r["g"], r["n"], r["total"]) for r in script.results] == [("a", 1, 14)]


@pytest.mark.parametrize("ratio", [1, 0, 2.5, True])
def test_a_ratio_is_a_whole_number_of_pages(ratio: Any) -> None:
    with pytest.raises(sw.QueryError, match="as in ratio=4"):
        sw.sideline(ratio=ratio)
