"""S5 section 3.2 b: prods ride in the stream of data. They are no rows, move no time, and stay in order with it.

The oracle for early rows is a query over the rows so far that has answered nothing yet, prodded by hand. Final rows
are those of the stream without prods. Restarts in the middle.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing import ListSink, Script
from slackwater.testing.stream_spec import StreamSpec

COLUMNS = "t BIGINT, g STRING, i BIGINT, ask BOOLEAN, upto BIGINT"
PER_ROW = "SELECT g, COUNT(*) AS n FROM s [RANGE 10] GROUP BY g"
PLAIN = "SELECT g, i FROM s WHERE i > 0 OR i IS NULL"
NESTED = (
    "SELECT MAX(n) AS n FROM (SELECT g, COUNT(*) AS n FROM s [RANGE 5, SLIDE 5] GROUP BY g) [RANGE 10, SLIDE 10]"
)
QUERIES = (
    "SELECT g, COUNT(*) AS n, SUM(i) AS whole FROM s [RANGE 10, SLIDE 5] GROUP BY g",
    PER_ROW,
    NESTED,
    PLAIN,
    "SELECT COUNT(*) AS n FROM (SELECT * FROM s UNION ALL SELECT * FROM s) [RANGE 10, SLIDE 10]",
)
#: No row is late: those of a page are up to 60 ticks apart, and each page begins 20 later.
POLICIES = (sw.bounded(60), sw.punctuated("upto"))
ROW = st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.integers(-3, 3))
PROD = st.none() | st.integers(0, 80)
PAGES = st.lists(st.tuples(st.lists(ROW, max_size=4), st.lists(PROD, max_size=2)), min_size=1, max_size=8)


def early_of(rows: list[dict[str, Any]]) -> Counter[Any]:
    """What early rows say of what has come."""
    named = [
        {n: v for n, v in r.items() if n.endswith("_seen") or n in ("g", "window_start", "window_end")}
        for r in rows
    ]
    return Counter(tuple(row.items()) for row in named)


@settings(max_examples=25)
@given(
    pages=PAGES,
    query=st.sampled_from(QUERIES),
    policy=st.sampled_from(POLICIES),
    restarts=st.sets(st.integers(0, 8)),
)
def test_they_equal_prods_by_hand_behind_their_page(
    pages: list[Any], query: str, policy: Any, restarts: set[int]
) -> None:
    spec, plain, open_ = (
        StreamSpec(COLUMNS, p, time="t", prods=prods)
        for p, prods in ((policy, "ask"), (policy, None), (sw.bounded(10**6), None))
    )
    came: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        riding = Script.from_sql(query, {"s": spec}, journal=folder, sink=(sink := ListSink()))
        without = Script.from_sql(query, {"s": plain})
        for n, (rows, prods) in enumerate(pages):
            data = [{"t": 20 * n + t, "g": g, "i": i, "upto": 20 * n - 1} for t, g, i in rows]
            final = {(r.get("g"), r["window_end"]) for r in without.results if "window_end" in r}
            before = len(sink.rows)
            riding.page([*({"t": t, "i": 7, "ask": True} for t in prods), *data])
            without.page(data)
            came += data
            wanted: Counter[Any] = Counter()
            for until in dict.fromkeys(prods):
                by_hand = Script.from_sql(query, {"s": open_}).page(came).prod(until)
                if query != PLAIN:
                    rest = [r for r in by_hand.results if (r.get("g"), r["window_end"]) not in final]
                    wanted += early_of(rest)
            got = [row for row in sink.rows[before:] if row.get("kind") == "early"]
            assert early_of(got) == wanted
            if n in restarts:
                riding = Script.from_sql(query, {"s": spec}, journal=folder, sink=sink)
        seen, plainly = (script.metrics()["source:s"] for script in (riding, without))
        names = ("rows", "missing_time", "heartbeat", "highest")
        assert [seen[name] for name in names] == [plainly[name] for name in names]
        riding.drain()
        without.drain()
    assert [row for row in sink.rows if row.get("kind") != "early"] == without.results


def test_a_prod_in_the_stream_goes_by_all_streams_of_its_queries() -> None:
    """Else a union would wait for it on the other stream for ever."""
    query = "SELECT COUNT(*) AS n FROM (SELECT t, g FROM s UNION ALL SELECT t, g FROM o) [RANGE 10, SLIDE 10]"
    spec, other = (StreamSpec(COLUMNS, sw.bounded(50), time="t", prods=prods) for prods in ("ask", None))
    script = Script.from_sql(query, {"s": spec, "o": other})
    script.page([{"t": 1, "g": "a"}], stream="o").page([{"t": 2, "g": "a"}, {"ask": True}], stream="s")
    assert [(row["n_seen"], row["kind"]) for row in script.new_rows()] == [(2, "early")]
    script.page([{"t": 3, "g": "a"}], stream="s").page([{"t": 100, "g": "a"}], stream="o").drain()
    assert [row["n"] for row in script.new_rows()] == [3, 1]


def test_a_prod_moves_no_time() -> None:
    script = Script.from_sql(
        "SELECT COUNT(*) AS n FROM s [RANGE 10, SLIDE 10]",
        {"s": StreamSpec(COLUMNS, sw.bounded(0), time="t", prods="ask")},
    )
    script.page([{"t": 1, "i": 1}, {"t": 99, "i": 99, "ask": True}])
    assert [row["kind"] for row in script.results] == ["early"]
