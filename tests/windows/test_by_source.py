"""Per-source finality (D4) and punctuated input: each source's windows against a literal re-enactment, row by row.

The re-enactment keeps, for each source, its promises, and for each window the rows that had come when it was
emitted. It catches windows emitted too early, too late or twice, rows lost or counted twice, and wrong counts.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows.given import MOST_RUNS
from slackwater.windows.spec import WindowSpec
from tests.kit.streams import SAMPLE, WINDOWS, frame

Row = tuple[int | None, str | None, int | None]  # time, source, punctuation
NOTHING = -(2**63)


@dataclass
class Reenactment:
    """What must happen, in plain Python.

    Of each source the emitted windows are kept as MOST_RUNS runs at most; beyond that the oldest two are one, and
    what lies between them counts as emitted.
    """

    spec: WindowSpec
    everyone: str | None = None
    of_all: int = NOTHING
    promised: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: NOTHING))
    taken: Counter[tuple[str, int]] = field(default_factory=Counter)
    emitted: dict[tuple[str, int], int] = field(default_factory=dict)
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    late: Counter[str] = field(default_factory=Counter)
    lost_pairs: int = 0
    ungrammatical: int = 0

    def page(self, rows: list[Row]) -> None:
        before, of_all = dict(self.promised), self.of_all
        for time, source, _ in rows:
            name = "null" if source is None else source
            if time is None:
                continue
            self.ungrammatical += time <= max(before.get(name, NOTHING), of_all)
            # Only what has been emitted for the row's own source is lost.
            lost = {w for w in self._windows(time) if any(low <= w <= high for low, high in self.runs[name])}
            self.lost_pairs += len(lost)
            self.late[name] += len(lost) > 0
            self.taken.update((name, w) for w in self._windows(time) if w not in lost)
        for time, source, upto in rows:
            if time is None and upto is None:
                continue
            name = "null" if source is None else source
            if name == self.everyone:
                self.of_all = max(self.of_all, NOTHING if upto is None else upto)
            else:
                self.promised[name] = max(self.promised[name], NOTHING if upto is None else upto)
        self._emit(self.promised)

    def end(self) -> None:
        self.of_all = 2**62
        self._emit(self.promised)

    def _windows(self, time: int) -> range:
        pane = self.spec.pane_of(time)
        return range(self.spec.first_window(pane), self.spec.last_window(pane) + 1)

    def _closed(self, window: int, promised: int) -> bool:
        return promised >= self.spec.bounds(window)[1] - 1

    def _emit(self, promised: dict[str, int]) -> None:
        new: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for (source, window), n in sorted(self.taken.items()):
            if self._closed(window, max(promised[source], self.of_all)) and (source, window) not in self.emitted:
                self.emitted[source, window] = n
                new[source] = united([*new[source], (window, window)])
        for source, runs in new.items():
            for run in runs:
                self._give(source, run)

    def _give(self, source: str, run: tuple[int, int]) -> None:
        """Windows that are emitted together are one run before the oldest two are united."""
        runs = united([*self.runs[source], run])
        if len(runs) > MOST_RUNS:
            runs[:2] = [(runs[0][0], runs[1][1])]
        self.runs[source] = runs


def united(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of windows, those that touch as one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def pages_of(rows: list[list[Row]]) -> list[pl.DataFrame]:
    return [frame([[t, s, None, None, upto] for t, s, upto in page]) for page in rows]


def query(spec: tuple[int, int], everyone: str | None = None, **more: Any) -> Any:
    policy = punctuated("i", everyone=everyone)
    return arrow_plan(SAMPLE, *spec, disorder=policy, source="g", n="count(*)", **more)


def told(sink: ListSink, spec: WindowSpec) -> dict[tuple[str, int], int]:
    rows = [(("null" if r["g"] is None else r["g"], r["window_start"] // spec.slide), r["n"]) for r in sink.rows]
    assert len(dict(rows)) == len(rows), "a window was emitted twice"
    return dict(rows)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.integers(-30, 60), st.integers(-30, 60), st.none()),
        st.sampled_from(["a", "b", "c", None]),
        st.one_of(st.none(), st.none(), st.integers(-40, 70)),
    ),
    max_size=8,
)


#: Nobody speaks for all, or one of the sources does (S5's [≤ t, *] beside [≤ t, a]).
EVERYONE = st.sampled_from([None, "c"])


@given(
    pages=st.lists(ROWS, min_size=1, max_size=8),
    window=WINDOWS,
    stops=st.sets(st.integers(0, 7)),
    everyone=EVERYONE,
)
def test_each_source_closes_on_its_own_punctuations_and_those_for_all_also_over_restarts(
    pages: list[list[Row]], window: tuple[int, int], stops: set[int], everyone: str | None
) -> None:
    spec = WindowSpec(*window)
    wanted, sink = Reenactment(spec, everyone), ListSink()
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            return Script(query(window, everyone, group_by=["g"]), journal=journal, sink=sink)

        script = begin()
        for n, (rows, page) in enumerate(zip(pages, pages_of(pages), strict=True)):
            wanted.page(rows)
            script.page(page)
            assert told(sink, spec) == wanted.emitted
            if n in stops:
                script = begin()
        figures = script.metrics()
        assert figures["q/window"]["late_rows"] == wanted.late.total()
        assert figures["q/window"]["lost_pairs"] == wanted.lost_pairs
        assert figures["q/window"]["late_by_source"] == {s: n for s, n in wanted.late.items() if n}
        assert figures["source:s"]["ungrammatical_rows"] == wanted.ungrammatical
        wanted.end()
        script.drain()
        assert told(sink, spec) == wanted.emitted


DEVICES = st.tuples(
    st.integers(-30, 60), st.sampled_from(["a1", "a2", "b1", "b2"]), st.one_of(st.none(), st.integers(-40, 70))
)


#: Nine windows apart of one site; the row of the last page lies between the two oldest.
APART = [[(t, "a1", None) for t in range(1, 17, 2)], [(-1, "a1", 15)], [(0, "a2", None)]]


#: Eight runs of windows; new windows are one run with old ones, and would be nine if they came one by one.
NEARLY_TOO_MANY: list[list[tuple[int, str, int | None]]] = [
    [(t, "a1", None) for t in (0, 21, 18, -16, 34, -28, -8, -21, 42, 26)] + [(23, "a1", 63)],
    [(t, "a1", None) for t in (-12, -9, -7)],
    [(t, "a1", None) for t in (14, 8, 39)],
    [(-26, "a1", None)],
]


@example(pages=NEARLY_TOO_MANY, window=(4, 1))
@example(pages=APART, window=(1, 1))
@given(pages=st.lists(st.lists(DEVICES, max_size=8), min_size=1, max_size=8), window=WINDOWS)
def test_punctuations_speak_of_any_group_that_the_rows_tell(
    pages: list[list[tuple[int, str, int | None]]], window: tuple[int, int]
) -> None:
    """S5's group-wise punctuations: the source is the site of a device, an expression."""
    site, spec = "substr(g, 1, 1)", WindowSpec(*window)
    plan = arrow_plan(
        SAMPLE,
        *window,
        select={"t": "t", "site": site, "i": "i"},
        group_by=["site"],
        disorder=punctuated("i"),
        source=site,
        n="count(*)",
    )
    wanted, script = Reenactment(spec), Script(plan)
    for rows in pages:
        wanted.page([(time, device[0], upto) for time, device, upto in rows])
        script.page(pages_of([list(rows)])[0])
        assert {(r["site"], r["window_start"] // spec.slide): r["n"] for r in script.results} == wanted.emitted


@given(pages=st.lists(ROWS, min_size=1, max_size=8), window=WINDOWS, everyone=EVERYONE)
def test_grouped_by_something_else_windows_wait_for_the_furthest_behind(
    pages: list[list[Row]], window: tuple[int, int], everyone: str | None
) -> None:
    """Without the source among the groups, a window is final when the last source has passed its end."""
    script, closed = Script(query(window, everyone, group_by=["h"])), NOTHING
    promised: dict[str | None, int] = {}
    for rows, page in zip(pages, pages_of(pages), strict=True):
        script.page(page)
        for time, source, upto in rows:
            if everyone is not None and source == everyone:
                closed = max(closed, NOTHING if upto is None else upto)
            elif time is not None or upto is not None:
                promised[source] = max(promised.get(source, NOTHING), NOTHING if upto is None else upto)
        closed = max(closed, min(promised.values(), default=NOTHING))
        assert all(r["window_end"] - 1 <= closed for r in script.results)
        assert script.metrics()["source:s"]["heartbeat"] == closed


def test_a_slow_source_delays_only_itself() -> None:
    """One source is an hour behind all others: theirs are final on time."""
    minute = 60
    script = Script(query((10 * minute, 10 * minute), group_by=["g"]))
    final: dict[str, list[int]] = {"fast": [], "slow": []}
    for now in range(0, 180 * minute, 5 * minute):
        late = now - 60 * minute
        rows: list[Row] = [(now, "fast", now - 1), (late, "slow", late - 1)]
        script.page(pages_of([rows])[0], at=now)
        for row in script.results[len(final["fast"]) + len(final["slow"]) :]:
            final[row["g"]].append(now - row["window_end"])
    assert set(final["fast"]) == {0}
    assert set(final["slow"]) == {60 * minute}


def test_a_query_may_bring_a_policy_of_its_own() -> None:
    """Two queries of one stream: the bold one closes at once, the patient one waits; equal ones share."""
    from slackwater.engine.build import add_query

    patient = arrow_plan(SAMPLE, 10, 10, disorder=bounded(100), n="count(*)")
    script = Script(patient)
    sinks = [ListSink(), ListSink()]
    for name, sink in zip(("bold", "bold too"), sinks, strict=True):
        bold = arrow_plan(SAMPLE, 10, 10, disorder=bounded(100), own_disorder=bounded(0), n="count(*)")
        add_query(script.executor, name, bold, sink)
    script.page(frame([[5], [25]]))
    assert script.results == []
    assert [[r["window_start"] for r in sink.rows] for sink in sinks] == [[0], [0]]
    assert script.metrics()["source:s"]["heartbeats"] == {"main": -76, "bounded(0)": 24}
    script.page(frame([[3]]))
    assert script.metrics()["bold/window"]["late_rows"] == 1
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_behind_a_map_each_source_closes_by_its_own_heartbeat() -> None:
    """Rows keep their source through a function; a group closes by the heartbeat of the source that it names."""
    schema = pa.schema([("g", pa.string())])
    plan = arrow_plan(
        SAMPLE,
        10,
        10,
        map=(lambda rows: rows.select(["g"]), schema),
        group_by=["g"],
        source="g",
        disorder=punctuated("i"),
        n="count(*)",
    )
    assert plan.kernel.source == "g"
    script = Script(plan).page(pages_of([[(5, "a", 20), (5, "b", None)]])[0])
    assert [(r["g"], r["window_start"], r["n"]) for r in script.results] == [("a", 0, 1)]
    script.page(pages_of([[(7, "b", 12)]])[0])
    assert [(r["g"], r["window_start"], r["n"]) for r in script.results[1:]] == [("b", 0, 2)]


def test_a_row_that_only_carries_a_punctuation_is_not_missing_its_time() -> None:
    script = Script(query((10, 10)))
    script.page(pages_of([[(None, "a", 5), (None, "a", None), (7, "a", None)]])[0])
    assert script.metrics()["source:s"]["missing_time"] == 1
    assert script.metrics()["source:s"]["rows"] == 2
    assert script.metrics()["source:s"]["heartbeat"] == 5


def test_a_source_that_says_nothing_holds_the_stream_until_the_timeout() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=punctuated("i", timeout="1 second"), source="g", n="count(*)")
    script = Script(plan).page(pages_of([[(5, "a", 50), (7, "quiet", None)]])[0])
    assert script.results == []
    script.advance(999_999)
    assert script.results == []
    script.advance(1)
    assert script.metrics()["source:s"]["heartbeat"] == 7
    script.page(pages_of([[(30, "a", None)]])[0]).advance(1_000_000)
    assert [r["n"] for r in script.results] == [2]


@pytest.mark.parametrize("seed", range(3))
def test_many_sources_are_counted_and_closed_alike_however_they_are_named(seed: int) -> None:
    """A thousand sources through the vectorised way, against the windows of each alone."""
    import random

    source = random.Random(seed)
    names = [f"s{n}" for n in range(1_000)]
    pages: list[list[Row]] = []
    for page in range(4):
        chosen = source.sample(names, 600)
        pages.append([(page * 10 + source.randrange(10), n, page * 10 + source.randrange(-8, 8)) for n in chosen])
    wanted, script = Reenactment(WindowSpec(10, 5)), Script(query((10, 5), group_by=["g"]))
    for rows, frame_of in zip(pages, pages_of(pages), strict=True):
        wanted.page(rows)
        script.page(frame_of)
        assert told(script.sink, wanted.spec) == wanted.emitted
