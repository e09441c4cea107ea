"""A strategy of one's own: `newest`, for people who want the latest answer first and the backlog later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from slackwater.scheduling.strategy import STRATEGIES, Ordered, Ready
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.testing import Script, arrow_plan
from tests.kit.sql import SCOPE
from tests.kit.streams import SAMPLE, frame


class Newest(Ordered):
    """The newest page first; of one page, the operator furthest down the plan. `Ordered` has the other rules."""

    name = "newest"

    def first(self, ready: Sequence[Ready]) -> Ready:
        return max(ready, key=lambda r: (r.oldest, r.depth))

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        return f"its page is the newest, {picked.oldest}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    STRATEGIES["newest"] = Newest
    yield
    del STRATEGIES["newest"]


def test_it_runs_a_query_and_says_why_it_chose() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, where="i > 0", n="count(*)"), strategy=Newest())
    for tick in (1, 5, 12, 31):
        script.page(frame([[tick, "a", None, None, 1]]))
    assert [(r["window_start"], r["n"]) for r in script.drain().results] == [(0, 2), (10, 1), (30, 1)]
    reasons = {choice.why for choice in script.executor.snapshot().choices}
    assert any(reason.startswith("its page is the newest") for reason in reasons)


def test_among_ready_operators_the_newest_page_goes_first() -> None:
    assert Newest().first([Ready("a", oldest=1), Ready("b", oldest=3), Ready("c", oldest=3, depth=2)]).label == "c"


def test_sql_sets_it_by_name() -> None:
    (statement,) = parse("SET strategy = 'newest'", SCOPE).statements
    assert statement == S.SetSession("strategy", "newest")
