"""Watches every arc of a graph: heartbeats never go back, and no page comes behind one that forbids it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock
from weakref import WeakKeyDictionary

from slackwater.columns import TIME
from slackwater.engine.queue import Entry, Queue
from slackwater.operators.page import Page
from slackwater.progress.punctuation import Punctuation


@contextmanager
def watched_arcs(late: bool = False) -> Iterator[None]:
    """While this lasts. Where rows may be `late`, only that heartbeats do not go back.

    The error is raised again at the end: the engine may have taken it for one of a query.
    """
    wrong: list[str] = []

    def demand(right: bool, what: str) -> None:
        if not right:
            wrong.append(what)
            raise AssertionError(what)

    told: WeakKeyDictionary[Queue, Punctuation] = WeakKeyDictionary()
    push = Queue.push

    def checked(self: Queue, entry: Entry) -> None:
        # What an idle arc was lifted to, it has not said: it may go on from less, and its rows are late then.
        before = told.get(self, Punctuation.NONE if late else self.time)
        if isinstance(entry.element, Punctuation):
            demand(entry.element.heartbeat >= before.heartbeat, "a heartbeat went back")
            told[self] = before.joined(entry.element)
        elif isinstance(entry.element, Page) and not late:
            # Without `drop_nulls`, which would be a query of polars: every seventh of all in a random test.
            for tick in filter(lambda t: t is not None, self._pages.here.frame(entry.element)[TIME].to_list()):
                demand(tick > before.heartbeat.tick, "a row behind the heartbeat of its arc")
                skipped = any(after < tick <= until for after, until in before.ranges)
                demand(not skipped, "a row in a range that was said to be over")
        push(self, entry)

    with mock.patch.object(Queue, "push", checked):
        yield
    assert not wrong, wrong[0]
