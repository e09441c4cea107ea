"""Bounds that cannot be meant, or that do not fit the stream, are refused with what to write instead."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.progress.bounds.skew import SkewMatrix
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
SECOND = 1_000_000
#: Longer than anything here lasts.
NEVER = 10_000


# --- what cannot be meant


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda: sw.sensors(0, ties=""), "ties='': write ties=True or ties=False"),  # type: ignore[arg-type]
        (lambda: sw.sensors(0, ties=2), "ties=2: write ties=True or ties=False"),  # type: ignore[arg-type]
        (
            lambda: sw.sensors(0, timeout="1 second", indirect=None),  # type: ignore[arg-type]
            "indirect=None: write indirect=True or indirect=False",
        ),
        (lambda: sw.skew({("a", "b"): (-1, 5)}), r"t of the skew bound \('a', 'b'\) is -1, which is negative"),
        (
            lambda: sw.skew({("a", "b"): (0, "-5 seconds")}),
            r"delta .* is '-5 seconds', which is negative; write '0 ",
        ),
        (lambda: sw.skew({("a", "b"): 5}), r"\('a', 'b'\) is 5; write a pair as in \(0, '5 seconds'\)"),
        (lambda: sw.skew({("a", "b"): [5]}), r"\('a', 'b'\) has 5 in it; write \(t, delta\)"),
        (lambda: sw.skew({("a", "b"): (0, 1.5)}), r"delta of the skew bound .* is 1.5; write a length"),
        (lambda: sw.skew({"a": (0, 5)}), "skew has bounds for 'a'; write two sources, as in"),
        (lambda: sw.skew({}), "no sources; write at least one"),
        (lambda: sw.skew("5 seconds"), "write bounds by names, as in"),
        (lambda: sw.skew([[None, None], [None]], sources=["a", "b"]), "row 1 of the skew matrix .* must be square"),
        (lambda: sw.skew([(0, 5)]), "row 0 of the skew matrix .* must be square"),
        (lambda: sw.skew([[None] * 2] * 2), r"a skew matrix of 2 sources needs their names; write sources="),
        (lambda: sw.skew([[None] * 2] * 2, sources=["a"]), "1 names for 2 sources"),
        (lambda: sw.skew([[None] * 2] * 2, sources=["a", "a"]), "source 'a' is named twice"),
        (
            lambda: sw.skew({("a", "x"): (0, 5)}, sources=["a", "b"]),
            "for 'x', an unknown source; the sources are 'a'",
        ),
        (lambda: sw.skew({("a", "b"): (0, 5)}, latency={"a": 1, "x": 1}), "latency names 'x', an unknown source"),
        (lambda: sw.skew({("a", "b"): (0, 5)}, latency={"a": 1}), "latency says nothing of source 'b'"),
        (lambda: sw.skew([[(0, 5)]], latency="-1 second"), "latency is '-1 second', which is negative"),
        (lambda: sw.skew([[(0, 5)]], timeout=0), "timeout is 0, which is nothing; write a longer one"),
        (lambda: sw.skew([[(0, 5)]], unit="0 seconds"), "unit is '0 seconds', which is nothing"),
        (lambda: sw.skew([[(0, 5)]], groups=0), "groups is 0"),
        (lambda: sw.skew(SkewMatrix([[(0, 5)]]), latency=3), "a SkewMatrix has its sources and latencies"),
        (lambda: sw.tuples(-1, 5), "n of tuples is -1, which is negative"),
        (lambda: sw.sensors(-3), "deviation is -3, which is negative"),
        (lambda: sw.sensors({"a": 1, "b": "-3 seconds"}), "deviation of 'b' is '-3 seconds', which is negative"),
        (lambda: sw.sensors({1: 5}), "deviation has 1 for a name; write it as text, as in '1'"),
        (lambda: sw.sensors({}), "deviation is empty"),
        (lambda: sw.sensors(2.5), "deviation is 2.5; write a length of time, as in '5 seconds', or a whole number"),
        (lambda: sw.sensors(3, rate=0), r"rate is 0; write a positive one, as in 0.99 or \(5, '1 second'\)"),
        (lambda: sw.sensors(3, rate=-0.5), "rate is -0.5; write a positive one"),
        (lambda: sw.sensors(3, rate={"a": float("nan")}), "rate of 'a' is nan; write a positive one"),
        (lambda: sw.sensors(3, rate=(0, "1 second")), r"rate is \(0, '1 second'\); write a positive one"),
        (lambda: sw.sensors(3, groups={"g": "a", "h": 5}), "groups of 'g' is 'a'; write its sources in a list"),
        (
            lambda: sw.papers.global_counter((5, 2)),
            r"processing is \(5, 2\); write the shortest and the longest time",
        ),
        (lambda: sw.papers.global_counter({"a": 5}), r"processing of 'a' is 5; write the shortest and the longest"),
        (lambda: sw.papers.global_counter((-1, 2)), "the shortest processing is -1, which is negative"),
    ],
)
def test_what_cannot_be_meant_is_refused(write: object, says: str) -> None:
    with pytest.raises(sw.QueryError, match=says):
        write()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("policy", "domain", "says"),
    [
        (
            sw.skew({("a", "b"): (0, 5)}),
            SEQUENCE,
            r"need a timeout \(S1 Theorem 3.3\).* of 'a' behind 'a' .*timeout='1",
        ),
        (sw.skew([[(0, 1)]]), SEQUENCE, "need a timeout .* no time-based bound comes down to delta 0"),
        (sw.skew([[[sw.tuples(0, 1), sw.tuples(2, 0)]]]), SEQUENCE, "need a timeout"),
        (sw.sensors({"a": 0, "b": 3}), SEQUENCE, "need a timeout .* of 'b' behind 'b'"),
        (sw.sensors("3 seconds"), TIMESTAMP, "need a timeout"),
        (sw.sensors(3, groups=2), SEQUENCE, "need a timeout"),
        (sw.skew({("a", "b"): (0, 5)}, timeout=9), TIMESTAMP, "delta=5: the time column is a timestamp"),
        (sw.skew([[(0, "5 seconds")]], timeout=9), SEQUENCE, "delta='5 seconds': the time column is an integer"),
        (sw.sensors(3, timeout=9), TIMESTAMP, "deviation=3: the time column is a timestamp"),
        (sw.sensors({"a": 3}, rate={"b": 1}), SEQUENCE, "rate names 'b', an unknown source; the sources are 'a'"),
        (sw.sensors({"a": 3, "b": 3}, latency={"a": 1}, timeout=9), SEQUENCE, "latency says nothing of source 'b'"),
        (sw.sensors({"a": 3, "b": 3}, timeout=9, groups={"g": ["a"]}), SEQUENCE, "source 'b' is in 0 groups"),
        (sw.sensors({"a": 3}, timeout=9, groups={"g": ["a", "x"]}), SEQUENCE, "unknown source 'x'"),
        (sw.skew({("a", "b"): (0, 5)}, timeout=9, groups={"g": ["a"]}), SEQUENCE, "source 'b' is in 0 groups"),
        (sw.sensors(3, timeout=9, groups={"g": ["a"], "h": ["a"]}), SEQUENCE, "source 'a' is in 2 groups"),
        (sw.sensors({f"s{i}": i for i in range(99)}, rate=1), SEQUENCE, "of 99 sources .*indirect=False"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused(policy: Disorder, domain: TimeDomain, says: str) -> None:
    with pytest.raises(sw.QueryError, match=says):
        policy.tracker(domain)
