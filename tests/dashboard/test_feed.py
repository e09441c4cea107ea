"""The feed without a server: who is told what, and what it waits for. Limits of time are set so that none ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any

import pytest

from slackwater.dashboard import feed as feeds
from slackwater.dashboard.feed import Feed
from slackwater.engine.records import History, Snapshot

PATIENCE = 20.0
HOUR = 3600.0


class Sections:
    """Stands for a board: what a look finds."""

    def __init__(self) -> None:
        self.history = History()
        self.found = {"graph": b'"g"', "queries": b"0"}

    def sections(self, whole: bool) -> dict[str, bytes]:
        return dict(self.found)

    def publish(self, **found: bytes) -> None:
        """As the executor's thread does."""
        self.found |= found
        self.history.publish(Snapshot(0, {}))


def with_feed(act: Callable[[Feed, Sections], Awaitable[None]]) -> None:
    """Run a feed, and do something with it."""

    async def run() -> None:
        sections = Sections()
        with ThreadPoolExecutor(1) as pool:
            feed = Feed(sections, sections.history, pool)  # type: ignore[arg-type]
            running = asyncio.create_task(feed.run())
            async with asyncio.timeout(PATIENCE):
                await act(feed, sections)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(run())


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once, and only because something was published."""
    for name, value in {"EVERY": 0.0, "_SHARE": 1e9, "_AT_LEAST": HOUR, "_ALIVE": HOUR}.items():
        monkeypatch.setattr(feeds, name, value)


async def first(events: AsyncIterator[bytes]) -> bytes:
    """What a reader gets behind the words of greeting."""
    assert await anext(events) == b"retry: 1000\n\n"
    return await anext(events)


def test_a_snapshot_wakes_the_feed_and_only_what_has_changed_is_told() -> None:
    async def act(feed: Feed, sections: Sections) -> None:
        async with aclosing(feed.follow()) as events:
            assert await first(events) == b'event: graph\ndata: "g"\n\nevent: queries\ndata: 0\n\n'
            for n in range(1, 4):
                await asyncio.to_thread(sections.publish, queries=b"%d" % n)
                assert await anext(events) == f"event: queries\ndata: {n}\n\n".encode()
            assert feed.looks == 4, "one for each snapshot, and none between"

    with_feed(act)


def test_all_readers_are_told_by_the_same_bytes() -> None:
    async def act(feed: Feed, sections: Sections) -> None:
        async with aclosing(feed.follow()) as one, aclosing(feed.follow()) as other:
            assert await first(one) == await first(other)
            sections.publish(queries=b"1")
            assert await anext(one) is await anext(other)

    with_feed(act)


def test_a_reader_that_is_slow_gets_the_newest_alone() -> None:
    async def act(feed: Feed, sections: Sections) -> None:
        async with aclosing(feed.follow()) as quick, aclosing(feed.follow()) as slow:
            assert await first(quick) == await first(slow)
            for n in range(1, 4):
                sections.publish(queries=b"%d" % n, **({"graph": b'"h"'} if n == 2 else {}))
                await anext(quick)
            assert set((await anext(slow)).split(b"\n\n")) == {
                b'event: graph\ndata: "h"',
                b"event: queries\ndata: 3",
                b"",
            }

    with_feed(act)


def test_a_reader_hears_that_the_page_lives_though_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_ALIVE", 0.0)
    monkeypatch.setattr(feeds, "_AT_LEAST", 0.0)

    async def act(feed: Feed, sections: Sections) -> None:
        async with aclosing(feed.follow()) as events:
            await first(events)
            assert [await anext(events) for _ in range(2)] == [b": alive\n\n"] * 2

    with_feed(act)


def test_a_reader_that_comes_back_sees_nothing_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(feed: Feed, sections: Sections) -> None:
        for n in range(3):
            sections.publish(queries=b"%d" % n)
            async with aclosing(feed.follow()) as events:
                assert f"data: {n}\n".encode() in await first(events)
            assert feed.readers == 0

    with_feed(act)


def test_a_page_that_was_closed_does_not_stop_what_is_published() -> None:
    kept: list[Any] = []

    async def act(feed: Feed, sections: Sections) -> None:
        async with aclosing(feed.follow()) as events:
            await first(events)
            sections.publish(queries=b"1")
            await anext(events)
            waits = asyncio.Event()
            tell = sections.history.tell_next
            sections.history.tell_next = lambda call: (tell(call), waits.set())  # type: ignore[method-assign,assign,func-returns-value]
            sections.publish(queries=b"2")
            await waits.wait()
        kept.append(sections)

    with_feed(act)
    kept[0].publish(queries=b"3")
    assert not kept[0].history._waiting
