"""As-of joins: random streams, keys, distances and restarts, against a search through all versions of each row."""

from __future__ import annotations

import tempfile
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import describe
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import Script
from slackwater.windows.spec import WindowSpec
from tests.engine.test_random_joins import LEFT, RIGHT, left, right
from tests.kit.arcs import watched_arcs
from tests.kit.joins import Row
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, EVENTS, Came, Kind, World
from tests.kit.streams import Stream, bounded_streams
from tests.kit.streams_of_samples import plan, windows


def what_counts(
    row: Row, versions: list[Row], keys: list[tuple[str, str]], within: int | None, direction: str
) -> Row:
    """The version that counts for a row; of equal times the last one in the list."""
    best: tuple[int, int, int] | None = None
    found: Row = {}
    for place, version in enumerate(versions):
        distance = row["t"] - version["t2"]
        if any(row[a] is None or row[a] != version[b] for a, b in keys) or abs(distance) > (
            10**9 if within is None else within
        ):
            continue
        if (direction == "backward" and distance < 0) or (direction == "forward" and distance > 0):
            continue
        rank = (-abs(distance), int(distance >= 0), place)
        if best is None or rank > best:
            best, found = rank, version
    return found


def asof(came: Came, keys: list[tuple[str, str]], within: int | None, how: str, direction: str) -> list[Row]:
    versions = [{f"{c}2": r[c] for c in LEFT} for r in came["b"].to_dicts() if r["t"] is not None]
    made = list[Row]()
    for row in came["a"].to_dicts():
        if row["t"] is None:
            continue
        found = what_counts(row, versions, keys, within, direction)
        if found or how == "left":
            made.append({**{c: row[c] for c in LEFT}, **{c: found.get(c) for c in RIGHT}})
    return made


def kind(keys: list[tuple[str, str]], within: int | None, how: str, direction: str) -> Kind:
    on = " AND ".join(f"{a} = {b}" for a, b in keys) or None
    query = L.JoinAsof((left(), right()), on, how, within, direction)
    return Kind(query, lambda came: asof(came, keys, within, how, direction), ())


def counted(keys: list[tuple[str, str]]) -> Kind:
    query = windows(L.JoinAsof((left(), right()), "g = g2", "inner"), 6, 3, "g")

    def wanted(came: Came) -> list[Row]:
        rows = [{c: row[c] for c in LEFT} for row in asof(came, keys, None, "inner", "backward")]
        made = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "i": pl.Int64})
        return recompute(made, WindowSpec(6, 3), ["g"], COUNT)

    return Kind(query, wanted, ("window_start", "g"))


KEYS: list[list[tuple[str, str]]] = [[("g", "g2")], [], [("g", "g2"), ("i", "i2")]]
HOWS = st.sampled_from(("left", "inner"))
KINDS = st.one_of(
    st.builds(kind, st.sampled_from(KEYS), st.none() | st.integers(0, 9), HOWS, st.just("backward")),
    st.builds(kind, st.sampled_from(KEYS), st.integers(0, 9), HOWS, st.sampled_from(("forward", "nearest"))),
    st.builds(counted, st.just(KEYS[0])),
)


@settings(max_examples=120)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    kinds=st.lists(KINDS, min_size=1, max_size=3),
    events=st.lists(EVENTS, max_size=25),
)
def test_each_row_meets_the_version_of_its_time(
    streams: dict[str, Stream], kinds: list[Kind], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, None, kinds)
        world.play([*(("add", n) for n in range(len(kinds))), *events])
    world.check()


TRADES = pa.schema([("at", pa.int64()), ("symbol", pa.string()), ("size", pa.int64())])
PRICES = pa.schema([("since", pa.int64()), ("code", pa.string()), ("price", pa.float64())])
STREAMS = {"trades": (TRADES, bounded(0)), "prices": (PRICES, bounded(0))}


def script(join: str = "ASOF JOIN prices p ON symbol = code", **settings: Any) -> Script:
    return Script.from_sql(f"SELECT at, symbol, price FROM trades t {join}", STREAMS, **settings)


def trade(*rows: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"at": at, "symbol": symbol, "size": 1} for at, symbol in rows]


def price(*rows: tuple[int, str, float]) -> list[dict[str, Any]]:
    return [{"since": since, "code": code, "price": value} for since, code, value in rows]


def told(script: Script) -> list[tuple[Any, ...]]:
    return [(row["at"], row["symbol"], row["price"]) for row in script.new_rows()]


def test_a_row_waits_only_until_the_versions_of_its_time_are_there() -> None:
    run = script()
    run.page(price((1, "x", 1.0), (5, "x", 5.0)), stream="prices")
    run.page(trade((4, "x"), (9, "x")), stream="trades")
    assert told(run) == [(4, "x", 1.0)], "prices have come to 4: of 9 more may come"
    run.page(price((8, "x", 8.0), (30, "y", 30.0)), stream="prices")
    assert told(run) == [(9, "x", 8.0)]
    run.page(trade((20, "x"), (25, "y")), stream="trades")
    assert told(run) == [(20, "x", 8.0)], "what counts is kept for as long as it counts; y had no price at 25"


