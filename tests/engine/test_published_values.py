"""What the executor's thread publishes never changes afterwards: other threads go through it while work goes on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater.engine.records import Snapshot
from slackwater.progress.disorder import Disorder
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

POLICIES: list[tuple[Disorder, str | None]] = [
    (sw.bounded(2), None),
    (sw.drop_ratio(0.05), None),
    (sw.drop_ratio(0.05), "g"),
    (sw.learned(window=4), None),
    (sw.learned(window=4), "g"),
    (sw.punctuated("i"), "g"),
    (sw.skew({("a", "b"): ("0 seconds", 3)}, timeout="3 seconds"), "g"),
    (sw.papers.disorder_control(0.05), None),
]


def rows(begin: int) -> pl.DataFrame:
    """Rows of two sources, some of them late."""
    return frame(
        [(begin + (n * 7) % 11 - (5 if n % 6 == 0 else 0), "ab"[n % 2], n, None, begin - 8) for n in range(12)]
    )


def watched(script: Script, pages: int = 12) -> list[tuple[Snapshot, dict[str, Any]]]:
    """What is published after each page, beside a copy that was made at once."""
    published: list[tuple[Snapshot, dict[str, Any]]] = []
    for n in range(pages):
        script.page(rows(10 * n), at=n)
        if n % 3 == 2:
            script.prod()
        snapshot = script.executor.snapshot()
        published.append((snapshot, deepcopy(dict(snapshot.operators))))
    return published


def changed(published: Sequence[tuple[Snapshot, dict[str, Any]]]) -> list[tuple[str, str]]:
    """The operators and figures that are not what they were when they were published."""
    return [
        (label, name)
        for snapshot, copy in published
        for label, figures in copy.items()
        for name, value in figures.items()
        if repr(snapshot.operators[label][name]) != repr(value)
    ]


@pytest.mark.parametrize(("policy", "source"), POLICIES, ids=lambda of: str(getattr(of, "describe", lambda: of)()))
@pytest.mark.parametrize("window", [(10, 5), (10, None)], ids=["sliding", "rolling"])
def test_figures_stay_as_they_were_published(
    policy: Disorder, source: str | None, window: tuple[int, int | None]
) -> None:
    plan = arrow_plan(SAMPLE, *window, group_by=["g"], disorder=policy, source=source, n="count(*)", s="sum(h)")
    early = None if window[1] is None else sw.early(at=0.5)
    script = Script(plan, early=early, late=ListSink(), batch_pages=True)
    published = watched(script)
    script.drain()
    assert script.results
    assert changed(published) == []


def test_a_figure_that_changes_is_found() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 5, group_by=["g"], n="count(*)"))
    published = watched(script, pages=2)
    figures: Any = published[0][0].operators["source:s"]
    figures["policies"]["main"] = {"slack": 7}
    assert ("source:s", "policies") in changed(published)
