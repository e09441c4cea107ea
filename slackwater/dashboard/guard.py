"""Who may ask: requests under a foreign name, from a foreign page or without the token are refused.

A page of another site can make a browser send requests to this machine. It cannot choose the header Host (so that a
name which suddenly points here is refused), nor leave Origin out, nor add a header of its own to a POST.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)
#: A POST must have this header, with any value.
ASKS = "x-slackwater"
#: The name of the cookie, with the port behind it: a browser has one set of cookies for all ports of a machine.
COOKIE = "slackwater_token"
#: What a machine that watches over the process may ask under any name and without the token: it has no secrets.
PROBED = ("/health", "/ready")
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

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SAFE)
            await send(message)

        try:
            await self._answering(Request(scope))(scope, receive, careful)
        except Exception:
            # The app has answered with an error, where it still could.
            _log.exception("the live page could not answer %s", scope["path"])

    def _answering(self, request: Request) -> ASGIApp:
        """What answers a request: the app, a refusal, or a redirect that leaves the token in a cookie."""
        if self._token is not None and self._given_in_address(request):
            cookie = f"{_cookie_name(request)}={self._token}; Path=/; HttpOnly; SameSite=Lax"
            return Response(status_code=303, headers={"location": "/", "set-cookie": cookie})
        probed = request.method in ("GET", "HEAD") and request.url.path in PROBED
        refused = None if probed else self._refused(request)
        if refused is None:
            return self._app
        status, text = refused
        return JSONResponse({"error": text}, status)

    def _refused(self, request: Request) -> tuple[int, str] | None:
        headers = request.headers
        host = headers.get("host", "")
        if not self._known(host):
            return 421, f"this page is not called {host!r}; open it under the address that it was given"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "this request comes from another site"
        reads = request.method in ("GET", "HEAD")
        # A link may lead here; nothing on another site may read what it leads to.
        followed = reads and headers.get("sec-fetch-mode") == "navigate"
        if not followed and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "this request comes from another site"
        if not reads and ASKS not in headers:
            return 403, f"give the header {ASKS}, as in curl -X POST -H '{ASKS}: 1' …"
        if self._token is not None and not self._knows_token(request):
            return 401, "give the token: open the whole address with ?token=…, or send Authorization: Bearer …"
        return None

    def _known(self, host: str) -> bool:
        name = _name(host)
        if name in self._names:
            return True
        # No name leads to an address that was written as one. Without a token only this machine's own will do.
        return self._token is not None and _is_address(name)

    def _knows_token(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        tokens = [bearer] if scheme.lower() == "bearer" else []
        cookie = request.cookies.get(_cookie_name(request))
        return any(self._same(token) for token in (*tokens, *([] if cookie is None else [cookie])))

    def _given_in_address(self, request: Request) -> bool:
        if (
            request.method != "GET"
            or request.scope["path"] != "/"
            or not self._known(request.headers.get("host", ""))
        ):
            return False
        return any(self._same(token) for token in request.query_params.getlist("token"))

    def _same(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), (self._token or "").encode())


def _cookie_name(request: Request) -> str:
    return f"{COOKIE}_{request.scope['server'][1]}"


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
