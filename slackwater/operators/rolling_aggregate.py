"""The window operator of S4 section 3: rows wait in a record store, each gets one result when time has passed it.

A row that comes after that has lost its own result; it still counts for the windows of later rows (D3, S4 section
4): by its time in range windows, and in count windows by its place among the last rows of its group.

Where the groups contain the stream's source, each source goes by its own heartbeat (D4) and has a lane of its own.
A row is late then only if a row of its own source at the same time or later has had its result (D10). Without
sources there is one lane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, TypeAlias, TypedDict

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import BEFORE, NO_SOURCE, SINCE, SOURCE, TIME
from slackwater.errors import QueryError
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import LateTimes, PartialsTooLarge
from slackwater.operators.late_counts import MOST as MOST_COUNTED
from slackwater.operators.late_counts import SHOWN
from slackwater.operators.operator import LATE, Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, Staged, payload_rows
from slackwater.operators.prod import Prod
from slackwater.operators.record_store import SPILLED, PageLateness, RecordStore, ResidentRecords, asked_of
from slackwater.plan.steps import Where
from slackwater.plan.window_kinds import RollingNode
from slackwater.progress.clock import Clock
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.source_numbers import Ints
from slackwater.progress.source_table import SourceNumbers
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.progress.window_losses import RowsBySource, WindowLosses
from slackwater.windows.per_row.rolling import early_rolling_rows

#: The largest number of lanes, for each costs about 3 ms a page. A source has its own until there are more sources.
MOST_LANES = 32
_NONE = PageLateness(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)

#: What became of a source's rows in a page: its lane; itself, and the time up to which rows were late; the rows.
_Taken = tuple[int, tuple[str, int], PageLateness]


@dataclass
class SourceLane:
    """The rows of one source, or of several that then go by the least of their heartbeats."""

    store: RecordStore
    by_row: bool
    """Whether rows are late by the last result, and not by the heartbeat."""
    sources: list[str] = field(default_factory=list)
    heartbeat: int = MIN_TICK
    released: int = MIN_TICK
    """What comes at or below is late: the time of the last row that has had its result.

    Without sources, and of rows that are too many for the driver, it is the heartbeat."""

    def release(self, emitted_at: int) -> Payload | None:
        """Results of the rows that the heartbeat has passed."""
        if self.by_row and isinstance(self.store, ResidentRecords):
            results = self.store.release_rows(self.heartbeat, emitted_at)
            if results is None:
                return None
            self.released = max(self.released, results[1])
            return results[0]
        before, self.released = self.released, max(self.released, self.heartbeat)
        due = self.released > before or self.store.takes_next
        return self.store.release(before, self.released, emitted_at) if due else None


#: Of a lane: its sources, how far time has come, up to where rows were released, and what its store keeps.
_LaneValues: TypeAlias = "tuple[list[str], int, int, Mapping[str, object]]"


class RollingValues(TypedDict):
    """The journaled values."""

    store: str
    lanes: list[_LaneValues]
    counts: tuple[int, int, int, int]
    late_by_source: dict[str, int]


class RollingAggregate(Unary):
    """Final results of one query with a window for each row.

    With sources it holds time back only where there are more of them than lanes: then a source's results come when
    the last source of its lane has passed them.
    """

    ordered: ClassVar[bool] = True

    def __init__(
        self,
        label: str,
        node: RollingNode,
        clock: Clock,
        resident_limit: int = 256 * 2**20,
        route_late: bool = False,
        inner: bool = False,
    ) -> None:
        super().__init__(label)
        self._node, self._kernel = node, node.kernel
        self._by_source = node.kernel.source is not None
        self._clock = clock
        self._limit, self._route_late = resident_limit, route_late
        self._inner = inner
        """Whether its results are rows of something else."""
        self._large = False
        self._lanes = [] if self._by_source else [SourceLane(self._new_store(0), by_row=False)]
        self._sources = SourceNumbers([])
        self._time = Punctuation.NONE
        self._given = 0
        self._late_rows = self._results = self._rows = self._early = self._refused = 0
        self._late_by_source: Counter[str] = Counter()

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take one element, by the register of this moment."""
        self._time = inputs[0].time
        super().run(inputs, emit)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Put a page's rows into their lanes; release those that time has passed already and that are not late."""
        try:
            judged = self._absorb(page)
        except PartialsTooLarge:
            self._go_large()
            judged = self._absorb(page)
        self._count(page, judged)
        if self._route_late:
            self._send_late(page, judged, emit)
        self._release(dict.fromkeys(lane for lane, _, _ in judged), emit)
        if not self._large and sum(lane.store.bytes for lane in self._lanes) > self._limit:
            self._go_large()

    def _absorb(self, page: Page) -> list[_Taken]:
        if not self._by_source:
            (lane,) = self._lanes
            return [(0, ("", lane.released), lane.store.absorb(self.pages, page, lane.released))]
        return self._absorb_large(page) if self._large else self._absorb_by_source(page)

    def _absorb_by_source(self, page: Page) -> list[_Taken]:
        """One job brings the rows; each source's go to its lane."""
        rows = self.pages.rows_of(page, self._kernel).filter(pl.col(TIME).is_not_null())
        parts = rows.group_by(self._kernel.source_of.alias(SOURCE), maintain_order=True)
        judged: list[_Taken] = []
        # What a source of a lane releases is not late for another one in the same page.
        for (name,), mine in parts:
            source = str(name)
            lane = self._lanes[self._lane_of(source)]
            assert isinstance(lane.store, ResidentRecords)
            judged.append((self._lane_of(source), (source, lane.released), lane.store.take(mine, lane.released)))
        return judged

    def _absorb_large(self, page: Page) -> list[_Taken]:
        """A job for each lane writes its rows to files."""
        came = self.pages.measure(page).sources
        lanes: dict[int, list[str]] = {}
        for source in [] if came is None else came.names:
            lanes.setdefault(self._lane_of(source), []).append(source)
        sql = next(g.sql for g in self._kernel.groups if g.name == self._kernel.source)
        judged: list[_Taken] = []
        for number, sources in lanes.items():
            lane = self._lanes[number]
            names = ", ".join("'" + s.replace("\\", "\\\\").replace("'", "\\'") + "'" for s in sources)
            mine = page.with_step(Where(f"coalesce(CAST({sql} AS STRING), '{NO_SOURCE}') IN ({names})"))
            told = lane.store.absorb(self.pages, mine, lane.released)
            # Which of them are late is known of the lane only.
            judged += [
                (number, (source, lane.released), told if source is sources[0] else _NONE) for source in sources
            ]
        return judged

    def _lane_of(self, source: str) -> int:
        (number,) = self._sources.meet([source], len(self._sources) + 1).tolist()
        place = int(number) % MOST_LANES
        if place == len(self._lanes):
            self._lanes.append(SourceLane(self._new_store(place), by_row=True))
        lane = self._lanes[place]
        if source not in lane.sources:
            lane.sources.append(source)
            lane.heartbeat = max(lane.heartbeat, int(self._heartbeats(self._time)[place]))
        return place

    def _new_store(self, place: int) -> RecordStore:
        resident = ResidentRecords(self._kernel, self._node.schema)
        return self._spilled(place, resident) if self._large else resident

    def _spilled(self, place: int, resident: ResidentRecords) -> RecordStore:
        return self.pages.stores.rows(f"{self.label}/lane{place}", resident)

    def _go_large(self) -> None:
        size = sum(lane.store.bytes for lane in self._lanes)
        decision("rows.spilled", operator=self.label, bytes=size, limit=self._limit)
        self._large = True
        for place, lane in enumerate(self._lanes):
            assert isinstance(lane.store, ResidentRecords)
            lane.store = self._spilled(place, lane.store)

    def _count(self, page: Page, judged: list[_Taken]) -> None:
        late = 0
        for _, (source, _), told in judged:
            late += told.late
            self._rows += int(told.rows.sum())
            counts = source in self._late_by_source or len(self._late_by_source) < MOST_COUNTED
            if self._by_source and told.late and counts:
                self._late_by_source[source] += told.late
        self._late_rows += late
        times = np.concatenate([_NONE.times, *(told.times for _, _, told in judged)])
        rows = np.concatenate([_NONE.rows, *(told.rows for _, _, told in judged)])
        # A row's own window is the only one that it can lose.
        by_source = partial(_by_source, judged) if self._by_source else None
        self._reports = [WindowLosses(self.label, page.number, *_together(times, rows), late, by_source)]

    def _send_late(self, page: Page, judged: list[_Taken], emit: Emit) -> None:
        arrival = self.pages.arrival(page)
        lanes = {lane for lane, _, told in judged if told.late}
        if not lanes and (arrival is None or not arrival.missing):
            return
        limits = [(s, MIN_TICK, min(limit + 1, MAX_TICK)) for lane, (s, limit), _ in judged if lane in lanes]
        if self._by_source:
            schema = {SOURCE: pl.String, SINCE: pl.Int64, BEFORE: pl.Int64}
            times = LateTimes(MIN_TICK, (), pl.DataFrame(limits, schema=schema, orient="row"))
        else:
            times = LateTimes(max((before for _, _, before in limits), default=MIN_TICK))
        rows = self.pages.late(page, times)
        if rows is not None:  # a filter may have dropped those without a time
            emit(rows, LATE)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Give the rows that wait the results that they would have if time ended now; nothing is purged."""
        refused = prod.void
        if not refused and (self._inner or prod.asks(self.label)):
            try:
                for lane in self._lanes:
                    for rows, results in lane.store.early(lane.released, self._clock.now()):
                        asked = results if self._inner else asked_of(rows, results, prod, self.pages, self._kernel)
                        if asked.num_rows:
                            self._early += asked.num_rows
                            self._emit(early_rolling_rows(self._kernel, asked, self._node.schema), emit, prod)
            except QueryError as error:
                decision("prod.refused", operator=self.label, error=error)
                self._refused += 1
                refused = True
        emit(replace(prod, void=refused) if self._inner else prod)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait for a heartbeat."""
        return any(lane.store.waiting for lane in self._lanes)

    @property
    def waiting_for_time(self) -> int:
        """Those of all slack buffers."""
        return sum(lane.store.waiting for lane in self._lanes)

    def next_useful_time(self, tick: int) -> int | None:
        """The time of the next row that waits in some lane."""
        times = (lane.store.next_time(tick) for lane in self._lanes)
        return min((time for time in times if time is not None), default=None)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Release the rows that their heartbeats have passed, with their results."""
        moved = []
        for number, heartbeat in enumerate(self._heartbeats(time).tolist()):
            if heartbeat > self._lanes[number].heartbeat:
                self._lanes[number].heartbeat = heartbeat
                moved.append(number)
        self._release(moved, emit)

    def _heartbeats(self, time: Punctuation) -> Ints:
        """How far time has come in each lane: the least of its sources."""
        if time.sources is None or not self._by_source:
            return np.full(len(self._lanes), time.heartbeat.tick, dtype=np.int64)
        ticks = np.full(len(self._sources), time.sources.others, dtype=np.int64)
        number = self._sources.of(time.sources.names)
        ticks[number[number >= 0]] = time.sources.ticks[number >= 0]
        least = np.full(len(self._lanes), MAX_TICK, dtype=np.int64)
        np.minimum.at(least, np.arange(len(ticks)) % MOST_LANES, ticks)
        return least

    def _release(self, lanes: Iterable[int], emit: Emit) -> None:
        tables: list[pa.Table] = []
        for number in lanes:
            payload = self._lanes[number].release(self._clock.now())
            if isinstance(payload, Staged):
                self._emit(payload, emit)
            elif payload is not None:
                tables.append(payload)
        if tables:
            self._emit(pa.concat_tables(tables), emit)

    def _emit(self, payload: Payload, emit: Emit, prod: Prod | None = None) -> None:
        if payload_rows(payload):
            self._results += payload_rows(payload) if prod is None else 0
            self._given += 1
            emit(self.pages.results(self.label, self._given, payload, self._node, self._clock.now(), prod))

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """How far results have come: a source that shares its lane is as far as the lane."""
        (time,) = times
        if time.sources is None or len(self._sources) <= MOST_LANES:
            return time
        by, number = time.sources, self._sources.of(time.sources.names)
        ticks = np.where(number >= 0, self._heartbeats(time)[number % MOST_LANES], by.ticks)
        return Punctuation(time.heartbeat, SourceHeartbeats(by.names, ticks, by.others), time.ranges)

    def state(self, whole: bool) -> State:
        """Counts, and the changes of every lane."""
        tables: dict[str, pa.Table] = {}
        lanes = list[_LaneValues]()
        for number, lane in enumerate(self._lanes):
            kept = lane.store.state(whole, lane.released)
            tables.update({f"{number}:{name}": table for name, table in kept.tables.items()})
            lanes.append((lane.sources, lane.heartbeat, lane.released, kept.values))
        values = RollingValues(
            store=SPILLED if self._large else ResidentRecords.kind,
            lanes=lanes,
            counts=(self._late_rows, self._results, self._rows, self._given),
            late_by_source=dict(self._late_by_source),
        )
        return State(values, tables, whole or self._large)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states; those of lanes that were left for larger ones do not matter."""
        values = states[-1].read(RollingValues)
        self._late_rows, self._results, self._rows, self._given = values["counts"]
        self._late_by_source = Counter(values["late_by_source"])
        self._large = values["store"] == SPILLED
        mine = [(s, s.read(RollingValues)["lanes"]) for s in states if s.values["store"] == values["store"]]
        self._lanes = []
        for number, (sources, heartbeat, released, _) in enumerate(values["lanes"]):
            lane = SourceLane(self._new_store(number), self._by_source, list(sources), heartbeat, released)
            lane.store.restore(
                [_of_lane(s, number, lanes[number]) for s, lanes in mine if number < len(lanes)], lane.released
            )
            self._lanes.append(lane)
        names = [lane.sources for lane in self._lanes]
        most = max(map(len, names), default=0)
        in_order = [of_lane[k] for k in range(most) for of_lane in names if k < len(of_lane)]
        self._sources = SourceNumbers(in_order)

    def settle(self) -> None:
        """What went may be deleted."""
        for lane in self._lanes:
            lane.store.settle()

    def metrics(self) -> Figures:
        """Late rows, results, and the size of all lanes together."""
        size: Counter[str] = Counter()
        for lane in self._lanes:
            size.update(lane.store.size)
        late = dict(self._late_by_source.most_common(SHOWN))
        by_source: Figures = {"late_by_source": late, "lanes": len(self._lanes)} if self._by_source else {}
        return {
            "late_rows": self._late_rows,
            "lost_pairs": self._late_rows,
            "lost_share": self._late_rows / self._rows if self._rows else 0.0,
            **by_source,
            "windows": self._results,
            "results": self._results,
            "early_results": self._early,
            **({"prods_refused": self._refused} if self._refused else {}),
            "store": SPILLED if self._large else ResidentRecords.kind,
            **{name: size[name] for name in ("slack_rows", "window_rows", "state_bytes")},
        }


def _of_lane(state: State, number: int, lane: _LaneValues) -> State:
    start = f"{number}:"
    tables = {name.removeprefix(start): t for name, t in state.tables.items() if name.startswith(start)}
    return State(lane[3], tables, state.whole)


def _together(times: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Times, each once, and their rows."""
    found, place = np.unique(times, return_inverse=True)
    return found, np.bincount(place, rows, len(found)).astype(np.int64)


def _by_source(judged: list[_Taken]) -> RowsBySource:
    names = [source for _, (source, _), told in judged for _ in range(len(told.times))]
    times = np.concatenate([_NONE.times, *(told.times for _, _, told in judged)])
    rows = np.concatenate([_NONE.rows, *(told.rows for _, _, told in judged)])
    lost = [np.where(told.times <= limit, told.rows, 0) for _, (_, limit), told in judged]
    return RowsBySource(names, times, rows, np.concatenate([_NONE.rows, *lost]), _together)
