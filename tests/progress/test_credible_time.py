"""What the reference makes of a silence: a night is no jump, an outage with rows held back is one."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pytest

from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, TrialOutcome, run
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.credible_time import PAGES, CredibleTime
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

SECOND = 1_000_000


def awake(reference: CredibleTime, begin: int, end: int) -> list[int | None]:
    """A page each tenth tick, with a row of its time; the reference behind each of them."""
    return [page(reference, at, [at]) for at in range(begin, end, 10)]


def page(reference: CredibleTime, at: int, times: Iterable[int]) -> int | None:
    spread = np.sort(np.array(list(times), dtype=np.float64))
    reference.pass_page(int(spread[-1]), len(spread), lambda: spread, at)
    return reference.time


def after_a_night() -> CredibleTime:
    """One that has seen a day, a night of 500 ticks and the morning."""
    reference = CredibleTime()
    awake(reference, 0, 200)
    awake(reference, 700, 900)
    return reference


def test_the_first_night_passes_for_a_jump() -> None:
    reference = CredibleTime()
    awake(reference, 0, 200)
    assert awake(reference, 700, 700 + 10 * PAGES) == [190, 190, 720]


def test_behind_the_second_night_the_first_row_is_believed_at_once() -> None:
    reference = after_a_night()
    assert page(reference, 1400, [1400]) == 1400
    assert reference.after_silence
    page(reference, 1410, [1410])
    assert not reference.after_silence


def test_a_time_further_ahead_than_the_night_was_long_is_not_believed() -> None:
    reference = after_a_night()
    assert page(reference, 1400, [2000]) == 890


def test_pages_that_come_in_bundles_do_not_make_the_night_longer() -> None:
    """Ten pages at once, each hundred ticks: from one to the next time goes on 10 ticks, and the clock 1 or 91."""
    reference = CredibleTime()
    for night in (0, 1000):
        for at in range(night, night + 400, 100):
            for n in range(10):
                page(reference, at + 91 + n, [at + 10 * n])
    assert reference.time == 1390
    assert page(reference, 2000, [4000]) == 1390
    assert page(reference, 2001, [1995]) == 1390 and not reference.after_silence, "the jump is not over yet"


def test_outages_that_follow_at_once_are_not_trusted_for_that() -> None:
    reference = after_a_night()
    assert page(reference, 1400, [1400]) == 1400, "trusted"
    page(reference, 1410, [1000, 1100, 1200, 1300])  # it was an outage
    assert page(reference, 2000, [2000]) == 1400


def test_a_late_row_in_the_evening_does_not_make_the_night_shorter() -> None:
    """It moves time a little, long after its own time; the night has begun by then."""
    reference = after_a_night()
    page(reference, 1000, [893])
    assert page(reference, 1400, [1400]) == 1400


def test_rows_that_were_held_back_make_it_an_outage() -> None:
    reference = after_a_night()
    assert page(reference, 1400, [1000, 1100, 1200, 1300, 1400]) == 890


def test_behind_an_outage_the_next_night_is_not_trusted_and_the_one_behind_it_is() -> None:
    reference = after_a_night()
    page(reference, 1400, [1000, 1100, 1200, 1300, 1400])
    awake(reference, 1410, 1600)
    assert awake(reference, 2100, 2130) == [1590, 1590, 2120]
    awake(reference, 2130, 2300)
    assert page(reference, 2800, [2800]) == 2800


def test_rows_that_are_as_old_as_the_evening_were_not_held_back() -> None:
    reference = after_a_night()
    assert page(reference, 1400, [880, 885, 890, 1400]) == 1400


@pytest.mark.parametrize("pages", [0, 1, 2, 3])
def test_a_restored_reference_goes_on_with_what_it_knows_of_silences(pages: int) -> None:
    whole, again = CredibleTime(), CredibleTime()
    awake(whole, 0, 200)
    awake(whole, 700, 700 + 10 * pages)
    again.restore(json.loads(json.dumps(whole.state())))
    for reference in (whole, again):
        awake(reference, 700 + 10 * pages, 900)
    assert page(again, 1400, [1400]) == page(whole, 1400, [1400]) == 1400


# --- drop_ratio behind a silence


def tried(delay: make.Delay, **options: tuple[float, float]) -> TrialOutcome:
    rows = make.arrivals(delay, seconds=600, seed=301, **options)  # type: ignore[arg-type]
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    case = Case.of(paged, WindowSpec(10 * SECOND, 10 * SECOND))
    return run(drop_ratio(0.01).tracker(TimeDomain.TIMESTAMP), case)


def test_windows_behind_the_second_gap_close_with_the_first_rows_behind_it() -> None:
    """Rows are made from 0 to 90, from 120 to 210, from 240 to 330 and so on; they come 2 seconds late."""
    outcome = tried(make.exponential(2), gaps=(120, 30))
    ats, beats = outcome.case.paged.ats, outcome.heartbeats[1:]

    def closed(end: int) -> int:
        """The second in which the windows up to an end close."""
        return int(ats[np.searchsorted(beats, end * SECOND - 1)] // SECOND)

    assert closed(100) == 122, "the first gap passes for a jump: three pages"
    assert [closed(end) for end in (220, 340, 460)] == [240, 360, 480]
    assert outcome.share <= 0.01
    assert outcome.worst(100) <= 0.0125


def test_outages_lose_no_more_than_before() -> None:
    outcome = tried(make.outages(make.exponential(1), 120, 20))
    assert outcome.share <= 0.01
    assert outcome.worst(100) <= 0.0125


def test_a_corrupt_number_behind_a_pause_is_not_believed() -> None:
    """Sequence numbers stand in a pause, however long it is."""
    tracker, dice = drop_ratio(0.01).tracker(TimeDomain.SEQUENCE), np.random.default_rng(5)
    number, at, lost, rows = 0, 0, 0, 0
    for place in range(600):
        times = number + np.arange(dice.lognormal(3, 1) + 1).astype(np.int64)
        number, at = int(times[-1]) + 1, at + SECOND
        if place % 100 == 99:
            at, times = at + 1800 * SECOND, np.append(times, number + 20_000)
        lost += int((times <= tracker.heartbeat.tick).sum())
        rows += len(times)
        tracker.admit(place)
        tracker.arrive(Arrival(len(times), 0, int(times.min()), int(times.max()), at, sketch=sketch_of(times)))
    assert lost <= 0.01 * rows


def test_a_large_number_that_is_rounded_up_carries_the_reference_beyond_no_row() -> None:
    """Sketches keep doubles: above 2 ** 53 these lie apart, at 2 ** 60 by 256."""
    reference, base = CredibleTime(), 2**60 + 129  # the next double is above it
    for page in range(20):
        reference.pass_page(base + page, rows=5)
    corrupt = np.array([base + 20] * 99 + [2**62 - 1], dtype=np.float64)
    reference.pass_page(2**62 - 1, 100, lambda: corrupt)
    assert reference.time is not None
    assert reference.time <= base + 20
