"""What a slack loses, and what may still be lost: the parts of drop_ratio."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.lab.trial import Case, Paged, fixed, required
from slackwater.progress.drop_ratio.cells import LateRows
from slackwater.progress.drop_ratio.loss_curve import LossCurve
from slackwater.progress.drop_ratio.query_losses import QueryLosses, mean_within
from slackwater.progress.window_losses import WindowLosses
from slackwater.windows.spec import WindowSpec
from tests.kit import streams  # noqa: F401  (the profile of all random tests)


@given(st.lists(st.tuples(st.integers(-20, 60), st.integers(1, 9)), min_size=1, max_size=40), st.integers(0, 60))
def test_the_slack_is_the_least_that_loses_the_share_where_reports_alone_count(
    pairs: list[tuple[int, int]], slack: int
) -> None:
    """Against brute force: what a fixed bound loses is told by the pairs' needs."""
    times = np.array([t for t, n in pairs for _ in range(n)], dtype=np.int64)
    tried_case = Case.of(Paged.counted(np.arange(len(times)), times, 3), WindowSpec(7, 3))
    _, needs, counts = required(tried_case)
    highest, lost = None, 0
    for k in range(len(tried_case.paged)):
        heartbeat = -(2**63) if highest is None else highest - slack - 1
        lost += tried_case.report(k, heartbeat).lost
        rows = tried_case.paged.page(k)
        highest = int(rows.max()) if highest is None else max(highest, int(rows.max()))
    assert lost == counts[needs > slack].sum() == fixed(tried_case, slack).lost.sum()


@given(st.floats(0, 1e6), st.floats(1, 50), st.floats(0, 4))
def test_the_reserve_is_so_many_standard_deviations(budget: float, dispersion: float, z: float) -> None:
    mean = float(mean_within(budget, dispersion, z))
    assert 0 <= mean <= budget * (1 + 1e-9) + 1e-6
    assert mean + z * np.sqrt(dispersion * mean) == pytest.approx(budget, rel=1e-5, abs=1e-3)


def test_rows_that_lie_within_a_window_are_lost_to_it_only_at_its_end() -> None:
    """Windows of 1,000 and rows 10 behind: one in a hundred rows meets an end, so half of a percent needs 5."""
    values, weights = np.full((50, 2), -np.inf), np.zeros((50, 2))
    values[:, 0], weights[:, 0] = 10, 1000
    late, pairs = LateRows.of(values, weights), np.full(50, 1000.0)
    curve = LossCurve(late, weights.sum(1), np.full(50, np.inf), pairs, 1000)
    assert curve.slack(0.02) == 0
    assert curve.slack(0.005) == 10


def test_what_was_lost_in_the_stretch_or_in_all_is_taken_off_what_may_be_lost() -> None:
    """100 pages of 100 pairs, of which one in a hundred may be lost; some were lost at first, or in the middle."""
    shares = []
    for page, lost in ((0, 0), (50, 60), (50, 90), (50, 150), (0, 150)):
        query = QueryLosses(0)
        for k in range(100):
            query.hear(WindowLosses("q", k, np.array([k]), np.array([100]), lost if k == page else 0))
            query.arrive(k)
        shares.append(query.budget(0.01, np.arange(1, 101), 100, 100, dispersion=1.0))
        assert query.remaining(0.01, 100) == pytest.approx(0.94 * 0.01 - lost / 10_000)
    assert 0.01 > shares[0] > shares[1] > shares[2] > 0 == shares[3] == shares[4]
