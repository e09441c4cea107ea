"""Bounds between streams as users write them: mistakes, SQL, and what is added to live streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan.cross_stream import with_bounds
from slackwater.plan.nodes import StreamNode
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope

SORTED = sw.bounded(0)


def stream(
    name: str, policy: Disorder = SORTED, domain: TimeDomain = TimeDomain.SEQUENCE, live: bool = False
) -> StreamNode:
    return StreamNode(name, (("t", "bigint"),), "t", "t", domain, policy, live=live)


BOTH = sw.skew({("a", "b"): (0, 5)}, timeout="never")


@pytest.mark.parametrize(
    ("nodes", "policy", "streams", "wrong"),
    [
        ([], BOTH, None, "no stream is declared"),
        (["a", "c"], BOTH, None, "there is no stream 'b'"),
        (["a", "b"], BOTH, ["a", "c"], r"streams=\['a', 'c'\], but the bounds are of 'a', 'b'"),
        (["a", "b"], sw.learned(), None, "name the streams, two at least"),
        (["a", "b"], sw.bounded(5), ["a", "b"], r"bounded\(5\) says nothing of how one stream goes beside another"),
        (["a", "b"], sw.drop_ratio(0.01), ["a", "b"], "says nothing of how one stream"),
        (["a", stream("b", sw.latent())], BOTH, None, "the rows of 'b' have latent time, which promises nothing"),
        (["a", stream("b", domain=TimeDomain.TIMESTAMP)], BOTH, None, "'a' has sequences and 'b' has timestamps"),
        (["a", stream("b", live=True)], BOTH, None, "replay all streams, or none"),
        (["a", "b"], sw.skew({("a", "b"): (0, "5 seconds")}, timeout="never"), None, "write a whole number"),
    ],
)
def test_bounds_that_cannot_hold_are_refused(
    nodes: list[Any], policy: Disorder, streams: list[str] | None, wrong: str
) -> None:
    declared = {n.name: n for n in (stream(n) if isinstance(n, str) else n for n in nodes)}
    with pytest.raises(QueryError, match=wrong):
        with_bounds(declared, policy, streams)


def test_bounds_of_a_stream_are_written_once() -> None:
    bound = with_bounds({"a": stream("a"), "b": stream("b")}, BOTH, None)
    with pytest.raises(QueryError, match="stream 'a' has bounds already"):
        with_bounds(bound, BOTH, None)


def test_a_stamped_stream_promises_but_keeps_its_own_clock() -> None:
    nodes = {"a": stream("a"), "b": replace(stream("b", sw.internal()))}
    assert [node.bounds is None for node in with_bounds(nodes, BOTH, None).values()] == [False, True]


def test_live_streams_have_a_timeout_where_the_bounds_need_one() -> None:
    one_way = sw.skew({("a", "b"): (0, 5)})
    live = with_bounds({n: stream(n, live=True) for n in "ab"}, one_way, None)["b"]
    assert live.describe().endswith(
        "disorder bounded(0) bounds(skew({('a', 'b'): (0, 5)}, timeout='10 minutes'), streams=['a', 'b'])"
    )
    replayed = with_bounds({n: stream(n) for n in "ab"}, one_way, None)["b"]
    assert "timeout='never'" in replayed.describe()


@pytest.mark.parametrize(
    ("text", "policy", "streams"),
    [
        ("CREATE BOUNDS SKEW ('a' TO 'b' = (0, 5 SECONDS)) TIMEOUT 1 MINUTE",
         sw.skew({("a", "b"): (0, "5 seconds")}, timeout="1 minute"), None),
        ("CREATE BOUNDS SKEW (a TO b = (0, 5), b TO a = ((0, 9), TUPLES (3, 1)))",
         sw.skew({("a", "b"): (0, 5), ("b", "a"): [(0, 9), sw.tuples(3, 1)]}), None),
        ("CREATE BOUNDS ON a, b LEARNED 10 MINUTES ALPHA 0.5", sw.learned(), ("a", "b")),
    ],
)  # fmt: skip
def test_sql_says_it_too(text: str, policy: Disorder, streams: tuple[str, ...] | None) -> None:
    (found,) = parse(text, Scope()).statements
    assert (found.policy, found.streams) == (policy, streams)  # type: ignore[union-attr]
