"""A query fails alone: the others go on, and what it takes to go on is kept where that can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater import bounded
from slackwater.aggregates.sum import CheckedSum, Sum
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.errors import RunError
from slackwater.operators.backend import Done, Folded
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload
from slackwater.plan.node import PlanNode, with_streams
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from slackwater.windows.kernel import PaneKernel

SAMPLE = pl.DataFrame({"t": [1], "x": [1]})


def plan(stream: str = "s", slack: int = 0, **aggregates: str) -> PlanNode:
    policy: Disorder = bounded(slack)
    made = arrow_plan(SAMPLE, 10, 5, disorder=policy, **(aggregates or {"n": "count(*)"}))
    return with_streams(made, {"s": stream})


class FailsAt(ListSink):
    """Raises an error when it is written to for the n-th time."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def write(self, payload: Payload, commit_id: int) -> None:
        self.left -= 1
        if not self.left:
            raise OSError("no space left")
        super().write(payload, commit_id)


class FoldFails(ArrowBackend):
    """Some pages cannot be folded by kernels that sum."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = set[int]()

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        sums = (isinstance(partial, (Sum, CheckedSum)) for kernel in kernels for partial in kernel.columns)
        if page.number in self.numbers and any(sums):
            raise ZeroDivisionError("in a row of this page")
        return super().fold(page, kernels)


class House:
    """An executor that notes which queries have failed."""

    def __init__(self, folder: Path | None = None) -> None:
        journal = None if folder is None else FileJournal(fs.LocalFileSystem(), str(folder), sync=False)
        self.backend = FoldFails()
        self.executor = Executor(ManualClock(), journal, pages=ArrowPages(here=self.backend))
        self.failed: dict[str, tuple[str, bool]] = {}
        self.executor.on_failed = self._note
        self.refused: list[str] = []

    def _note(self, query: str, error: Exception, resumable: bool) -> None:
        self.failed[query] = (str(error.__cause__ or error), resumable)

    def start(self, name: str, query: PlanNode, sink: ListSink | None = None) -> ListSink:
        sink = ListSink() if sink is None else sink
        add_query(self.executor, name, query, sink, QuerySettings())
        return sink

    def page(self, number: int, *times: int, stream: str = "s", fails: bool = False) -> None:
        self.backend.numbers |= {number} if fails else set()
        rows = pl.DataFrame({"t": times, "x": times})
        ticket = self.executor.admit(source_label(stream), arrow_page(rows, number, 0, "t"))
        ticket.on_refused = lambda error: self.refused.append(f"{stream} {number}: {error}")
        self.executor.run_until_idle()


def windows(sink: ListSink) -> dict[int, int]:
    assert len({r["window_start"] for r in sink.rows}) == len(sink.rows), "a window came twice"
    return {r["window_start"]: r["n"] for r in sink.rows}


def counted(*times: int, before: int | None = None) -> dict[int, int]:
    """The windows of these rows, or those that end by a heartbeat."""
    made: dict[int, int] = {}
    for start in range(min(times) // 5 * 5 - 5, max(times) + 1, 5):
        rows = sum(start <= t < start + 10 for t in times)
        if rows and (before is None or start + 10 <= before + 1):
            made[start] = rows
    return made


def test_a_sink_that_raises_ends_its_query_and_no_other() -> None:
    house = House()
    good, bad = house.start("good", plan()), house.start("bad", plan(), FailsAt(2))
    for number, tick in enumerate((3, 13, 23, 33)):
        house.page(number, tick)
    assert house.failed == {"bad": ("no space left", False)}
    assert not [label for label in house.executor.graph.nodes if label.startswith("bad/")]
    house.executor.drain()
    assert windows(good) == counted(3, 13, 23, 33)
    assert len(bad.rows) < len(good.rows)


def test_an_error_that_ends_all_takes_nothing_out_of_the_journal(tmp_path: Path) -> None:
    """As when Java has died: queries that share a stream fail one after another, and each would lose its rows."""
    sinks = {"first": ListSink(), "second": ListSink()}

    def life(fails: bool) -> House:
        house = House(tmp_path)
        house.executor.ends_all = lambda error: "in a row" in str(error.__cause__ or error)
        house.start("first", plan(total="sum(x)", n="count(*)"), sinks["first"])
        house.start("second", plan(), sinks["second"])
        if fails:
            house.page(0, 3, 13)
            with pytest.raises(ZeroDivisionError):
                house.page(1, 14, 23, fails=True)
            with pytest.raises(RunError):
                house.executor.run_until_idle()
            assert house.failed == {}
        return house

    life(fails=True)
    again = life(fails=False)
    for number, times in ((1, (14, 23)), (2, (33,))):
        again.page(number, *times)
    again.executor.drain()
    for sink in sinks.values():
        assert windows(sink) == counted(3, 13, 14, 23, 33)


@pytest.mark.parametrize("error", ["no space left", ""])
def test_a_sink_with_an_error_that_ends_all(tmp_path: Path, error: str) -> None:
    """The rows that it did not take come again."""
    bad, good = FailsAt(1), ListSink()
    house = House(tmp_path)
    house.executor.ends_all = lambda raised: bool(error) and error in str(raised.__cause__ or raised)
    house.start("bad", plan(), bad)
    house.start("good", plan(), good)
    if not error:
        house.page(0, 3, 33)
        assert set(house.failed) == {"bad"}
        return
    with pytest.raises(Exception, match="no space left"):
        house.page(0, 3, 33)
    assert house.failed == {}
    again = House(tmp_path)
    again.start("bad", plan(), bad)
    again.start("good", plan(), good)
    again.executor.run_until_idle()
    again.page(0, 3, 33)
    again.executor.drain()
    assert windows(bad) == windows(good) == counted(3, 33)


def test_without_anybody_to_tell_an_error_ends_all() -> None:
    house = House()
    house.executor.on_failed = None
    house.start("bad", plan(), FailsAt(1))
    with pytest.raises(RunError, match="OSError: no space left"):
        house.page(0, 3, 33)
    with pytest.raises(RunError, match=r"^the executor has failed: .*start it again$"):
        house.page(1, 43)


@pytest.mark.parametrize("other", [{"n": "count(*)"}, {"n": "count(*)", "top": "max(x)"}])
def test_windows_that_share_a_fold_do_not_fail_together(other: dict[str, str]) -> None:
    house = House()
    good = house.start("good", plan(**other))
    house.start("bad", plan(n="count(*)", total="sum(x)"))
    also = house.start("also", plan(**other))
    house.page(0, 3)
    house.page(1, 13, fails=True)
    house.page(2, 23)
    house.executor.drain()
    assert house.failed == {"bad": ("in a row of this page", False)}
    assert windows(good) == windows(also) == counted(3, 13, 23)


def test_a_page_that_only_a_failed_query_would_have_read_counts_as_empty() -> None:
    """The policy of the stream would wait for its statistics for ever."""
    house = House()
    house.start("bad", plan(total="sum(x)"))
    house.page(0, 3, fails=True)
    late = house.start("late", plan())
    house.page(1, 13)
    house.page(2, 33)
    assert windows(late) == counted(13, before=33)


def test_the_stream_of_a_failed_query_is_withdrawn_and_comes_again(tmp_path: Path) -> None:
    house = House(tmp_path)
    alone, other = house.start("alone", plan("a", n="count(*)", total="sum(x)")), house.start("other", plan("b"))
    house.page(0, 3, stream="a")
    house.page(1, 13, stream="a", fails=True)
    assert house.failed == {"alone": ("in a row of this page", True)}
    assert house.refused == ["a 1: in a row of this page"]
    with pytest.raises(RunError, match="no query reads source:a any more"):
        house.page(1, 13, stream="a")
    for number, tick in enumerate((3, 13, 23)):
        house.page(number, tick, stream="b")
    again = House(tmp_path)
    assert again.executor.consumed("source:a") == 0
    again.start("alone", plan("a", n="count(*)", total="sum(x)"), alone)
    again.start("other", plan("b"), other)
    again.page(1, 13, stream="a")
    again.executor.drain()
    assert windows(alone) == counted(3, 13)
    assert windows(other) == counted(3, 13, 23)


@settings(deadline=None)
@given(
    fails=st.integers(1, 4),
    ticks=st.lists(st.integers(0, 40), min_size=3, max_size=8),
    restart=st.integers(0, 8),
    retire=st.booleans(),
)
def test_what_a_failed_or_stopped_query_was_owed_it_gets_after_a_restart(
    fails: int, ticks: list[int], restart: int, retire: bool
) -> None:
    """Two streams; the query of one ends at some point, the other's goes on; then both are started again."""
    ticks = sorted(ticks)
    with TemporaryDirectory() as name:
        folder, flaky, other = Path(name), FailsAt(0 if retire else fails), ListSink()
        house = House(folder)
        house.start("flaky", plan("a"), flaky)
        house.start("other", plan("b"), other)
        for number, tick in enumerate(ticks):
            if retire and number == fails and "flaky" not in house.failed:
                house.failed["flaky"] = ("stopped", house.executor.retire("flaky"))
            if number == restart:
                house = House(folder)
                house.start("flaky", plan("a"), flaky)
                house.start("other", plan("b"), other)
            if "flaky" not in house.failed:
                seen = house.executor.consumed("source:a")
                for missed in range(0 if seen is None else seen + 1, number + 1):
                    if "flaky" not in house.failed:
                        house.page(missed, ticks[missed], stream="a")
            house.page(number, tick, stream="b")
        assert all(resumable for _, resumable in house.failed.values())
        again, flaky.left = House(folder), 0
        again.start("flaky", plan("a"), flaky)
        again.start("other", plan("b"), other)
        seen = again.executor.consumed("source:a")
        for missed in range(0 if seen is None else seen + 1, len(ticks)):
            again.page(missed, ticks[missed], stream="a")
        again.executor.drain()
    assert windows(flaky) == windows(other) == counted(*ticks)


