"""What every disorder policy must do, whatever it promises: one list of policies, one set of checks for all.

To have a policy checked, add it to `POLICIES`. `tests/progress/test_policies.py` runs every check on each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import datasketches
import numpy as np
from hypothesis import strategies as st

from slackwater.papers.disorder_control import disorder_control
from slackwater.papers.global_counter import global_counter
from slackwater.papers.max_delay import max_delay
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.bounds.skew import Pair, SkewMatrix, TuplePair
from slackwater.progress.bounds.skew_policy import skew, tuples
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.learned.learned import learned
from slackwater.progress.result_error.result_error import result_error
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.progress.window_losses import WindowLosses
from tests.kit.emissions import World

#: What a policy's description may be made of.
WORDS = {
    "bounded": bounded,
    "skew": skew,
    "tuples": tuples,
    "sensors": sensors,
    "global_counter": global_counter,
    "Pair": Pair,
    "TuplePair": TuplePair,
    "learned": learned,
    "disorder_control": disorder_control,
    "drop_ratio": drop_ratio,
    "result_error": result_error,
    "max_delay": max_delay,
    "punctuated": punctuated,
    "Fraction": Fraction,
}
MATRIX = SkewMatrix([[(0, 1), (2, 5)], [None, TuplePair(3, 1)]], latency=[0, 2], names=["a", "b"])

#: By a short name: how to write the policy, for a stream of whole numbers with sources "a", "b" and "c".
POLICIES: dict[str, Callable[[], Disorder]] = {
    "bounded": lambda: bounded(5),
    "bounded with timeout": lambda: bounded(5, timeout="20 us"),
    "bounded while idle": lambda: bounded("5 us", idle="15 us"),
    "bounded while idle, with timeout": lambda: bounded("2 us", idle="9 us", timeout="12 us"),
    "skew of one stream": lambda: skew([[[(0, 4), (3, 0)]]], latency=2),
    "skew by names": lambda: skew(
        {("a", "b"): (2, 5), ("b", "a"): [(0, 9), (4, 1)], ("a", "a"): (0, 1)}, timeout=20
    ),
    "skew as a matrix": lambda: skew([[(0, 0), None], [(3, 2), (0, 2)]], sources=["b", "a"], timeout=15, latency=3),
    "skew by tuples": lambda: skew([[[tuples(0, 1), tuples(3, 0)]]], timeout=30),
    "skew, ready made": lambda: skew(MATRIX, timeout=9, unit=2),
    "skew over a network that keeps order": lambda: skew(
        {("a", "b"): [(2, 5), tuples(2, 1)], ("a", "a"): (0, 1), ("b", "b"): tuples(2, 0)},
        latency=4,
        timeout=30,
        ordered=True,
    ),
    "sensors over a network that keeps order": lambda: sensors(3, timeout=25, latency=4, ordered=True),
    "global counter over a network that keeps order": lambda: global_counter((1, 8), latency=3, ordered=True),
    "skew without indirect guarantees": lambda: skew(
        {("a", "b"): (1, 1)}, timeout=9, indirect=False, sources="abc"
    ),
    "skew in groups": lambda: skew(
        {(x, y): (1, 3) for x in "abc" for y in "abc"}, timeout=9, groups={"g": ["a", "c"], "h": ["b"]}
    ),
    "skew in chosen groups": lambda: skew({(x, y): (1, 3) for x in "abc" for y in "abc"}, timeout=9, groups=2),
    "sensors": lambda: sensors(3, timeout=25),
    "sensors with a rate": lambda: sensors(3, rate=0.5, latency=4, ties=True),
    "sensors by names": lambda: sensors({"a": 1, "b": 6}, rate={"a": 1, "b": (3, 2)}, latency={"a": 3, "b": 0}),
    "sensors in groups": lambda: sensors(2, timeout=20, groups={"g": ["a", "c"], "h": ["b"]}),
    "sensors in chosen groups": lambda: sensors({"a": 1, "b": 6, "c": 7}, rate=1, groups=2),
    "sensors in one group": lambda: sensors(2, latency=3, rate=1, groups=8),
    "global counter": lambda: global_counter((1, 8), latency=2),
    "global counter, counted": lambda: global_counter((1, 8), latency=2, counted=True, unit=3),
    "global counter by names": lambda: global_counter({"a": (1, 4), "b": (2, 9)}, latency=3, timeout="1 minute"),
    "learned": lambda: learned(),
    "learned by tuples": lambda: learned(window=9, alpha=0.25, tmax="20 us", unit="4 us", timeout="30 us"),
    "learned, adaptive": lambda: learned(window="12 us", tmax="0 us", unit="1 us", adaptive=True, initial=4),
    "learned in groups": lambda: learned(window=None, unit="2 us", tmax="6 us", groups=3, timeout=None),
    "disorder control": lambda: disorder_control(),
    "disorder control with a ratio": lambda: disorder_control("5%", every="9 us", timeout="40 us"),
    "drop ratio": lambda: drop_ratio("10%"),
    "drop ratio by time": lambda: drop_ratio(0.2, stretch="60 us", timeout="40 us"),
    "drop ratio while idle": lambda: drop_ratio("10%", idle="9 us"),
    "result error": lambda: result_error("10%"),
    "result error with a timeout": lambda: result_error(0.3, windows="80%", timeout="40 us"),
    "result error while idle": lambda: result_error("10%", windows=0.5, idle="9 us"),
    "disorder control while idle": lambda: disorder_control(idle="9 us", timeout="12 us"),
    "max delay while idle": lambda: max_delay(idle="9 us"),
    "learned while idle": lambda: learned(window=9, tmax="20 us", unit="4 us", timeout=None, idle="8 us"),
    "skew while idle": lambda: skew({("a", "b"): (1, "4 us")}, latency=1, idle="9 us"),
    "sensors while idle": lambda: sensors("3 us", idle="15 us"),
    "punctuated": lambda: punctuated("upto"),
    "punctuated with timeout": lambda: punctuated("upto", timeout="20 us"),
    "punctuated, one for all": lambda: punctuated("upto", everyone="a"),
}


def tracker_of(policy: Disorder) -> Tracker:
    """A fresh tracker; those that go on with the clock are for timestamps."""
    return policy.tracker(TimeDomain.SEQUENCE if getattr(policy, "idle", None) is None else TimeDomain.TIMESTAMP)


# --- pages


def page(at: int, stamps: dict[str, list[int]], missing: int = 0, needs: frozenset[str] = frozenset()) -> Arrival:
    """A page by source; the source named "" stands for a stream that has no source column."""
    every = [t for of_one in stamps.values() for t in of_one]
    sources = None
    if "" not in stamps:
        rows, lows, tops = ([f(of_one) for of_one in stamps.values()] for f in (len, min, max))
        sources = SourceArrivals(list(stamps), *(np.array(c, dtype=np.int64) for c in (rows, lows, tops)))
    sketch = None
    if "sketch" in needs:
        kll = datasketches.kll_doubles_sketch(200)
        for t in every:
            kll.update(t)
        sketch = kll.serialize()
    ends = (min(every), max(every)) if every else (None, None)
    return Arrival(len(every) + missing, missing, *ends, at=at, total=sum(every), sketch=sketch, sources=sources)


@dataclass(frozen=True)
class Happening:
    """A page (None: only the clock moves) and the instant of it."""

    at: int
    stamps: dict[str, list[int]] | None
    missing: int = 0


@st.composite
def happenings(draw: st.DrawFn, most: int = 14) -> list[Happening]:
    """Pages, empty ones too, and ticks of the clock, at instants that do not go back; some sources are strange."""
    named = draw(st.booleans())
    one = st.lists(st.integers(0, 12), min_size=1, max_size=3)
    stamps = st.dictionaries(st.sampled_from(["a", "b", "c", "stranger"] if named else [""]), one, max_size=4)
    now, found = draw(st.integers(-5, 5)), []
    for _ in range(draw(st.integers(0, most))):
        now += draw(st.integers(0, 12))
        came = draw(st.one_of(st.none(), stamps))
        later = None if came is None else {name: [t + now for t in of_one] for name, of_one in came.items()}
        found.append(Happening(now, later, draw(st.integers(0, 1))))
    return found


def happen(tracker: Tracker, number: int, event: Happening, needs: frozenset[str]) -> None:
    """All that a stream does with a page: admit, arrive, hear of what a query lost, tick."""
    if event.stamps is not None:
        every = np.array(sorted(t for of_one in event.stamps.values() for t in of_one), dtype=np.int64)
        tracker.admit(number)
        lost = int((every <= tracker.heartbeat.tick).sum())
        tracker.arrive(page(event.at, event.stamps, event.missing, needs))
        tracker.hear(WindowLosses("q", number, *np.unique(every, return_counts=True), lost))
    tracker.tick(event.at)


def beats(tracker: Tracker) -> dict[str, int]:
    """All heartbeats; those of the stream and of sources without a name under names that no source has."""
    found = {"(stream)": tracker.heartbeat.tick}
    sources = tracker.by_source()
    if sources is not None:
        assert len(sources.names) == len(sources.ticks)
        found |= dict(zip(sources.names, sources.ticks.tolist(), strict=True))
        found["(others)"] = sources.others
    return found


def play_pages(tracker: Tracker, world: World, beyond: int = 0) -> Iterator[int]:
    """A page for each instant at which something arrives; yields the instants, when heartbeats can be read."""
    for now in range(world.end + beyond + 1):
        came = {str(source): stamps for source, stamps in world.arrivals(now).items()}
        if came:
            tracker.arrive(page(now, came))
        tracker.tick(now)
        yield now


def of(tracker: Tracker, source: int | str) -> int:
    """The heartbeat of one source, seen or not."""
    found = beats(tracker)
    return found.get(str(source), found["(others)"])


# --- states


def kept(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a journal: arrays as arrays, all else through JSON."""
    arrays = {name: value.copy() for name, value in state.items() if isinstance(value, np.ndarray)}
    assert {a.dtype.name for a in arrays.values()} <= {"int64", "float64"}
    return json.loads(json.dumps({k: v for k, v in state.items() if k not in arrays})) | arrays


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state that compares by content."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in state.items()}


