"""S3 section 3.2: Backtrack runs what waits on the branch that blocks before anything else."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.testing import ListSink, arrow_page
from slackwater.testing.pages import ArrowPages
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, C, plan, union, where, windows

#: Pages of stream a that wait before the one of stream b comes.
PAGES = 40


def ran(query: Any, *pages: tuple[str, list[int]], ordered: bool = False, other: Any = None) -> list[str]:
    """Labels in the order of runs, if all pages wait from the beginning."""
    executor = Executor(ManualClock(), pages=ArrowPages(), settings=EngineSettings(sw.fifo()))
    policies = dict.fromkeys("abc", bounded(0))
    sink = ListSink()
    add_query(executor, "q", plan(query, policies), sink, QuerySettings(ordered=ordered))
    if other is not None:
        add_query(executor, "other", plan(other, policies), ListSink())
    labels: list[str] = []
    executor._cycle.on_ran = lambda run: labels.append(run.node)
    for number, (stream, times) in enumerate(pages):
        page = arrow_page(frame([[t, "x", 0, 0.0, 1, ""] for t in times]), number, 0, "t")
        executor.admit(f"source:{stream}", page)
    executor.run_until_idle()
    return labels


def first_output(labels: list[str]) -> int:
    """How many pages of stream a had been let in before the sink had rows."""
    return labels[: labels.index("q/sink")].count("source:a")


FAST = [("a", [10 * n]) for n in range(1, PAGES + 1)]


ORDERED = where(union(A, B), "true")


@pytest.mark.parametrize(
    ("query", "ordered"),
    [(ORDERED, True), (windows(union(A, B), 10, 10, n="count(*)"), False)],
    ids=["ordered sink", "window"],
)
def test_s3_3_2_data_that_waits_on_the_blocking_branch_run_first(query: Any, ordered: bool) -> None:
    labels = ran(query, *FAST, ("b", [1_000]), ordered=ordered)
    assert 1 <= first_output(labels) <= 3
    assert labels.count("source:a") == PAGES


def test_s3_3_2_streams_that_nobody_waits_for_keep_their_turn() -> None:
    labels = ran(ORDERED, ("c", [1]), *FAST, ("b", [1_000]), ordered=True, other=where(C, "true"))
    assert labels[0] == "source:c"


def test_s3_3_2_where_nothing_waits_on_the_branch_the_order_is_that_of_arrival() -> None:
    pages = [("b", [1]), ("a", [10]), ("c", [5]), ("a", [20])]
    labels = ran(ORDERED, *pages, ordered=True, other=where(C, "true"))
    assert [label for label in labels if label.startswith("source")] == [f"source:{name}" for name, _ in pages]