def test_late_versions_count_for_rows_that_wait_and_late_rows_are_counted_and_left_out() -> None:
    run = script("LEFT ASOF JOIN prices p ON symbol = code")
    run.page(price((1, "x", 1.0), (10, "z", 0.0)), stream="prices").page(
        trade((5, "x"), (12, "x")), stream="trades"
    )
    assert told(run) == [(5, "x", 1.0)]
    run.page(price((4, "x", 4.0)), stream="prices")
    assert told(run) == [] and late(run) == [0, 1], "5 is out with the price of 1"
    run.page(price((13, "z", 0.0)), stream="prices")
    assert told(run) == [(12, "x", 4.0)]
    run.page(trade((3, "x")), stream="trades")
    assert told(run) == [] and late(run) == [1, 1]
    run.page(trade((11, "x"), (12, "x")), stream="trades").drain()
    assert told(run) == [(12, "x", 4.0)], "time has come to 11"


def late(run: Script) -> list[int]:
    (found,) = [m["late_by_input"] for label, m in run.metrics().items() if "/join" in label]
    return list(found)


def test_old_versions_go() -> None:
    run = script()
    for n in range(40):
        run.page(price((n, "xy"[n % 2], float(n))), stream="prices").page(trade((n, "x")), stream="trades")
    (kept,) = [m["right_rows"] for label, m in run.metrics().items() if "/join" in label]
    assert kept <= 4


@pytest.mark.parametrize(
    "join",
    [
        "ASOF JOIN prices p ON t.symbol = p.code AND t.at >= p.since",
        "ASOF JOIN prices p ON p.code = t.symbol AND p.since <= t.at",
        "ASOF JOIN prices p MATCH_CONDITION (t.at >= p.since) ON symbol = code",
        "JOIN prices FOR SYSTEM_TIME AS OF t.at AS p ON t.symbol = p.code",
        "JOIN prices FOR SYSTEM_TIME AS OF t.at ON symbol = code",
    ],
)
def test_other_systems_words_are_the_same_join(join: str) -> None:
    run = script(join)
    run.page(price((1, "x", 1.0), (5, "x", 5.0), (50, "x", 0.0)), stream="prices")
    run.page(trade((4, "x"), (9, "x"), (9, "y")), stream="trades")
    assert told(run) == [(4, "x", 1.0), (9, "x", 5.0)]


@pytest.mark.parametrize(
    ("join", "prices"),
    [
        ("LEFT ASOF JOIN prices p ON symbol = code AND p.since BETWEEN t.at - 3 AND t.at", [1.0, None]),
        ("LEFT ASOF WITHIN 3 JOIN prices p ON symbol = code", [1.0, None]),
        ("ASOF FORWARD WITHIN 3 LEFT JOIN prices p ON symbol = code", [5.0, None]),
        ("LEFT ASOF JOIN prices p ON symbol = code AND since >= at AND since <= at + 3", [5.0, None]),
        ("LEFT ASOF NEAREST WITHIN 4 JOIN prices p ON symbol = code", [5.0, 5.0]),
    ],
)
def test_how_far_and_which_way(join: str, prices: list[Any]) -> None:
    run = script(join)
    run.page(price((1, "x", 1.0), (5, "x", 5.0), (50, "x", 0.0)), stream="prices")
    run.page(trade((4, "x"), (9, "x")), stream="trades")
    assert [row[2] for row in told(run)] == prices


def test_explain_says_it() -> None:
    text = describe(plan(L.JoinAsof((left(), right()), "g = g2", within=5)))
    assert text.splitlines()[-1] == "left as-of join (backward) on g = g2 within 5"


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({"how": "full"}, "write 'left' or 'inner'"),
        ({"direction": "up"}, "write 'backward', 'forward' or 'nearest'"),
        ({"direction": "forward"}, "say how long a row waits"),
        ({"within": -1}, "must not be negative"),
        ({"on": "g = g2 AND i > 3"}, "i > 3 is no equality; name columns"),
        ({"on": "g = g2 AND i = 3"}, "does not compare one side with the other"),
        ({"on": "g = g2 AND t > t2"}, "write >= or <="),
        ({"on": "g = g2 AND t >= t2 + 5"}, "say which row counts"),
        ({"at": "i"}, "FOR SYSTEM_TIME AS OF i: .*write FOR SYSTEM_TIME AS OF t"),
    ],
)
def test_mistakes_are_told(query: dict[str, Any], wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        plan(L.JoinAsof((left(), right()), **{"on": "g = g2", **query}))
