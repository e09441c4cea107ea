"""S5 sections 1.3, 2.1, 2.2: punctuations as patterns over any attributes, `[<= 10, 2, *]`, and of a range of time.

Random rows, and random patterns that are true of the rows to come, some of them malformed; restarts in the middle.
After each page exactly those windows are final that the promises so far cover. Their values are those of all rows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.intervals import united
from slackwater.sql.policies import policy_sql
from slackwater.testing import ListSink, Script
from slackwater.testing.stream_spec import StreamSpec

Row = dict[str, Any]
POLICY = sw.punctuated("upto", since="since", on=["sensor", "lane"])
SPEC = StreamSpec("t BIGINT, sensor INT, lane INT, v INT, upto BIGINT, since BIGINT", POLICY, time="t")
BEGIN, RANGE, SLIDE = -(2**70), 10, 5
QUERY = "SELECT {0}SUM(v) AS v, COUNT(*) AS n FROM s [RANGE 10, SLIDE 5]{1}"
TEXTS = {(): QUERY.format("", ""), ("sensor",): QUERY.format("sensor, ", " GROUP BY sensor")}
TEXTS[("lane",)] = QUERY.format("lane, ", " GROUP BY lane")

SMALL = st.integers(1, 2)
ROWS = st.lists(st.tuples(st.integers(0, 60), SMALL, SMALL, st.integers(-5, 5)), min_size=1, max_size=25)
PATTERN = st.tuples(st.integers(0, 70), st.none() | st.integers(-5, 60), st.none() | SMALL, st.none() | SMALL)


def breaks(row: Row, pattern: Row) -> bool:
    begin = BEGIN if pattern["since"] is None else pattern["since"]
    named = [name for name in ("sensor", "lane") if pattern[name] is not None]
    return begin < row["t"] <= pattern["upto"] and all(row[name] == pattern[name] for name in named)


def covered(said: list[Row], group: Row, first: int, last: int) -> bool:
    """Whether the promises for all, and those for this group, cover a window from its first to its last tick."""
    stretches = []
    for pattern in said:
        begin = BEGIN if pattern["since"] is None else pattern["since"]
        named = {name: pattern[name] for name in ("sensor", "lane") if pattern[name] is not None}
        if begin < pattern["upto"] and named in ({}, group):
            stretches.append((begin, pattern["upto"]))
    # Windows of a group are closed in order: a range counts when it has been reached.
    whole = [(low, high) for low, high in united(stretches) if not group or low == BEGIN]
    return any(low < first and last <= high for low, high in whole)


def answers(rows: list[Row], keys: tuple[str, ...]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Sums and counts by group and end of the window."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in rows:
        for end in range((row["t"] // SLIDE + 1) * SLIDE, row["t"] + RANGE + 1, SLIDE):
            place = (*(row[key] for key in keys), end)
            total, count = found.get(place, (0, 0))
            found[place] = total + row["v"], count + 1
    return found


@given(
    rows=ROWS,
    patterns=st.lists(PATTERN, max_size=20),
    keys=st.sampled_from(sorted(TEXTS)),
    pages=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    restarts=st.sets(st.integers(0, 25)),
)
def test_exactly_the_windows_close_that_the_patterns_cover(
    rows: list[Any], patterns: list[Any], keys: tuple[str, ...], pages: list[int], restarts: set[int]
) -> None:
    left = [dict(zip(("t", "sensor", "lane", "v"), row, strict=True)) for row in rows]
    wanted, said, sink, n = answers(left, keys), list[Row](), ListSink(), 0
    with tempfile.TemporaryDirectory() as folder:
        script = Script.from_sql(TEXTS[keys], {"s": SPEC}, journal=folder, sink=sink)
        while left:
            size = pages[n % len(pages)]
            page, left = left[:size], left[size:]
            for upto, since, sensor, lane in patterns[n::7]:
                pattern = {"upto": upto, "since": since, "sensor": sensor, "lane": lane}
                if not any(breaks(row, pattern) for row in left):
                    said.append(pattern)
                    page.append(pattern)
            script.page(page)
            got = {(*(r[k] for k in keys), r["window_end"]): (r["v"], r["n"]) for r in sink.rows}
            closed = {
                place: value
                for place, value in wanted.items()
                if covered(said, dict(zip(keys, place, strict=False)), place[-1] - RANGE, place[-1] - 1)
            }
            assert got == closed and len(sink.rows) == len(got)
            if n in restarts:
                script = Script.from_sql(TEXTS[keys], {"s": SPEC}, journal=folder, sink=sink)
            n += 1
        script.drain()
    assert Counter((*(r[k] for k in keys), r["window_end"]) for r in sink.rows) == Counter(wanted.keys())


def test_what_helps_nobody_or_says_nothing_is_counted_and_harms_nothing() -> None:
    script = Script.from_sql(TEXTS[("sensor",)], {"s": SPEC}, late=(late := ListSink()))
    script.page([{"t": 1, "sensor": 1, "lane": 1, "v": 1}, {"t": 2, "sensor": 2, "lane": 1, "v": 1}])
    script.page([{"upto": 40, "lane": 1}, {"upto": 40, "sensor": 1, "lane": 2}, {"upto": 5, "since": 5}])
    assert script.results == []
    script.page([{"upto": 40, "sensor": 1}])
    assert {row["sensor"] for row in script.results} == {1}
    # The row breaks the promise: it is late, and goes to the late sink. That of sensor 2 is in time.
    script.page([{"t": 3, "sensor": 1, "lane": 1, "v": 9}, {"t": 3, "sensor": 2, "lane": 1, "v": 9}])
    assert [(row["t"], row["sensor"]) for row in late.rows] == [(3, 1)]
    figures = script.metrics()
    assert figures["q/window"]["late_rows"] == 1
    (policy,) = (f for port, f in figures["source:s"]["policies"].items() if port.endswith("by sensor"))
    assert policy == {"patterns": 4, "patterns_passed_by": 2, "malformed_patterns": 1}


def test_the_policy_has_words_and_refuses_what_makes_no_sense() -> None:
    assert policy_sql(POLICY) == "PUNCTUATED BY upto SINCE 'since' ON ('sensor', 'lane')"
    with pytest.raises(QueryError, match="leave everyone= out"):
        sw.punctuated("upto", on="sensor", everyone="*")
    with pytest.raises(QueryError, match="write columns"):
        sw.punctuated("upto", on=[3])  # type: ignore[list-item]
    with pytest.raises(QueryError, match=r"punctuated\(since=…\) lets later ones end first"):
        Script.from_sql(
            "SELECT sensor, COUNT(*) AS n FROM s [RANGE 5, SLIDE 5, FILL 0] GROUP BY sensor", {"s": SPEC}
        )