# --- the checks


def check_a_fresh_tracker_promises_nothing(policy: Disorder, now: int) -> None:
    tracker = tracker_of(policy)
    for _ in range(2):
        assert tracker.heartbeat == Heartbeat.NONE
        assert set(beats(tracker).values()) == {MIN_TICK}
        assert tracker.wake_at() is None
        tracker.tick(now)
        tracker.arrive(page(now, {"": []}, missing=2, needs=policy.needs))


def check_heartbeats_never_go_back(policy: Disorder, events: list[Happening]) -> None:
    tracker = tracker_of(policy)
    last = beats(tracker)
    for number, event in enumerate(events):
        happen(tracker, number, event, policy.needs)
        here = beats(tracker)
        for name, beat in here.items():
            # A source that is new may begin below the stream, which does not go back for it.
            assert beat >= last.get(name, last.get("(others)", MIN_TICK))
        assert last.keys() - {"(others)"} <= here.keys() or "(others)" not in here
        last = here


def check_a_restored_tracker_continues_identically(policy: Disorder, events: list[Happening], at: int) -> None:
    tracker, other = tracker_of(policy), tracker_of(policy)
    for number, event in enumerate(events):
        if number == at:
            other.restore(kept(tracker.state()))
        happen(tracker, number, event, policy.needs)
        if number >= at:
            happen(other, number, event, policy.needs)
            assert beats(other) == beats(tracker)
            assert other.wake_at() == tracker.wake_at()
            assert other.metrics() == tracker.metrics()
            assert plain(other.state()) == plain(tracker.state())


