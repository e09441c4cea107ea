"""The live page over real HTTP: what it tells is what `metrics()` tells, and nothing but a stop stops a query."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.dashboard import LivePage
from slackwater.dashboard.feed import MOST_READERS, Feed
from slackwater.errors import QueryError, RunError
from slackwater.operators.operator import Operator
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.operators.window_aggregate import WindowAggregate
from tests.kit.watched import WatchedRun, WatchedScript, rows

#: Seconds after which a test gives up on what should happen at once.
PATIENCE = 20.0


def state(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/state")
    assert answer.status_code == 200
    return dict(answer.json())


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    """Events of a stream, as they come."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_the_state_is_what_metrics_tell(client: httpx.Client, script: WatchedScript) -> None:
    script.page(rows((21, "AA", 1.0), (2, "UA", 1.0)), at=22)
    told = state(client)
    for query in told["queries"]:
        wanted = json.loads(json.dumps(script.query(query["name"]).metrics()))
        streams, operators = wanted.pop("streams"), wanted.pop("operators")
        assert query["figures"] == {name: wanted[name] for name in query["figures"]}
        assert {"heartbeat", "lag_seconds", "rows", "late_rows", "losses", "results"} <= set(query["figures"])
        beside = ("name", "queries")
        assert [{n: v for n, v in s.items() if n not in beside} for s in told["streams"]] == [*streams.values()]
        for label, figures in operators.items():
            for name in ("heartbeat", "lag_seconds", "queued", "queued_rows", "rows_in", "runs"):
                assert told["operators"][label][name] == figures[name]
    assert set(told["graph"]["nodes"]) == set(script.history.latest.operators)
    assert {label for layer in told["graph"]["layers"] for label in layer} == set(told["graph"]["nodes"])
    assert [q["waits_for"] for q in told["queries"]] == ["source:s", "source:s"]


def test_a_reader_gets_all_sections_and_then_what_changes(client: httpx.Client, script: WatchedScript) -> None:
    with client.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        coming = events(answer)
        first = dict(next(coming) for _ in range(5))
        assert set(first) == {"session", "graph", "operators", "streams", "queries"}
        script.page(rows((25, "AA", 1.0)), at=26)
        # Sections that have not changed, as the graph, do not come again.
        until = next(data for name, data in _noted(coming, "graph") if name == "streams" and data[0]["rows"] == 4)
        assert until[0]["heartbeat"] == script.query("delays").metrics()["heartbeat"]


def _noted(coming: Iterator[tuple[str, Any]], never: str) -> Iterator[tuple[str, Any]]:
    for name, data in coming:
        assert name != never
        yield name, data


def test_a_prod_answers_for_the_groups_that_were_asked_for(client: httpx.Client, script: WatchedScript) -> None:
    answer = client.post("/queries/delays/prod", json={"where": "carrier = 'AA'"})
    assert (answer.status_code, answer.json()) == (200, {"prodded": "delays"})
    given = script.query("delays").sink.rows
    assert given and {(row["kind"], row["carrier"]) for row in given} == {("early", "AA")}
    assert not script.query("counts").sink.rows
    assert client.post("/queries/delays/prod", json={"until": "1970-01-01 00:00:10"}).status_code == 200
    assert {row["carrier"] for row in script.query("delays").sink.rows} == {"AA", "UA"}
    recent = state(client)["answers/delays"]
    assert {w["group"] for w in recent["windows"]} == {"AA", "UA"}


def test_stop_ends_one_query_and_the_page_keeps_its_last_figures(
    client: httpx.Client, script: WatchedScript
) -> None:
    before = script.query("delays").metrics()["rows"]
    assert client.post("/queries/delays/stop").json() == {"stopped": "delays"}
    assert client.post("/queries/delays/stop").status_code == 200
    assert client.post("/queries/delays/prod").status_code == 409
    script.page(rows((5, "AA", 1.0)), at=6)
    by_name = {q["name"]: q for q in state(client)["queries"]}
    assert by_name["delays"]["status"] == "stopped" and by_name["delays"]["figures"]["rows"] == before
    assert by_name["counts"]["active"] and by_name["counts"]["figures"]["rows"] == before + 1


def test_pause_lets_pages_wait_and_resume_works_them_off(client: httpx.Client, script: WatchedScript) -> None:
    assert client.post("/pause").json() == {"paused": True}
    script.offer(rows((40, "AA", 1.0)), at=41)
    assert state(client)["session"]["paused"] is True
    assert script.loop.interrupt(lambda: script.loop.executor.metrics()["source:s"]["queued"]) == 1
    assert state(client)["operators"]["source:s"]["queued"] == 1
    assert client.post("/queries/delays/prod").status_code == 200, "a standing session can be asked"
    assert client.post("/resume").json() == {"paused": False}
    script.loop.call(lambda: None)
    assert state(client)["streams"][0]["rows"] == 4


