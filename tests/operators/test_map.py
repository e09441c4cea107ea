"""The map alone: what it sets aside, what comes next, and what time it passes on meanwhile (S5 section 6.2)."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.queue import Entry, Queue
from slackwater.operators.map import MapPages
from slackwater.operators.operator import MAIN, State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.testing import ArrowPages, arrow_page
from slackwater.windows.spec import WindowSpec
from tests.kit.bursts import query, watched
from tests.kit.streams import frame

SPANS = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda s: [s[0], s[0] + s[1]])
EVENTS = st.lists(
    st.one_of(
        SPANS,
        st.integers(0, 60).map(lambda t: Punctuation(Heartbeat(t))),
        st.integers(0, 8).map(lambda w: Prod(until=10 * w)),
        st.just("run"),
        st.just("lull"),
    ),
    max_size=30,
)


#: How far time has come behind each map.
TOLD: WeakKeyDictionary[MapPages, Punctuation] = WeakKeyDictionary()


def map_alone(ratio: int) -> tuple[MapPages, tuple[Queue, Queue]]:
    node = query(0, (10, 10)).inputs[0]
    operator = MapPages("map", node, [WindowSpec(10, 10)], sw.sideline(ratio))
    operator.pages = ArrowPages()
    return operator, (Queue(operator.pages), Queue(operator.pages))


def take(operator: MapPages, queues: tuple[Queue, Queue], event: Any, number: int = 0) -> list[Any]:
    """Do what an event says; gives what the map emits, and what time the engine then passes on."""
    out: list[Any] = []

    def emit(element: Any, port: str = MAIN) -> None:
        out.append(element)

    if event == "run" or event == "lull":
        if operator.has_work(queues) if event == "run" else operator.has_idle_work(queues):
            watched(operator, queues, emit)
            before = TOLD.get(operator, Punctuation.NONE)
            TOLD[operator] = before.joined(operator.output([queues[0].time]))
            out += [] if TOLD[operator] is before else [TOLD[operator]]
    else:
        if isinstance(event, list):
            event = arrow_page(frame([[t, "a"] for t in event]), number, 0, "t")
        queues[0].push(Entry(event, number))
    return out


@given(EVENTS, st.sampled_from([2, 4, 50]))
def test_nothing_is_promised_of_rows_that_are_set_aside_and_none_is_lost(events: list[Any], ratio: int) -> None:
    operator, queues = map_alone(ratio)
    out = [e for n, event in enumerate(events) for e in take(operator, queues, event, n)]
    while operator.has_work(queues) or operator.has_idle_work(queues):
        out += take(operator, queues, "run" if operator.has_work(queues) else "lull")
    given_in = sorted(n for n, event in enumerate(events) if isinstance(event, list))
    assert sorted(e.number for e in out if isinstance(e, Page)) == given_in
    times = [e for e in events if isinstance(e, Punctuation)]
    if times:
        told = [e.heartbeat for e in out if isinstance(e, Punctuation)]
        assert max(told) >= times[-1].heartbeat, "in the end all that was promised has been passed on"


def test_time_passes_between_and_behind_the_pages_that_are_set_aside() -> None:
    operator, queues = map_alone(50)
    script = [Prod(until=40), [3, 5], [24, 26], [45, 49], Punctuation(Heartbeat(48))]
    for number, event in enumerate([*script, *["run"] * 4]):
        take(operator, queues, event, number)
    assert take(operator, queues, "run") == [Punctuation(Heartbeat(2), ranges=((5, 23), (26, 48)))]
    first, said = take(operator, queues, "lull")
    assert (first.number, said) == (1, Punctuation(Heartbeat(23), ranges=((26, 48),)))
    last, said = take(operator, queues, "lull")
    assert (last.number, said) == (2, Punctuation(Heartbeat(48)))


@given(EVENTS, st.integers(0, 30), st.sampled_from([2, 4]))
def test_a_restored_map_goes_on_as_if_nothing_had_happened(events: list[Any], stop: int, ratio: int) -> None:
    (steady, one), (stopped, other) = map_alone(ratio), map_alone(ratio)
    for number, event in enumerate([*events, *["run"] * 10, *["lull"] * 10]):
        if number == stop:
            values = json.loads(json.dumps(stopped.state(True).values))
            stopped, _ = map_alone(ratio)
            TOLD[stopped] = TOLD.get(steady, Punctuation.NONE)
            stopped.restore([State(values)])
            assert stopped.metrics() == steady.metrics()
        expected, got = take(steady, one, event, number), take(stopped, other, event, number)
        assert [getattr(e, "number", e) for e in got] == [getattr(e, "number", e) for e in expected]


def test_a_prod_speaks_of_pages_that_it_overtakes() -> None:
    operator, queues = map_alone(50)
    for number, event in enumerate([[1, 2], [25, 26], Prod(until=10**9), "run", [27, 28], [31, 32], *["run"] * 4]):
        take(operator, queues, event, number)
    assert operator.metrics() == {"mapped_pages": 1, "sidelined_pages": 3, "sideline": 3}


def test_what_is_only_set_aside_is_not_expensive() -> None:
    operator, queues = map_alone(50)
    expected = [([3, 5], True), (Prod(until=10), False), ([4, 6], False), ([8, 12], True), ([13, 14], True)]
    for number, (event, expensive) in enumerate(expected):
        take(operator, queues, event, number)
        assert operator.expensive(queues) == expensive
        take(operator, queues, "run")
    assert operator.metrics() == {"mapped_pages": 3, "sidelined_pages": 1, "sideline": 1}
    assert operator.expensive(queues), "in a lull it is worked on"


def test_a_page_is_looked_at_a_few_times_however_many_are_set_aside() -> None:
    operator, queues = map_alone(4)
    count = 0

    def counted(pages: Pages, page: Page) -> Any:
        nonlocal count
        count += 1
        return measure(pages, page)

    events = [*[[3, 5]] * 200, Prod(until=10), *[[15, 15], Punctuation(Heartbeat(9))] * 200]
    measure = Pages.measure
    with mock.patch.object(Pages, "measure", counted):
        for number, event in enumerate(events):
            take(operator, queues, event, number)
        for _ in range(1000):
            take(operator, queues, "run" if queues[0] else "lull")
    assert operator.metrics() == {"mapped_pages": 400, "sidelined_pages": 200, "sideline": 0}
    assert count < 5 * len(events)


def test_heartbeats_of_sources_pass_while_nothing_is_set_aside() -> None:
    operator, queues = map_alone(4)
    by_source = SourceHeartbeats(["sensor 1", "sensor 2"], np.array([10, 20]), 5)
    take(operator, queues, Punctuation(Heartbeat(5), by_source))
    assert take(operator, queues, "run") == [Punctuation(Heartbeat(5), by_source)]
    assert "sensor" not in str(operator.state(True).values)
