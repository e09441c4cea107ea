"""Who may ask: requests under a foreign name, from a foreign page or without the token are refused.

A page of another site can make a browser send requests to this machine. It cannot choose the header Host (so that a
name which suddenly points here is refused), nor leave Origin out, nor add a header of its own to a POST.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import re
import secrets
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)
#: A POST must have this header, with any value.
ASKS = "x-slackwater"
#: The name of the cookie, with the port behind it: a browser has one set of cookies for all ports of a machine.
COOKIE = "slackwater_token"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Lets good requests through to the app, and adds the headers that keep a browser careful."""

    def __init__(self, app: ASGIApp, names: Sequence[str] = (), token: str | None = None) -> None:
        self._app = app
        self._names = {*_LOOPBACK, *(name.lower() for name in names)}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._token is not None and self._given_in_address(scope):
            await _answer(send, 303, "", {"location": "/", "set-cookie": self._cookie(scope)})
            return
        refused = self._refused(scope)
        if refused is not None:
            status, text = refused
            await _answer(send, status, json.dumps({"error": text}), {"content-type": "application/json"})
            return

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SAFE)
            await send(message)

        try:
            await self._app(scope, receive, careful)
        except Exception:
            # The app has answered with an error, where it still could.
            _log.exception("the live page could not answer %s", scope["path"])

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._known(host):
            return 421, f"this page is not called {host!r}; open it under the address that it was given"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "this request comes from another site"
        reads = scope["method"] in ("GET", "HEAD")
        # A link may lead here; nothing on another site may read what it leads to.
        followed = reads and headers.get("sec-fetch-mode") == "navigate"
        if not followed and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "this request comes from another site"
        if not reads and ASKS not in headers:
            return 403, f"give the header {ASKS}, as in curl -X POST -H '{ASKS}: 1' …"
        if self._token is not None and not self._knows_token(scope, headers):
            return 401, "give the token: open the whole address with ?token=…, or send Authorization: Bearer …"
        return None

    def _known(self, host: str) -> bool:
        name = _name(host)
        if name in self._names:
            return True
        # No name leads to an address that was written as one. Without a token only this machine's own will do.
        return self._token is not None and _is_address(name)

    def _knows_token(self, scope: Scope, headers: Headers) -> bool:
        bearer = headers.get("authorization", "")
        given = [bearer[7:]] if bearer.lower().startswith("bearer ") else []
        with contextlib.suppress(CookieError):
            cookies = SimpleCookie(headers.get("cookie", ""))
            given += [cookies[name].value] if (name := _cookie_name(scope)) in cookies else []
        return any(self._same(token) for token in given)

    def _given_in_address(self, scope: Scope) -> bool:
        if (
            scope["method"] != "GET"
            or scope["path"] != "/"
            or not self._known(Headers(scope=scope).get("host", ""))
        ):
            return False
        return any(self._same(t) for t in parse_qs(scope["query_string"].decode("latin-1")).get("token", ()))

    def _same(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), (self._token or "").encode())

    def _cookie(self, scope: Scope) -> str:
        return f"{_cookie_name(scope)}={self._token}; Path=/; HttpOnly; SameSite=Lax"


def _cookie_name(scope: Scope) -> str:
    return f"{COOKIE}_{scope['server'][1]}"


def _name(host: str) -> str:
    """A host without its port; nothing if it is not written as one.

    >>> _name("LocalHost:8000"), _name("[::1]:8000"), _name("10.0.0.7")
    ('localhost', '::1', '10.0.0.7')
    >>> _name("[::1].example"), _name("localhost:example"), _name("localhost:80:80")
    ('', '', '')
    """
    written = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?", host)
    return (written[1] or written[2] or "").lower() if written else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    pairs = [(k.encode(), v.encode()) for k, v in {**_SAFE, **headers}.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": text.encode()})