def test_a_query_that_was_set_aside_can_be_forgotten(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.start("gone", plan("a"), FailsAt(1))
    other = house.start("other", plan("b"))
    house.page(0, 3, 33, stream="a")
    assert house.failed == {"gone": ("no space left", True)}
    house.page(0, 3, stream="b")
    again = House(tmp_path)
    again.start("other", plan("b"), other)
    with pytest.raises(RunError, match="holds results for gone/sink"):
        again.page(1, 13, stream="b")
    again.executor.forget("gone")
    again.page(1, 13, stream="b")
    again.executor.drain()
    assert windows(other) == counted(3, 13)


def test_rows_after_a_drain_open_new_windows() -> None:
    house = House()
    sink = house.start("q", plan(slack=3))
    house.page(0, 3, 12)
    house.executor.drain(["source:s"], for_good=False)
    assert windows(sink) == counted(3, 12)
    house.page(1, 14, 24, 41)
    house.executor.drain(["source:s"], for_good=False)
    # The windows from 5 and from 10 on have been emitted; 14 belongs to these two alone.
    assert windows(sink) == {**counted(3, 12), **counted(24, 41)}
    assert house.executor.metrics()["q/window"]["late_rows"] == 1


def test_a_query_whose_sink_fails_while_it_is_stopped_is_kept_with_what_it_is_owed(tmp_path: Path) -> None:
    house = House(tmp_path)
    flaky = house.start("flaky", plan("a"), FailsAt(1))
    house.executor.admit(source_label("a"), arrow_page(pl.DataFrame({"t": [3, 33], "x": [3, 33]}), 0, 0, "t"))
    house.executor._work()
    assert house.executor.retire("flaky") is None
    assert house.failed == {"flaky": ("no space left", True)}
    again = House(tmp_path)
    again.start("flaky", plan("a"), flaky)
    again.executor.drain()
    assert windows(flaky) == counted(3, 33)
