"""Connections that are silent, slow or do not read: the others are served all the same."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from slackwater.dashboard import LivePage, app, connections
from slackwater.dashboard.connections import MOST_CONNECTIONS, READ_SECONDS, Connection

#: Seconds after which a test gives up on what should happen at once.
PATIENCE = 20.0
POST = b"POST /pause HTTP/1.1\r\nHost: localhost\r\nx-slackwater: 1\r\nContent-Length: 9\r\n\r\n{"


def connect(page: LivePage) -> socket.socket:
    return socket.create_connection(("127.0.0.1", page.port), PATIENCE)


def test_silent_connections_make_room_for_those_who_ask(client: httpx.Client, page: LivePage) -> None:
    with contextlib.ExitStack() as open_ones:
        client.get("/state")  # the connection that is kept from here on has been idle for longest
        silent = [open_ones.enter_context(connect(page)) for _ in range(MOST_CONNECTIONS + 50)]
        for _ in range(3):
            with httpx.Client(base_url=page.url, timeout=PATIENCE) as another:
                assert another.get("/state").status_code == 200
            # By now all have been let in. Else the kept connection could be closed while it asks.
            assert client.get("/state").status_code == 200
        assert silent[0].recv(1) == b"", "the oldest has been closed"
        silent[-1].sendall(b"GET /state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"


def test_one_that_is_being_answered_never_makes_room(client: httpx.Client, page: LivePage) -> None:
    with client.stream("GET", "/events") as answer, contextlib.ExitStack() as open_ones:
        coming = answer.iter_lines()
        next(coming)
        for _ in range(MOST_CONNECTIONS + 50):
            open_ones.enter_context(connect(page))
        with httpx.Client(base_url=page.url, timeout=PATIENCE) as another:
            assert another.get("/state").status_code == 200
        assert next(line for line in coming if line.startswith("event: "))


@pytest.mark.parametrize("sent", [b"", b"GET /state HTT", b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"])
def test_a_head_that_does_not_come_is_not_waited_for(
    page: LivePage, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.01)
    # What comes behind an answer is waited for as long as a connection is kept alive.
    monkeypatch.setattr(page._server.config, "timeout_keep_alive", 0.01)
    with connect(page) as peer:
        peer.sendall(sent)
        while peer.recv(65536):
            pass


def test_a_body_that_does_not_come_is_not_waited_for(
    page: LivePage, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_BODY_SECONDS", 0.01)
    with connect(page) as peer:
        peer.sendall(POST)
        assert peer.recv(1024).startswith(b"HTTP/1.1 408")
    assert not client.get("/state").json()["session"]["paused"]


class Loop:
    """Notes what would be called, and when."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return 0.0

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.later.append(entry := (seconds, call))
        return type("Timer", (), {"cancel": lambda _: self.later.remove(entry)})()


class Transport(asyncio.Transport):
    aborted = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


async def _made(loop: Loop) -> tuple[Connection, Transport]:
    config = Config(app=lambda scope: None, log_config=None, http=Connection, lifespan="off")
    config.load()
    made, transport = Connection(config, ServerState(), {}, loop), Transport()  # type: ignore[arg-type]
    made.connection_made(transport)
    return made, transport


def test_a_reader_that_takes_nothing_is_let_go() -> None:
    loop = Loop()
    made, transport = asyncio.run(_made(loop))
    made.pause_writing()
    made.resume_writing()
    assert [seconds for seconds, _ in loop.later] == [connections.HEAD_SECONDS], "it reads again"
    made.pause_writing()
    made.pause_writing()
    (_, (seconds, let_go)) = loop.later
    let_go()
    assert seconds == READ_SECONDS and transport.aborted
    made.connection_lost(ConnectionAbortedError())
    assert not loop.later