def check_a_state_does_not_change_afterwards(policy: Disorder, events: list[Happening]) -> None:
    tracker = tracker_of(policy)
    for number, event in enumerate(events):
        state = tracker.state()
        before = json.dumps(plain(state))
        happen(tracker, number, event, policy.needs)
        assert json.dumps(plain(state)) == before


def check_the_clock_alone_moves_nothing_before_wake_at(policy: Disorder, events: list[Happening]) -> None:
    tracker = tracker_of(policy)
    for number, event in enumerate(events):
        happen(tracker, number, event, policy.needs)
        before, wake = beats(tracker), tracker.wake_at()
        if tracker.goes_on:
            wakes = (wake, tracker.reaches(tracker.heartbeat.tick + 1))
            wake = min((at for at in wakes if at is not None), default=None)
        assert wake is None or wake > event.at
        following = events[number + 1].at if number + 1 < len(events) else event.at + 1_000
        until = following if wake is None else min(wake - 1, following)
        tracker.tick(until)
        assert beats(tracker) == before


def check_a_row_without_a_time_puts_the_timeout_off(policy: Any) -> None:
    """S1 section 3.4: a timeout counts from the last tuple that arrives, whatever is known of it."""
    timeout, stamps = policy.timeout, {"a" if policy.needs_sources else "": [70]}
    tracker, patient = tracker_of(policy), tracker_of(replace(policy, timeout=1_000 * timeout))
    for each in (tracker, patient):
        each.arrive(page(0, stamps, needs=policy.needs))
        each.arrive(page(timeout - 1, {"": []} if "" in stamps else {}, missing=1, needs=policy.needs))
        each.arrive(page(timeout, {"": []} if "" in stamps else {}, needs=policy.needs))
        each.tick(2 * timeout - 2)
    assert beats(tracker) == beats(patient)
    tracker.tick(2 * timeout - 1)
    assert tracker.heartbeat.tick >= 70


def check_a_policy_is_a_value(write: Callable[[], Disorder], others: list[Disorder]) -> None:
    policy, again = write(), write()
    assert policy == again
    assert hash(policy) == hash(again)
    assert policy.describe() == again.describe()
    assert "\n" not in policy.describe()
    assert policy.needs <= {"total", "sketch"}
    assert all(policy != other for other in others)


def check_a_policy_describes_itself_as_it_can_be_written_again(policy: Disorder) -> None:
    assert eval(policy.describe(), dict(WORDS)) == policy


def check_metrics_are_figures(policy: Disorder, events: list[Happening]) -> None:
    tracker = tracker_of(policy)
    for number, event in enumerate(events):
        happen(tracker, number, event, policy.needs)
        json.dumps(tracker.metrics())
