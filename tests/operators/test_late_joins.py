"""S4 section 4 for joins: a late row meets the partners that are not past, and what has come out alone stays alone.

The oracle looks at all pairs of rows, each with the heartbeats of the moment when it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.columns import TIME
from slackwater.operators.join_state import JoinState
from slackwater.operators.operator import MAIN
from slackwater.operators.page import Origin, Page
from slackwater.operators.window_join import WindowJoin
from slackwater.plan.join_node import JoinNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.testing import ListSink, Script
from slackwater.testing.backend import page_of_rows
from slackwater.testing.pages import ArrowPages
from tests.kit.joins import join_of, renamed
from tests.kit.streams_of_samples import A, B, plan

HOWS = ("inner", "left", "right", "full", "semi", "anti")
COLUMNS = (("t", "g", "i"), ("t2", "g2", "i2"))
#: A time and a group.
Row = tuple[int, str]
#: The side of some rows, or the side whose heartbeat moves, and the rows or the heartbeat.
Event = tuple[int, list[Row] | int]


@dataclass(frozen=True)
class Came:
    """A row, its place in the order of arrival, and the heartbeats of both sides when it came."""

    side: int
    place: int
    time: int
    group: str
    beats: tuple[int, int]


class Oracle:
    """The join by its definition."""

    def __init__(self, how: str, ranges: tuple[int, int], events: list[Event]) -> None:
        self.how, self.ranges = how, ranges
        self.lone = {"inner": (), "right": (1,), "full": (0, 1)}.get(how, (0,))
        self.rows = list[Came]()
        beats = [MIN_TICK, MIN_TICK]
        for side, what in events:
            if isinstance(what, int):
                beats[side] = max(beats[side], what)
            else:
                came = (beats[0], beats[1])
                first = len(self.rows)
                self.rows += [Came(side, first + n, t, g, came) for n, (t, g) in enumerate(what)]

    def past(self, side: int, time: int, last: int, beats: tuple[int, int]) -> bool:
        """Whether a row meets nobody who comes from now on."""
        mine, others = beats[side], beats[1 - side]
        if side in self.lone:  # no partner can come, and it has come out alone if it had none
            return others >= last and mine >= time
        if 1 - side in self.lone:  # nor is it asked whether a row of the other side has had it as a partner
            reach = self.ranges[1 - side] - 1
            return others >= last and mine >= last + reach
        return others >= last

    def last(self, row: Came) -> int:
        return row.time + self.ranges[row.side] - 1

    def meet(self, a: Came, b: Came) -> bool:
        first, second = sorted((a, b), key=lambda row: row.place)
        alive = a.time <= self.last(b) and b.time <= self.last(a)
        there = not self.past(first.side, first.time, self.last(first), second.beats)
        return alive and a.group == b.group and there

    def results(self) -> list[tuple[Any, ...]]:
        left, right = ([row for row in self.rows if row.side == side] for side in (0, 1))
        pairs = [(a, b) for a in left for b in right if self.meet(a, b)]
        met = {row.place for pair in pairs for row in pair}
        if self.how == "semi":
            return sorted((a.time, a.place) for a in left if a.place in met)
        if self.how == "anti":
            return sorted((a.time, a.place) for a in left if a.place not in met)
        found: list[tuple[Any, ...]] = [(a.time, a.place, b.time, b.place) for a, b in pairs]
        if 0 in self.lone:
            found += [(a.time, a.place, None, None) for a in left if a.place not in met]
        if 1 in self.lone:
            found += [(None, None, b.time, b.place) for b in right if b.place not in met]
        return sorted(found, key=repr)

    def lost(self) -> list[int]:
        """Rows by side that came when the other side let go of rows that were alive at their time."""
        counts = [0, 0]
        for row in self.rows:
            other = 1 - row.side
            partner = row.time - self.ranges[other] + 1  # this row's last instant is the time of the late one
            counts[row.side] += self.past(other, partner, row.time, row.beats)
        return counts


class Played:
    """The operator, without an engine."""

    def __init__(self, how: str, ranges: tuple[int, int], state: Any = None) -> None:
        query = join_of(renamed(A, "", *COLUMNS[0]), renamed(B, "2", *COLUMNS[0]), ranges, "g = g2", how)
        node = plan(query)
        assert isinstance(node, JoinNode)
        self.node, self.pages = node, ArrowPages({})
        self.rows: list[tuple[Any, ...]] = []
        self.beats = [Punctuation.NONE, Punctuation.NONE]
        self.came = 0
        self.begin()

    def begin(self) -> None:
        kept: JoinState = self.pages.stores.join("j", self.node)
        self.join = WindowJoin("j", self.node, ManualClock(), kept)
        self.join.pages = self.pages

    def restart(self) -> None:
        state = self.join.state(whole=True)
        self.begin()
        self.join.restore([state])

    def emit(self, element: Any, port: str = MAIN) -> None:
        assert isinstance(element, Page) and port == MAIN
        columns = [name for name in ("t", "i", "t2", "i2") if name in self.node.schema.names]
        self.rows += self.pages.here.frame(element).select(columns).rows()

    def do(self, event: Event) -> None:
        side, what = event
        if isinstance(what, int):
            if what > self.beats[side].heartbeat.tick:
                self.beats[side] = Punctuation(Heartbeat(what))
                self.join.on_punctuation(self.beats, self.emit)
            return
        rows = [(t, g, self.came + n, t) for n, (t, g) in enumerate(what)]
        self.came += len(rows)
        kinds = dict(zip((*COLUMNS[side], TIME), (pl.Int64, pl.String, pl.Int64, pl.Int64), strict=True))
        frame = pl.DataFrame(rows, schema=kinds, orient="row")
        self.join.on_page(side, page_of_rows(frame, Origin(str(side), self.came), 0), self.beats, self.emit)

    def end(self) -> None:
        for side in (0, 1):
            self.do((side, MAX_TICK))


ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xy")), min_size=1, max_size=3)
EVENTS = st.lists(st.tuples(st.integers(0, 1), ROWS | st.integers(0, 40)), max_size=14)


@settings(max_examples=300)
@given(
    how=st.sampled_from(HOWS),
    ranges=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    events=EVENTS,
    restarts=st.sets(st.integers(0, 13)),
)
# The left row is decided, and kept for the right side: nobody meets it, and both come out alone.
@example("full", (3, 9), [(0, [(5, "x")]), (0, 9), (1, 8), (1, [(6, "x")])], {2})
def test_section_4_late_rows_of_joins_equal_their_definition(
    how: str, ranges: tuple[int, int], events: list[Event], restarts: set[int]
) -> None:
    oracle, played = Oracle(how, ranges, events), Played(how, ranges)
    for n, event in enumerate(events):
        if n in restarts:
            played.restart()
        played.do(event)
    played.end()
    assert sorted(played.rows, key=repr) == sorted(oracle.results(), key=repr)
    assert played.join.metrics()["late_by_input"] == oracle.lost()


LATE_LEFT: list[Event] = [(1, [(10, "x")]), (0, 12), (1, 9), (0, [(11, "x")])]


@pytest.mark.parametrize("how", HOWS)
def test_section_4_a_late_row_meets_a_partner_that_is_still_there(how: str) -> None:
    """The partner of 10 lives until 19, and time on the left is 12."""
    played = Played(how, (10, 10))
    for event in LATE_LEFT:
        played.do(event)
    played.end()
    wanted = {"semi": [(11, 1)], "anti": []}.get(how, [(11, 1, 10, 0)])
    assert played.rows == wanted


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_section_4_a_late_row_whose_partners_have_gone_comes_out_alone(how: str) -> None:
    played = Played(how, (10, 10))
    for event in [(1, [(10, "x")]), (0, 50), (1, 50), (0, [(11, "x")])]:
        played.do(event)  # type: ignore[arg-type]
    assert played.rows[-1][:2] == (11, 1)
    assert played.join.metrics()["late_by_input"] == [1, 0]


@pytest.mark.parametrize("how", HOWS)
def test_section_4_late_rows_of_a_join_go_to_their_sink(how: str) -> None:
    """They have the columns of both sides, and a row without a time is with them."""
    schema = pa.schema([("t", pa.int64()), ("g", pa.string()), ("i", pa.int64())])
    kind = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(how, how.upper())
    script = Script.from_sql(
        f"SELECT a.t FROM a [RANGE 10] {kind} JOIN (SELECT g, i AS j FROM b) AS b [RANGE 10] USING (g)",
        {"a": (schema, bounded(0)), "b": (schema, bounded(0))},
        late=ListSink(),
    )
    for name, t in [("a", 50), ("b", 50), ("a", 5), ("b", 6), ("b", 55), ("a", 56), ("a", None)]:
        script.page([{"t": t, "g": "x", "i": t}], stream=name)
    assert script.late is not None
    rows = [(row["t"], row["g"], row["i"], row["j"]) for row in script.late.rows]
    assert rows == [(5, "x", 5, None), (None, "x", None, 6), (None, "x", None, None)]
    (figures,) = [of for label, of in script.metrics().items() if "/join" in label]
    assert figures["late_by_input"] == [1, 1]