MISTAKES = [
    ("POST", "/queries/none/prod", b"", 404, "no query 'none'"),
    ("POST", "/queries/delays/prod", b"{", 400, "no JSON"),
    ("POST", "/queries/delays/prod", b"[" * 5_000, 400, "no JSON"),
    ("POST", "/queries/delays/prod", b"[1]", 400, "no JSON object"),
    ("POST", "/queries/delays/prod", b'{"wher": "x"}', 400, "unknown field 'wher'; known are until, where"),
    ("POST", "/queries/delays/prod", b'{"where": 1}', 400, "condition on the group columns"),
    ("POST", "/queries/delays/prod", b'{"where": "delay > 1"}', 400, "group columns (carrier)"),
    ("POST", "/queries/delays/prod", b'{"where": "carrier ="}', 400, "plain condition"),
    ("POST", "/queries/delays/prod", b'{"until": "soon"}', 400, "write a datetime"),
    ("POST", "/queries/delays/prod", b'{"until": 5}', 400, "write a datetime"),
    ("POST", "/queries/delays/prod", b'{"until": [5]}', 400, "a time of the stream"),
    ("POST", "/queries/delays/prod", b" " * 20_000, 413, "more than"),
    ("POST", "/queries/delays/stop", b'{"now": 1}', 400, "there are none here"),
    ("POST", "/queries/none/stop", b"", 404, "no query 'none'"),
    ("POST", "/pause", b'{"for": 1}', 400, "there are none here"),
    ("POST", "/resume", b"now", 400, "no JSON"),
    ("GET", "/queries/delays/stop", b"", 405, "Not Allowed"),
    ("GET", "/pause", b"", 405, "Not Allowed"),
    ("POST", "/events", b"", 405, "Not Allowed"),
    ("POST", "/metrics", b"", 405, "Not Allowed"),
    ("POST", "/state", b"", 405, "Not Allowed"),
    ("GET", "/nothing", b"", 404, "Not Found"),
    ("GET", "/assets/../app.py", b"", 404, "Not Found"),
    ("GET", "/assets/%2e%2e/app.py", b"", 404, "Not Found"),
]


def test_a_mistake_is_told_and_the_queries_go_on(client: httpx.Client, script: WatchedScript) -> None:
    for method, path, body, status, says in MISTAKES:
        answer = client.request(method, path, content=body)
        assert (answer.status_code, says in answer.json()["error"]) == (status, True), (path, answer.text)
    assert all(query.active for query in script.queries()) and script.loop.error is None


#: What is not even a request, or ends in the middle of one, and how the answer begins.
ODD = [
    (b"\x16\x03\x01\x02\x00 hello\r\n\r\n", b"HTTP/1.1 400"),
    (b"GET /state HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
    (b"GET /state HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"HTTP/1.1 400"),
    (b"GET /state HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b""),
    (b"POST /pause HTTP/1.1\r\nHost: localhost\r\nx-slackwater: 1\r\nContent-Length: -5\r\n\r\n", b"HTTP/1.1 400"),
    (b"POST /pause HTTP/1.1\r\nHost: localhost\r\nx-slackwater: 1\r\nContent-Length: 9\r\n\r\n{", b""),
    (b"HEAD /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 4"),
]


def test_odd_requests_are_refused_and_no_query_notices(
    client: httpx.Client, page: LivePage, script: WatchedScript, caplog: pytest.LogCaptureFixture
) -> None:
    for sent, begins in ODD:
        with socket.create_connection(("127.0.0.1", page.port), PATIENCE) as peer, contextlib.suppress(OSError):
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            assert peer.recv(1024).startswith(begins), sent[:40]
    assert not script.paused and page.endpoints.feed.readers == 0
    assert state(client)["queries"] and not caplog.records
    assert all(query.active for query in script.queries()) and script.loop.error is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["where", "until", "x"]), inner),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.sampled_from(["/queries/delays/prod", "/queries/delays/prod", "/queries/%00/stop", "/queries/a%2fb/prod"]),
    JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40),
)
def test_nothing_that_is_sent_stops_a_query_or_the_page(
    client: httpx.Client, script: WatchedScript, path: str, body: bytes
) -> None:
    answer = client.post(path, content=body)
    assert answer.status_code in (200, 400, 404)
    assert answer.headers["content-type"] == "application/json"
    assert all(query.active for query in script.queries()) and script.loop.error is None


@contextlib.contextmanager
def following(client: httpx.Client, feed: Feed) -> Iterator[Iterator[tuple[str, Any]]]:
    """Read the events, leave, and wait until the server has seen that."""
    gone, follow = threading.Event(), feed.follow

    async def noted() -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(follow()) as parts:
                async for part in parts:
                    yield part
        finally:
            gone.set()

    feed.follow = noted  # type: ignore[method-assign]
    with client.stream("GET", "/events") as answer:
        yield events(answer)
    feed.follow = follow  # type: ignore[method-assign]
    assert gone.wait(PATIENCE)


def test_readers_that_leave_are_forgotten_and_there_are_not_too_many(client: httpx.Client, page: LivePage) -> None:
    feed = page.endpoints.feed
    feed.readers += MOST_READERS
    refused = client.get("/events")
    assert refused.status_code == 503 and "close one" in refused.json()["error"]
    feed.readers -= MOST_READERS
    with following(client, feed) as coming:
        next(coming)
        assert feed.readers == 1
    assert feed.readers == 0


