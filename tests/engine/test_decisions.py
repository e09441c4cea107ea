"""Decisions that change how work is done are logged, each with what it was decided by; no error is swallowed."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

import slackwater
from experiments.lab import arrivals as make
from experiments.lab.source_trial import run_by_source
from experiments.lab.trial import Case, Paged, run
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.queue import Entry, Queue
from slackwater.engine.settings import QuerySettings
from slackwater.events import decision, decisions_of, logs_decisions
from slackwater.operators.backend import Done, Folded, PartialsTooLarge
from slackwater.operators.batching import AdaptiveBatches
from slackwater.operators.page import Page
from slackwater.operators.pane_store import ResidentPanes
from slackwater.operators.record_store import ResidentRecords
from slackwater.operators.shared_fold import SharedFold
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.time import TimeDomain
from slackwater.scheduling.chain import Chain
from slackwater.scheduling.paths import PathWork
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.script import ArrowPages
from slackwater.testing.stores import ArrowStores
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec
from tests.kit.decisions import LOGGER, decisions, logged
from tests.kit.streams import SAMPLE, frame

SECOND = 1_000_000


def test_a_decision_is_a_debug_record_with_fields_and_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    with logged(caplog), decisions_of("source:s"):
        decision("pages.together", pages=3)
        decision("panes.spilled", operator="q/window")
    assert decisions(caplog, "pages.together") == [{"operator": "source:s", "pages": 3}]
    assert decisions(caplog, "panes.spilled") == [{"operator": "q/window"}]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert caplog.messages[0] == "pages.together operator='source:s' pages=3"


def test_no_text_is_made_while_the_level_is_off(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable:
        def __repr__(self) -> str:
            raise AssertionError("nobody reads this")

    with caplog.at_level(logging.INFO, LOGGER):
        decision("panes.spilled", bytes=Unreadable())
        assert not logs_decisions()
    assert not caplog.records


class Refusing(ArrowBackend):
    """Folds nothing that has to do with the column `x`, and never several sets of groups in one job."""

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        if len(kernels) > 1:
            raise PartialsTooLarge("too many together")
        if any("x" in str(aggregate.argument) for aggregate in kernels[0].aggregates):
            raise ValueError("x cannot be read")
        return super().fold(page, kernels)


def test_windows_that_cannot_share_a_fold_are_folded_alone(caplog: pytest.LogCaptureFixture) -> None:
    shared = SharedFold()
    some = [
        arrow_plan(SAMPLE, 10, 10, group_by=[g], a=text).kernel for g, text in (("g", "sum(i)"), ("h", "sum(i)"))
    ]
    some.append(arrow_plan(SAMPLE, 10, 10, group_by=["g"], a="sum(x)").kernel)
    for kernel in some:
        shared.join(kernel)
    page, pages = arrow_page(frame([[3, "a", 1, None, 2]]), 7, 0, "t"), ArrowPages(here=Refusing())
    with logged(caplog):
        assert shared.fold(pages, page, some[0]).partials.height == 1
        with pytest.raises(ValueError, match="x cannot be read"):
            shared.fold(pages, page, some[2])
    (apart,) = decisions(caplog, "fold.apart")
    assert apart["page"] == 7 and apart["jobs"] == 2 and "too many together" in str(apart["error"])
    alone = decisions(caplog, "fold.alone")
    assert {d["windows"] for d in alone} == {2} and "x cannot be read" in str(alone[0]["error"])


class Larger(ResidentPanes):
    kind = "large"


class LargeStores(ArrowStores):
    def panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> Larger:
        return Larger(resident.kernel, resident.schema)

    def rows(self, label: str, resident: ResidentRecords) -> ResidentRecords:
        return resident


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"range": 7, "slide": 3}, "panes.spilled"),
        ({"range": 7}, "rows.spilled"),
        ({"range": 7, "source": "g", "group_by": ["g"]}, "rows.spilled"),
    ],
)
def test_state_that_leaves_the_driver(caplog: pytest.LogCaptureFixture, options: dict[str, Any], name: str) -> None:
    executor = Executor(ManualClock(), pages=ArrowPages(stores=LargeStores))
    plan = arrow_plan(SAMPLE, disorder=bounded(5), n="count(*)", **options)
    add_query(executor, "q", plan, ListSink(), QuerySettings(resident_limit=0))
    with logged(caplog):
        executor.admit(source_label("s"), arrow_page(frame([[1, "a"]]), 0, 0, "t", options.get("source")))
        executor.run_until_idle()
    spilled = decisions(caplog, name)[0]
    assert spilled["operator"] in executor.graph.nodes and spilled["operator"].startswith("q/")
    assert spilled["limit"] == 0 and spilled["bytes"] > 0


def test_drop_ratio_starts_stops_at_a_change_and_restarts(caplog: pytest.LogCaptureFixture) -> None:
    quick = make.arrivals(make.exponential(0.5), seconds=100, rate=100, seed=1)
    slow = make.arrivals(make.exponential(8), seconds=200, rate=100, seed=2)
    later = slow.with_columns(pl.col("time", "arrival") + 100 * SECOND)
    rows = pl.concat([quick, later]).sort("arrival")
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    with logged(caplog):
        run(drop_ratio(0.01).tracker(TimeDomain.TIMESTAMP), Case.of(paged, WindowSpec(10 * SECOND, 10 * SECOND)))
    names = [record.event.partition(".")[2] for record in caplog.records]  # type: ignore[attr-defined]
    assert names[0] == "started" and names.count("started") == 1
    assert "stopped" in names and names.index("stopped") < names.index("restarted")
    first, again = decisions(caplog, "drop_ratio.started")[0], decisions(caplog, "drop_ratio.restarted")[-1]
    assert again["slack"] > 4 * first["slack"] > 0


def test_a_source_joins_a_delay_class_and_leaves_it(caplog: pytest.LogCaptureFixture) -> None:
    near = make.arrivals(make.exponential(0.2), seconds=150, rate=20, seed=1, sources=1)
    delays = make.regimes((50, make.exponential(0.2)), (100, lambda rng, times: np.full(len(times), 40.0)))
    moving = make.arrivals(delays, seconds=150, rate=20, seed=2, sources=1)
    rows = pl.concat([near.with_columns(source=pl.lit("near")), moving.with_columns(source=pl.lit("moving"))])
    with logged(caplog):
        tracker = drop_ratio(0.01).tracker(TimeDomain.TIMESTAMP)
        run_by_source(tracker, rows, SECOND, WindowSpec(10 * SECOND, 10 * SECOND))
    changes = decisions(caplog, "delay_class.changed")
    moves = [(name, *move) for change in changes for name, move in change["sources"].items()]
    assert ("near", None) in [move[:2] for move in moves], "a new source leaves no class"
    left, joined = next(move[1:] for move in moves if move[0] == "moving" and move[1] is not None)
    assert joined > left >= 0


def test_pages_taken_together(caplog: pytest.LogCaptureFixture) -> None:
    queue, together, pages = Queue(), AdaptiveBatches(), ArrowPages()
    for n in range(5):
        queue.push(Entry(arrow_page(pl.DataFrame({"t": [n]}), n, 0, "t"), n))
    with logged(caplog):
        while len(queue):
            page, _ = together.take(queue, pages)
            pages.measure(page)
    found = decisions(caplog, "pages.together")
    assert found[0]["pages"] > 1 and found[0]["first"] > 0
    assert sum(d["pages"] for d in found) <= 4, "the first page goes alone, and is not logged"


def test_chains_are_logged_when_they_change(caplog: pytest.LogCaptureFixture) -> None:
    chain, plan = (
        Chain(),
        {"s": PathWork((), 0.0), "where": PathWork(("s",), 1.0, 0.2), "map": PathWork(("where",), 5.0)},
    )
    with logged(caplog):
        chain.learn(plan)
        chain.learn(plan)
        chain.learn({**plan, "where": PathWork(("s",), 1.0, 1.0)})
    first, second = decisions(caplog, "chains.changed")
    assert first == {"strategy": "chain", "chains": [("s", "where"), ("map",)]}
    assert second["chains"] != first["chains"]


def test_a_page_that_a_commit_saves(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
    executor = Executor(ManualClock(), journal, pages=ArrowPages())
    plan = arrow_plan(SAMPLE, 7, 3, disorder=bounded(5), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.admit(source_label("s"), arrow_page(frame([[1, "a"]]), 4, 0, "t"))
    with logged(caplog):
        executor.commit()
    assert [d["page"] for d in decisions(caplog, "page.saved")] == [4]


def test_a_sample_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ArrowBackend):
        def collect(
            self, page: Page, columns: Mapping[str, str] | None = None, limit: int | None = None
        ) -> Done[pa.Table]:
            raise ValueError("no sample")

    plan = arrow_plan(SAMPLE, 7, 7, where="i > 0", n="count(*)")
    script = Script(plan, strategy=Chain(), pages=ArrowPages(here=Broken()))
    with logged(caplog):
        script.executor.admit(source_label("s"), arrow_page(frame([[1, "a", None, None, 1]]), 0, 0, "t"))
        script.executor.run_until_idle()
    (failed,) = decisions(caplog, "sample.failed")
    assert failed["operator"] == "source:s" and str(failed["error"]) == "no sample"


def test_a_prod_that_cannot_be_answered(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(arrow_plan(SAMPLE, 7, 7, group_by=["g"], n="count(*)")).page(frame([[1, "a"]]))
    with logged(caplog):
        script.prod(where="nowhere = 1")
    (refused,) = decisions(caplog, "prod.refused")
    assert refused["operator"] == "q/window"


#: Errors of which a program cannot know the reason: any error, any of Spark's jobs, any of a file system.
BROAD = {"Exception", "BaseException", "Py4JJavaError", "PySparkException", "OSError"}


def broad(handler: ast.ExceptHandler) -> bool:
    kinds = [] if handler.type is None else [n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)]
    return not kinds or bool(BROAD & set(kinds))


def test_no_broad_handler_swallows_an_error() -> None:
    """One that catches everything raises, or makes something of the error: logs it, keeps it, hands it on."""
    silent = []
    for file in Path(slackwater.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and broad(node):
                inside = [inner for line in node.body for inner in ast.walk(line)]
                uses = node.name is not None and any(isinstance(n, ast.Name) and n.id == node.name for n in inside)
                logs = any(isinstance(n, ast.Name) and n.id == "_log" for n in inside)
                if not (uses or logs or any(isinstance(n, ast.Raise) for n in inside)):
                    silent.append(f"{file}:{node.lineno}")
    assert not silent
