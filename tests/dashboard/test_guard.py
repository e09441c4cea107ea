"""Requests that another site can make a browser send are refused, as are those without the token."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from slackwater.dashboard import LivePage
from slackwater.dashboard.guard import PROBED
from tests.kit.watched import WatchedScript

ASKS = {"x-slackwater": "1"}
PATHS = ("/", "/state", "/events", "/metrics", "/assets/app.js")
POSTS = ("/queries/delays/prod", "/queries/delays/stop", "/pause", "/resume")


@pytest.fixture
def plain(page: LivePage) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=page.url, timeout=20) as made:
        yield made


def unchanged(script: WatchedScript) -> bool:
    """Whether nobody has prodded, stopped or paused anything."""
    return all(q.active and not q.sink.rows for q in script.queries()) and not script.paused


def test_a_name_that_suddenly_points_here_is_refused(plain: httpx.Client, script: WatchedScript) -> None:
    names = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.7", ""]
    names += ["[::1].evil.example", "localhost:evil.example", "localhost@evil.example", "localhost, evil.example"]
    for name in names:
        for path in PATHS:
            assert plain.get(path, headers={"host": name}).status_code in (400, 421), (name, path)
        for path in POSTS:
            assert plain.post(path, headers={**ASKS, "host": name}).status_code in (400, 421), (name, path)
    assert unchanged(script)


def test_the_machines_own_names_will_do_also_through_a_tunnel(plain: httpx.Client) -> None:
    for name in ("localhost", "LOCALHOST:9999", "127.0.0.1", "[::1]:8000"):
        assert plain.get("/state", headers={"host": name}).status_code == 200, name


#: What a browser says of a request that another site has made it send.
FOREIGN: list[dict[str, str]] = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:1"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
]


def test_a_post_from_another_site_is_refused_and_prods_nothing(plain: httpx.Client, script: WatchedScript) -> None:
    for headers in FOREIGN:
        for path in POSTS:
            assert plain.post(path, headers={**ASKS, **headers}).status_code == 403, headers
    assert unchanged(script)


def test_another_site_reads_nothing(plain: httpx.Client) -> None:
    for headers in FOREIGN[:-1]:
        for path in PATHS:
            assert plain.get(path, headers=headers).status_code == 403, (headers, path)


def test_a_plain_form_cannot_post(plain: httpx.Client, script: WatchedScript) -> None:
    refused = plain.post("/queries/delays/stop", data={"a": "b"})
    assert refused.status_code == 403 and "x-slackwater" in refused.json()["error"]
    assert script.query("delays").active


def test_a_preflight_is_never_granted(plain: httpx.Client) -> None:
    asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    for headers in (asked, {**asked, "x-slackwater": "1"}):
        answer = plain.request("OPTIONS", "/pause", headers=headers)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_our_own_page_may_post_and_a_link_may_lead_here(plain: httpx.Client, page: LivePage) -> None:
    ours = {**ASKS, "origin": page.url.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert plain.post("/pause", headers=ours).status_code == 200
    assert plain.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    assert (
        plain.get("/state", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}).status_code == 403
    )


def test_answers_tell_the_browser_to_be_careful(plain: httpx.Client) -> None:
    for path in ("/", "/state", "/nothing", "/assets/app.js"):
        headers = plain.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.fixture
def open_page(script: WatchedScript) -> Iterator[LivePage]:
    """A page that other machines can reach."""
    with LivePage(script, host="0.0.0.0") as served:
        yield served


def test_for_other_machines_a_token_is_made_and_asked_for_everywhere(open_page: LivePage) -> None:
    assert open_page.token is not None and len(open_page.token) >= 32 and open_page.url.endswith(open_page.token)
    with httpx.Client(base_url=f"http://127.0.0.1:{open_page.port}", headers=ASKS) as client:
        for path in PATHS:
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
            assert client.get(path, params={"token": "wrong"}).status_code == 401
        name = f"slackwater_token_{open_page.port}"
        for cookie in (
            f"{name}=wrong",
            name,
            f"a=\x01b; {name}=ü".encode("latin-1"),
        ):
            assert client.get("/state", headers={"cookie": cookie}).status_code == 401  # type: ignore[dict-item]
        for path in POSTS:
            assert client.post(path).status_code == 401
            assert client.post(path, params={"token": open_page.token}).status_code == 401


def test_the_token_opens_it_as_a_header_or_once_in_the_address(open_page: LivePage) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{open_page.port}", headers=ASKS) as client:
        assert client.get("/state", headers={"authorization": f"Bearer {open_page.token}"}).status_code == 200
        answer = client.get("/", params={"token": str(open_page.token)})
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), "it does not stay in the address"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        assert client.get("/").status_code == 200
        assert client.post("/pause").status_code == 200
        assert client.post("/resume", headers={"origin": "http://evil.example"}).status_code == 403


def test_other_machines_may_use_addresses_but_no_foreign_names(open_page: LivePage) -> None:
    known = {"authorization": f"Bearer {open_page.token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{open_page.port}") as client:
        assert client.get("/state", headers={**known, "host": "192.168.1.5:80"}).status_code == 200
        assert client.get("/state", headers={**known, "host": "evil.example"}).status_code == 421
        in_address = {"host": "evil.example"}
        assert client.get("/", params={"token": str(open_page.token)}, headers=in_address).status_code == 421


def test_two_pages_of_one_machine_do_not_take_each_others_cookies(
    open_page: LivePage, script: WatchedScript
) -> None:
    with LivePage(script, host="0.0.0.0") as second, httpx.Client() as client:
        for page in (open_page, second):
            assert client.get(f"http://127.0.0.1:{page.port}/?token={page.token}").status_code == 303
        for page in (open_page, second):
            assert client.get(f"http://127.0.0.1:{page.port}/state").status_code == 200


def test_a_probe_needs_no_token_and_learns_no_names(open_page: LivePage, script: WatchedScript) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{open_page.port}", timeout=20) as probe:
        for path in PROBED:
            answer = probe.get(path, headers={"host": "10.1.2.3:8000"})
            assert answer.status_code == 200
            assert not any(query.name in answer.text for query in script.queries())
            assert probe.post(path, headers=ASKS).status_code == 401