def test_nobody_looks_while_nobody_watches(client: httpx.Client, page: LivePage, script: WatchedScript) -> None:
    script.page(rows((5, "AA", 1.0)), at=6)
    assert page.endpoints.feed.looks == 0
    with client.stream("GET", "/events") as answer:
        next(events(answer))
    assert page.endpoints.feed.looks >= 1


def test_the_first_that_a_reader_sees_is_never_old(
    client: httpx.Client, page: LivePage, script: WatchedScript
) -> None:
    for wanted in (3, 4, 5):
        with following(client, page.endpoints.feed) as coming:
            assert next(data for name, data in coming if name == "streams")[0]["rows"] == wanted
        script.page(rows((5, "AA", 1.0)), at=6)


def test_the_server_never_touches_an_operator(
    client: httpx.Client, script: WatchedScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set[str]()
    for kind in (Operator, Sink, Source, WindowAggregate):
        plain = kind.__dict__["metrics"]

        def noted(self: Operator, plain: Any = plain) -> dict[str, Any]:
            threads.add(threading.current_thread().name)
            return dict(plain(self))

        monkeypatch.setattr(kind, "metrics", noted)
    script.page(rows((5, "AA", 1.0)), at=6)
    state(client)
    client.get("/metrics")
    client.post("/queries/delays/prod")
    with client.stream("GET", "/events") as answer:
        next(events(answer))
    assert threads == {"slackwater-executor"}


def test_a_page_ends_while_it_is_read_and_the_session_goes_on(script: WatchedScript) -> None:
    page = LivePage(script)
    with httpx.Client(base_url=page.url) as client, client.stream("GET", "/events") as answer:
        coming = events(answer)
        next(coming)
        page.stop()
        assert not page.active
        list(coming)
    script.page(rows((5, "AA", 1.0)), at=6)
    assert script.query("delays").metrics()["rows"] == 4
    page.stop()


def test_a_port_that_is_taken_and_settings_that_make_no_sense_are_refused(
    page: LivePage, script: WatchedScript
) -> None:
    with pytest.raises(RunError, match=r"in use; write another port="):
        LivePage(script, port=page.port)
    with pytest.raises(QueryError, match="below 65536"):
        LivePage(script, port=70_000)
    with pytest.raises(QueryError, match="an address of this machine"):
        LivePage(script, host=5)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="at least 16"):
        LivePage(script, host="0.0.0.0", token="short")
    with pytest.raises(RunError, match="port="):
        LivePage(script, host="no.such.address.invalid")


def test_a_look_that_fails_is_told_and_the_next_one_comes(
    client: httpx.Client, script: WatchedScript, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, failed = WatchedRun.metrics, list[str]()

    def fails_once(self: WatchedRun) -> dict[str, Any]:
        if not failed:
            failed.append(self.name)
            raise ZeroDivisionError("no figures")
        return plain(self)

    monkeypatch.setattr(WatchedRun, "metrics", fails_once)
    with client.stream("GET", "/events") as answer:
        coming = events(answer)
        assert next(coming)[0] == "session"
    assert failed and "could not read the figures" in caplog.text
    failed.clear()
    assert client.get("/state").status_code == 500
    assert client.get("/state").status_code == 200


def test_all_that_the_page_loads_is_in_the_package(client: httpx.Client) -> None:
    asked, seen = ["/"], set[str]()
    while asked:
        path = asked.pop()
        if path in seen:
            continue
        seen.add(path)
        text = client.get(path)
        assert text.status_code == 200 and text.text, path
        if "uplot" not in path:
            asked += re.findall(r'(?:href|src)="(/assets/[^"]+)"', text.text)
            asked += [f"/assets/{name}" for name in re.findall(r'from "\./([^"]+)"', text.text)]
            assert not set(re.findall(r"https?://[^\s\"'`/]+", text.text)) - {"http://www.w3.org"}, path
    assert {"/assets/app.js", "/assets/charts.js", "/assets/uplot/uPlot.esm.js", "/assets/style.css"} <= seen
    assert client.get("/assets/app.js").headers["content-type"].startswith("text/javascript")


def test_health_and_readiness_say_how_queries_stand(
    client: httpx.Client, script: WatchedScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*statuses: str) -> tuple[int, int]:
        for query, status in zip(script.queries(), statuses, strict=True):
            monkeypatch.setattr(type(query), "status", property(lambda q: by_name[q.name]))
            by_name[query.name] = status
        assert sum(client.get("/health").json()["queries"].values()) == len(statuses)
        return client.get("/health").status_code, client.get("/ready").status_code

    by_name: dict[str, str] = {}
    assert answers("running", "running") == (200, 200)
    assert answers("running", "waiting") == (200, 503)
    assert answers("running", "failed") == (200, 503)
    assert answers("stopped", "failed") == (503, 503)
    script.pause()
    assert answers("running", "running") == (200, 503)
