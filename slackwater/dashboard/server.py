"""The server of the live page: a thread of its own, which ends with the session."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading

import uvicorn

from slackwater.dashboard.app import Endpoints
from slackwater.dashboard.connections import MOST_CONNECTIONS, Connection
from slackwater.dashboard.guard import Guard
from slackwater.dashboard.watched import Watched
from slackwater.errors import QueryError, RunError

_START_SECONDS = 10.0
_END_SECONDS = 5.0


class LivePage:
    """A page that is being served; `url` is its address. Made by `session.serve()`."""

    def __init__(self, watched: Watched, port: int = 0, host: str = "127.0.0.1", token: str | None = None) -> None:
        _check(port, host, token)
        local = _is_loopback(host)
        self.token = token if token is not None or local else secrets.token_urlsafe(24)
        """The token that a reader must give; None where all on this machine may read."""
        self.endpoints = Endpoints(watched)
        names = [] if local else [host, socket.gethostname()]
        guard = Guard(self.endpoints.app(), names, self.token)
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        every = host in ("0.0.0.0", "::", "")
        shown = socket.gethostname() if every else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/" + ("" if self.token is None else f"?token={self.token}")
        config = uvicorn.Config(
            guard,
            http=Connection,
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=2,
            # Behind the connections that are held there may be some that are being closed.
            limit_concurrency=2 * MOST_CONNECTIONS,
            h11_max_incomplete_event_size=32 * 1024,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="slackwater-page", daemon=True)
        self._thread.start()
        self._await_start()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _await_start(self) -> None:
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started:
                return
            self._thread.join(0.01)
            if not self._thread.is_alive():
                break
        self.stop()
        raise RunError(f"the live page could not be served on port {self.port}")

    @property
    def active(self) -> bool:
        """Whether it is being served."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Close the page; queries go on."""
        self.endpoints.end()
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_SECONDS)
        self._socket.close()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _check(port: object, host: object, token: object) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise QueryError(f"serve(port={port!r}): write a number below 65536, or port=0 for any that is free")
    if not isinstance(host, str):
        raise QueryError(f"serve(host={host!r}): write an address of this machine, as in host='0.0.0.0'")
    if token is not None and (not isinstance(token, str) or len(token) < 16 or not token.isascii()):
        raise QueryError("serve(token=…): write at least 16 letters and digits, or leave it out to have one made")


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> _is_loopback("localhost"), _is_loopback("::1"), _is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        why = error.strerror or error
        raise RunError(
            f"serve(host={host!r}, port={port}): {why}; write another port=, or port=0 for any that is free"
        ) from None
    return bound
