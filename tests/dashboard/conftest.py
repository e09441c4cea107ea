"""A live page over a session without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from slackwater.dashboard import LivePage
from slackwater.estimates.early import early
from tests.kit.watched import WatchedScript, rows, sliding


@pytest.fixture
def script() -> Iterator[WatchedScript]:
    """Two queries over one stream: one groups by carrier, one does not."""
    plain = sliding("10 seconds", "10 seconds", n="count(*)")
    made = WatchedScript({"delays": sliding(), "counts": plain}, early(at=0.5))
    made.page(rows((1, "AA", 5.0), (2, "UA", 7.0), (3, "AA", 9.0)), at=4)
    yield made
    made.stop()


@pytest.fixture
def page(script: WatchedScript) -> Iterator[LivePage]:
    with LivePage(script) as served:
        yield served


@pytest.fixture
def client(page: LivePage) -> Iterator[httpx.Client]:
    """Asks as the page itself does."""
    with httpx.Client(base_url=page.url, headers={"x-slackwater": "1"}, timeout=20) as made:
        yield made
