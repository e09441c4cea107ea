"""The endpoints of the live page. Nothing that is sent to them can stop a query, but a request to stop it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from slackwater.dashboard.board import Board
from slackwater.dashboard.feed import MOST_READERS, Feed
from slackwater.dashboard.openmetrics import CONTENT_TYPE, openmetrics
from slackwater.dashboard.watched import Watched, WatchedQuery
from slackwater.errors import QueryError, SlackwaterError

ASSETS = files("slackwater") / "dashboard" / "assets"
#: Bytes of the longest body of a request.
_LONGEST_BODY = 16 * 1024
#: Seconds in which it must have come.
_BODY_SECONDS = 10.0
#: How many requests may wait for the executor at once.
_MOST_ASKED = 16


class Endpoints:
    """Answers requests. What may take long is done in threads of its own, so that the feed goes on."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._looking = ThreadPoolExecutor(1, "slackwater-page-look")
        self._asking = ThreadPoolExecutor(4, "slackwater-page-ask")
        self._asked = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.feed = Feed(Board(watched), watched.history, self._looking)

    def app(self) -> Starlette:
        """The web application."""
        routes = [
            Route("/", self._index),
            Route("/events", self._events),
            Route("/state", self._state),
            Route("/metrics", self._metrics),
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/queries/{name:path}/prod", self._prod, methods=["POST"]),
            Route("/queries/{name:path}/stop", self._stop, methods=["POST"]),
            Route("/pause", self._pause, methods=["POST"]),
            Route("/resume", self._resume, methods=["POST"]),
            Mount("/assets", StaticFiles(directory=str(ASSETS))),
        ]
        handlers = {HTTPException: _http_error, SlackwaterError: _user_error, Exception: _server_error}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        looking = asyncio.create_task(self.feed.run())
        try:
            yield
        finally:
            self._loop = None
            self.feed.end()
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            self._looking.shutdown(wait=False)
            self._asking.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """End the feed of all readers; called by another thread."""
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self.feed.end)

    async def _index(self, request: Request) -> Response:
        return Response((ASSETS / "index.html").read_bytes(), media_type="text/html")

    async def _events(self, request: Request) -> Response:
        if self.feed.readers >= MOST_READERS:
            raise HTTPException(503, f"{MOST_READERS} readers watch already; close one of their pages")
        # A proxy must not keep events back until there are many.
        headers = {"x-accel-buffering": "no"}
        if request.method == "HEAD":  # its answer ends, and nobody reads
            return Response(media_type="text/event-stream", headers=headers)
        return StreamingResponse(self.feed.follow(), media_type="text/event-stream", headers=headers)

    async def _state(self, request: Request) -> Response:
        sections, _ = await self.feed.look()
        body = b",".join(b"%b:%b" % (json.dumps(name).encode(), text) for name, text in sections.items())
        return Response(b"{%b}" % body, media_type="application/json")

    async def _metrics(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(self._looking, openmetrics, self._watched)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def _health(self, request: Request) -> Response:
        counts = self._statuses()
        return _probed("failed" not in counts or not {"waiting", "running", "finished"}.isdisjoint(counts), counts)

    async def _ready(self, request: Request) -> Response:
        counts = self._statuses()
        return _probed("failed" not in counts and "waiting" not in counts and not self._watched.paused, counts)

    def _statuses(self) -> Counter[str]:
        """How many queries have each status: no names, for everybody may ask."""
        return Counter(query.status for query in self._watched.queries())

    async def _prod(self, request: Request) -> Response:
        query, body = self._query(request), await _body(request, ("until", "where"))
        where, until = body.get("where"), body.get("until")
        if where is not None and not isinstance(where, str):
            raise HTTPException(
                400, 'where is a condition on the group columns, as in {"where": "carrier = \'AA\'"}'
            )
        if isinstance(until, (bool, list, dict)):
            raise HTTPException(400, 'until is a time of the stream, as in {"until": "2013-01-14 06:00"}')
        await self._ask(lambda: query.prod(until, where or None))
        return JSONResponse({"prodded": query.name})

    async def _stop(self, request: Request) -> Response:
        query = self._query(request)
        return await self._do(request, query.stop, {"stopped": query.name})

    async def _pause(self, request: Request) -> Response:
        return await self._do(request, self._watched.pause, {"paused": True})

    async def _resume(self, request: Request) -> Response:
        return await self._do(request, self._watched.resume, {"paused": False})

    async def _do(self, request: Request, command: Callable[[], None], answer: dict[str, Any]) -> Response:
        """Carry out a command whose request has no body."""
        await _body(request, ())
        await self._ask(command)
        return JSONResponse(answer)

    def _query(self, request: Request) -> WatchedQuery:
        name = request.path_params["name"]
        query = next((q for q in self._watched.queries() if q.name == name), None)
        if query is None:
            raise HTTPException(404, f"there is no query {name!r}")
        return query

    async def _ask(self, command: Callable[[], None]) -> None:
        """Have a command carried out, which waits for the run under way; not too many at once."""
        if self._asked >= _MOST_ASKED:
            raise HTTPException(503, "many requests wait already; ask again when they have been answered")
        self._asked += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._asking, command)
        finally:
            self._asked -= 1


def _probed(good: bool, counts: Counter[str]) -> Response:
    return JSONResponse({"ok": good, "queries": dict(counts)}, 200 if good else 503)


async def _body(request: Request, fields: tuple[str, ...]) -> dict[str, Any]:
    """The request's body: nothing, or a JSON object with some of these fields."""
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_BODY:
                    raise HTTPException(413, f"a body of more than {_LONGEST_BODY} bytes")
    except ClientDisconnect:
        raise HTTPException(400, "the body ended too soon") from None
    except TimeoutError:
        raise HTTPException(408, "the body did not come in time", {"connection": "close"}) from None
    try:
        value = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is no JSON") from None
    if not isinstance(value, dict):
        raise HTTPException(400, "the body is no JSON object")
    unknown = sorted(set(value) - set(fields))
    if unknown:
        known = f"known are {', '.join(fields)}" if fields else "there are none here"
        raise HTTPException(400, f"unknown field {unknown[0]!r}; {known}")
    return value


async def _http_error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _user_error(request: Request, error: SlackwaterError) -> Response:
    """A user's mistake, or a query that has ended."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, QueryError) else 409)


async def _server_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 500)
