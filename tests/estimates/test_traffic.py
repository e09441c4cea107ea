"""Rows of all groups tell what is to come: a silence that begins, and one that ends."""

from __future__ import annotations

import numpy as np

from slackwater.estimates.completeness import Curve, Floats
from slackwater.estimates.group_history import LONG, LONG_SEEN, OFF, VARIED
from slackwater.estimates.traffic import Pace, Traffic


def usual_stream() -> Traffic:
    """500 rows a window, 100 of them in its last slide, as they come by chance."""
    traffic, rng = Traffic(), np.random.default_rng(2)
    for lately in rng.poisson(100, 80).tolist():
        traffic.learn(np.array([400.0 + lately, lately]), 0.99)
    return traffic


def groups(*rows: float) -> Floats:
    """Histories of groups that usually have so many rows and vary by chance."""
    own = np.zeros((len(rows), OFF))
    own[:, LONG], own[:, LONG_SEEN], own[:, VARIED] = 80, 80 * np.array(rows), 80 * np.sqrt(rows)
    return own


def pace(rows: float, everybody: float, lately: float, usual: float = 500.0) -> Pace:
    return usual_stream().pace(np.array([rows]), groups(usual), np.array([[everybody, lately]]))


def test_a_silence_that_begins_stops_the_rest() -> None:
    found = pace(400, 400, 0)
    assert found.known and found.share == 0 and not found.alike and not found.usual


def test_after_a_silence_the_usual_rest_comes_though_the_window_is_unlike_others() -> None:
    found = pace(100, 100, 100)
    assert found.known and found.alike and not found.usual
    assert 0.9 < found.share[0] < 1.1


def test_a_window_like_the_others_goes_by_the_usual() -> None:
    found = pace(505, 505, 95)
    assert found.known and found.alike and found.usual


def test_a_group_that_is_unlike_all_others_is_not_judged_by_them() -> None:
    found = pace(5, 500, 100, usual=100)
    assert not found.known and found.share == 1 and not found.alike


def test_nothing_is_said_before_windows_are_known_or_where_rows_are_not() -> None:
    assert not Traffic().pace(np.array([5.0]), groups(500), np.array([[5.0, 5.0]])).known
    assert not pace(500, np.nan, 100).known


def test_rows_of_a_window_are_known_while_it_is_followed() -> None:
    curve = Curve(range=20, slide=10)
    assert np.isnan(curve.rows(39))
    curve.page(25, np.array([19, 29]), np.array([3, 2]))
    curve.page(36, np.array([39, 49]), np.array([4, 4]))
    curve.page(38, np.array([39]), np.array([1]))
    assert np.isnan(curve.rows(19)) and curve.rows(39) == 5 and curve.rows(59) == 0
    curve.close(39)
    assert np.isnan(curve.rows(39))
