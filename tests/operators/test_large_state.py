"""State that outgrows the driver: the window aggregate changes its store in mid-stream, and again after a restart.

The large store of these tests lies in the driver too; what is tested is the change, not the spilling.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.operators.backend import Done, Folded, PartialsTooLarge
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pane_store import ResidentPanes
from slackwater.operators.prod import Prod
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from slackwater.testing.stores import ArrowStores
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, frame

COUNT = {"n": AGGREGATES["n"], "total": AGGREGATES["total"]}


class LargePanes(ResidentPanes):
    """Takes over what the resident store held; its first state is a whole one."""

    kind = "large"

    def __init__(self, resident: ResidentPanes) -> None:
        super().__init__(resident.kernel, resident.schema)
        self.ring = resident.ring
        self._journaled = False

    def state(self, whole: bool) -> State:
        state = super().state(whole or not self._journaled)
        self._journaled = True
        return state


class LargeStores(ArrowStores):
    """Has room for what the driver has not."""

    def panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> LargePanes:
        return LargePanes(resident)


class Huge(ArrowBackend):
    """A page of this number has too many partials for the driver, when it is first asked."""

    def __init__(self, number: int | None) -> None:
        super().__init__()
        self._number = number

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        if page.number == self._number:
            self._number = None
            raise PartialsTooLarge
        return super().fold(page, kernels)


def start(folder: str, sink: ListSink, slack: int, limit: int = 2**28, huge: int | None = None) -> Executor:
    pages = ArrowPages(here=Huge(huge), stores=LargeStores)
    executor = Executor(ManualClock(), FileJournal(fs.LocalFileSystem(), folder, sync=False), pages=pages)
    plan = arrow_plan(SAMPLE, 7, 3, group_by=["g"], disorder=bounded(slack), n="count(*)", total="sum(x)")
    add_query(executor, "q", plan, sink, QuerySettings(resident_limit=limit))
    return executor


@settings(max_examples=60)
@given(bounded_streams(), st.integers(0, 10), st.sampled_from([0, 500, 2**28]))
def test_the_store_may_change_at_any_page_and_the_process_end_after_any(
    stream: Stream, huge: int, limit: int
) -> None:
    sink = ListSink()
    with tempfile.TemporaryDirectory() as folder:
        for number, rows in enumerate(stream.pages):
            executor = start(folder, sink, stream.slack, limit, huge)
            executor.admit(source_label("s"), arrow_page(rows, number, 0, "t"))
            executor.run_until_idle()
            if number >= huge:
                assert executor.metrics()["q/window"]["store"] == "large"
        start(folder, sink, stream.slack, limit).drain()
    wanted = recompute(stream.rows, WindowSpec(7, 3), ["g"], COUNT)
    assert_same_rows(sink.rows, wanted, ["window_start", "g"])


def test_state_stays_resident_below_the_limit_and_leaves_above_it() -> None:
    for limit, store in ((2**28, "resident"), (0, "large")):
        with tempfile.TemporaryDirectory() as folder:
            executor = start(folder, ListSink(), 5, limit)
            executor.admit("source:s", arrow_page(frame([[1, "a"]]), 0, 0, "t"))
            executor.run_until_idle()
            assert executor.metrics()["q/window"]["store"] == store


@pytest.mark.parametrize("groups", [1, 120])
def test_results_that_may_exceed_the_limit_are_made_where_there_is_room(groups: int) -> None:
    rows = frame([[t, f"g{n}"] for t in range(240 // groups) for n in range(groups)])
    with tempfile.TemporaryDirectory() as folder:
        sink, stores = ListSink(), list[str]()
        # 240 partials take 12 kB. Three windows of 120 groups take 23 kB, those of one group 5 kB.
        executor = start(folder, sink, 50, limit=16_000)
        for number, page in enumerate((rows, frame([[1000, "z"]]))):
            executor.admit(source_label("s"), arrow_page(page, number, 0, "t"))
            executor.run_until_idle()
            stores.append(executor.metrics()["q/window"]["store"])
        executor.drain()
    assert stores == ["resident", "resident" if groups == 1 else "large"]
    wanted = recompute(pl.concat([rows, frame([[1000, "z"]])]), WindowSpec(7, 3), ["g"], COUNT)
    assert_same_rows(sink.rows, wanted, ["window_start", "g"])


def test_what_early_answers_have_taught_outlives_a_change_of_the_store_and_a_restart() -> None:
    def learned(executor: Executor) -> list[str]:
        estimates = executor.graph.nodes["q/window"].operator._estimates  # type: ignore[attr-defined]
        return sorted(map(str, estimates.table(whole=True).to_pylist()))

    with tempfile.TemporaryDirectory() as folder:
        executor = start(folder, ListSink(), 0, huge=28)
        for number in range(30):
            executor.admit("source:s", arrow_page(frame([[number, "a"]]), number, 0, "t"))
            executor.run_until_idle()
            executor.prod(Prod(query="q"))
            executor.run_until_idle()
        assert executor.metrics()["q/window"]["store"] == "large"
        kept = learned(executor)
        assert len(kept) > 10 and learned(start(folder, ListSink(), 0)) == kept


def test_with_nowhere_to_spill_the_limit_is_an_error_that_names_the_query() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    add_query(executor, "q", arrow_plan(SAMPLE, 10, 10, n="count(*)"), ListSink(), QuerySettings(resident_limit=0))
    executor.admit("source:s", arrow_page(frame([[1]]), 0, 0, "t"))
    with pytest.raises(MemoryError, match="q/window: more window state than the driver may hold"):
        executor.run_until_idle()


def test_without_a_journal_nothing_is_kept_for_one() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, n="count(*)"))
    for n in range(20):
        script.page(frame([[n * 10]]))
    panes = script.executor.graph.nodes["q/window"].operator._panes  # type: ignore[attr-defined]
    assert panes.ring.take_fresh() is None
    assert panes.ring.size.panes == 1
