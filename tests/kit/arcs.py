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
def watched_arcs() -> Iterator[None]:
    """While this lasts, for streams in which nothing is late."""
    told: WeakKeyDictionary[Queue, Punctuation] = WeakKeyDictionary()
    push = Queue.push

    def checked(self: Queue, entry: Entry) -> None:
        before = told.get(self, self.time)
        if isinstance(entry.element, Punctuation):
            assert entry.element.heartbeat >= before.heartbeat, "a heartbeat went back"
            told[self] = before.joined(entry.element)
        elif isinstance(entry.element, Page):
            # Without `drop_nulls`, which would be a query of polars: every seventh of all in a random test.
            for tick in filter(lambda t: t is not None, self._pages.here.frame(entry.element)[TIME].to_list()):
                assert tick > before.heartbeat.tick, "a row behind the heartbeat of its arc"
                assert not any(after < tick <= until for after, until in before.ranges)
        push(self, entry)

    with mock.patch.object(Queue, "push", checked):
        yield
