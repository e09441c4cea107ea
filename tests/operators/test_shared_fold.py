"""A page that is folded once for many windows gives each what a fold of its own would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from slackwater.columns import PANE, ROWS
from slackwater.operators.backend import Done, Folded
from slackwater.operators.page import Page
from slackwater.operators.shared_fold import SharedFold
from slackwater.testing import ArrowPages, arrow_page, arrow_plan
from slackwater.testing.backend import ArrowBackend
from slackwater.windows.kernel import PaneKernel
from tests.kit.oracle import AGGREGATES
from tests.kit.streams import SAMPLE, WINDOWS, Stream, bounded_streams, frame

PLAIN = ["n", "total", "whole", "mean", "low", "high_s", "var", "begins", "ends"]


@st.composite
def kernels(draw: st.DrawFn) -> PaneKernel:
    names = draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3, unique=True))
    groups = draw(st.sampled_from([[], ["g"], ["g", "h"]]))
    offset = draw(st.sampled_from([None, 1, 5]))
    texts = {name: AGGREGATES[name][0] for name in names}
    return arrow_plan(SAMPLE, *draw(WINDOWS), offset=offset, group_by=groups, **texts).kernel


def assert_equal(mine: Folded, other: Folded, kernel: PaneKernel) -> None:
    for one, two in ((mine.partials, other.partials), (mine.counts, other.counts)):
        assert one.columns == two.columns
        keys = [c for c in (PANE, *kernel.keys) if c in one.columns]
        assert_frame_equal(one.sort(keys), two.sort(keys), abs_tol=1e-9)


@given(bounded_streams(), st.lists(kernels(), min_size=1, max_size=5), st.booleans())
def test_each_window_gets_what_a_fold_of_its_own_gives(
    stream: Stream, some: list[PaneKernel], one_leaves: bool
) -> None:
    shared = SharedFold()
    for kernel in some:
        shared.join(kernel)
    if one_leaves and len(some) > 1:
        shared.detach(some.pop())
    page, pages = arrow_page(stream.rows, 0, 0, "t"), ArrowPages()
    for kernel in some:
        assert_equal(shared.fold(pages, page, kernel), ArrowPages().fold(page, kernel), kernel)


def test_windows_over_the_same_groups_are_folded_once_in_panes_of_the_greatest_common_divisor() -> None:
    folded: list[PaneKernel] = []

    class Counted(ArrowBackend):
        def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
            folded.extend(kernels)
            return super().fold(page, kernels)

    shared, some = SharedFold(), []
    for window, text in (((20, 10), "count(*)"), ((30, 15), "sum(i)")):
        some.append(arrow_plan(SAMPLE, *window, group_by=["g"], a=text).kernel)
        shared.join(some[-1])
    pages = ArrowPages(here=Counted())
    page = arrow_page(frame([[3, "a", None, None, 2], [12, "a", None, None, 5]]), 0, 0, "t")
    first, second = (shared.fold(pages, page, kernel) for kernel in some)
    assert [kernel.spec.pane for kernel in folded] == [5]
    assert first.partials.select(PANE, ROWS).sort(PANE).rows() == [(0, 1), (1, 1)]
    assert second.partials.select(PANE, pl.exclude(PANE, ROWS, "g")).rows() == [(0, 7)]
