"""Rows of all groups tell what is to come: a silence that begins, and one that ends."""

from __future__ import annotations

import numpy as np

from slackwater.estimates.completeness import Curve
from slackwater.estimates.group_history import LONG, LONG_SEEN, OFF, VARIED
from slackwater.estimates.traffic import AS_USUAL, BY_PACE, BY_SEEN, AfterChanges, Pace, Traffic
from slackwater.progress.source_numbers import Floats


def usual_stream() -> Traffic:
    """500 rows a window, 100 of them in its last slide, as they come by chance."""
    traffic, rng = Traffic(), np.random.default_rng(2)
    for lately in rng.poisson(100, 80).tolist():
        traffic.learn(np.array([400.0 + lately, lately, 400.0, 0.0]), 0.99)
    return traffic


def groups(*rows: float) -> Floats:
    """Histories of groups that usually have so many rows and vary by chance."""
    own = np.zeros((len(rows), OFF))
    own[:, LONG], own[:, LONG_SEEN], own[:, VARIED] = 80, 80 * np.array(rows), 80 * np.sqrt(rows)
    return own


def pace(rows: float, everybody: float, lately: float, usual: float = 500.0, of_before: float = 0.0) -> Pace:
    figures = np.array([[everybody, lately, everybody - lately, of_before]])
    return usual_stream().pace(np.array([rows]), groups(usual), figures)


def test_a_silence_that_begins_stops_the_rest() -> None:
    found = pace(400, 400, 0)
    assert found.known and found.share == 0 and not found.alike and not found.usual


def test_rows_of_before_a_silence_are_still_on_their_way() -> None:
    """Two fifths of the rest are usually rows of the slides before the last one: a silence does not stop those."""
    begins = pace(400, 400, 0, of_before=0.4)
    assert not begins.usual and 0.39 < begins.share[0] < 0.41
    ends = pace(100, 100, 100, of_before=0.4)
    assert not ends.usual and 0.55 < ends.share[0] < 0.65


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
    assert not Traffic().pace(np.array([5.0]), groups(500), np.array([[5.0, 5.0, 0.0, 0.0]])).known
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


def test_the_rows_of_a_slide_are_known_from_those_of_windows() -> None:
    """Of each slide three quarters come within it, a quarter within the slide after it."""
    curve = Curve(range=20, slide=10)
    for end in range(10, 200, 10):
        # Each row is in two windows: ten are of the slide before, thirty of this one.
        curve.page(end, np.array([end - 11, end - 1, end + 9]), np.array([10, 40, 30]))
        curve.close(end - 11)
    early, late = curve.of_slide(0.0), curve.of_slide(1.0)
    assert 0.7 < early < 0.8 and late == 1.0


def test_windows_that_were_right_as_usual_are_taken_for_usual_again() -> None:
    """Where delays change, and not the rate, the last slide has few rows though as many as ever will come."""
    changes = AfterChanges(2)
    assert changes.best(0) == changes.best(1) == BY_PACE
    changes.learn(np.array([[[5.0, 6.0, 1.0], [1.0, 6.0, 5.0]], [[5.0, 6.0, 1.0], [1.0, np.nan, 9.0]]]))
    assert changes.best(0) == AS_USUAL and changes.best(1) == BY_PACE
    for _ in range(9):
        changes.learn(np.array([[[5.0, 2.0, 7.0], [1.0, 6.0, 5.0]]]))
    assert changes.best(0) == BY_SEEN


def test_slides_that_vary_as_much_as_ever_are_calm() -> None:
    """S5's generator: 100 rows a slide, 44 more or less. 160 are no reason to expect more than usual."""
    traffic, rng = Traffic(), np.random.default_rng(3)
    for lately in rng.normal(100, 44, 80).clip(min=0).tolist():
        traffic.learn(np.array([400.0 + lately, lately, 400.0, 0.0]), 0.99)
    own = groups(500)
    own[:, VARIED] *= 4
    assert traffic.pace(np.array([560.0]), own, np.array([[560.0, 160.0, 400.0, 0.0]])).alike
    assert not traffic.pace(np.array([1000.0]), own, np.array([[1000.0, 600.0, 400.0, 0.0]])).alike
