"""A new source loses nothing (D10): a row is lost only to a window that was emitted for its own source.

Sources appear at random instants with delays of their own. What was emitted is watched page by page: it catches
windows emitted twice, rows called late for windows that their source never had, and rows left out or counted twice.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.bounds.skew_policy import skew
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.windows.given import MOST_RUNS, GivenWindows
from slackwater.windows.spec import WindowSpec
from tests.kit.streams import WINDOWS

SECOND = 1_000_000
NAMES = ["a", "b", "c", "d"]
SAMPLE = pl.DataFrame({"t": [0], "g": ["a"]})

POLICIES: dict[str, Disorder] = {
    "bounded": bounded(6),
    "skew": skew({("a", "b"): (2, 5), ("b", "a"): (3, 4), ("a", "c"): (2, 9), ("a", "a"): (0, 3)}, timeout=40),
    "sensors": sensors(3, timeout=25),
    "learned": learned(window=9, tmax="4 us", unit="2 us", timeout="30 us"),
    "learned in groups": learned(window=9, tmax="4 us", unit="2 us", groups=5),
    "drop_ratio": drop_ratio("20%", stretch=10),
}


@dataclass(frozen=True)
class Page:
    """Rows that come together."""

    at: int
    rows: list[tuple[int, str]]


@st.composite
def streams(draw: st.DrawFn) -> list[Page]:
    """Pages of sources that appear sooner or later; each is behind by a delay of its own, and pauses."""
    appears = {name: draw(st.sampled_from([0, 0, 3, 8, 15])) for name in NAMES}
    behind = {name: draw(st.sampled_from([0, 0, 10, 40])) for name in NAMES}
    pages = []
    for k in range(draw(st.integers(4, 24))):
        here = [n for n in NAMES if appears[n] <= k and draw(st.integers(0, 3))]
        rows = [
            (3 * k - behind[n] - draw(st.integers(0, 8)), n) for n in here for _ in range(draw(st.integers(1, 2)))
        ]
        pages.append(Page(3 * k, rows))
    return pages


class Watch:
    """What has been emitted, and what must have been lost by then."""

    def __init__(self, spec: WindowSpec, sink: ListSink) -> None:
        self._spec, self._sink = spec, sink
        self._seen = 0
        self.emitted: dict[tuple[str, int], int] = {}
        self._taken: Counter[tuple[str, int]] = Counter()
        self.lost_pairs = 0
        self.late: list[tuple[int, str]] = []

    def coming(self, page: Page) -> None:
        """A page will be sent: what of it is late follows from what has been emitted until now."""
        for time, source in page.rows:
            pane = self._spec.pane_of(time)
            windows = range(self._spec.first_window(pane), self._spec.last_window(pane) + 1)
            lost = [w for w in windows if (source, w) in self.emitted]
            self.lost_pairs += len(lost)
            self.late += [(time, source)] if lost else []
            self._taken.update((source, w) for w in windows if w not in lost)

    def look(self) -> None:
        """Every new result is of a window that its source has not had, and counts all rows that were not late."""
        rows = self._sink.rows
        for row in rows[self._seen :]:
            key = row["g"], (row["window_start"] - self._spec.offset) // self._spec.slide
            assert key not in self.emitted, "a window was emitted twice"
            assert row["n"] == self._taken[key]
            self.emitted[key] = row["n"]
        self._seen = len(rows)

    def end(self) -> None:
        """All that was taken has been emitted."""
        assert self.emitted == dict(self._taken)


#: Their rules are like those of the others.
ALIKE = ("bounded", "sensors", "learned in groups", "learned")


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=name, marks=[pytest.mark.long] if name in ALIKE else [])
        for name, policy in POLICIES.items()
    ],
)
@settings(max_examples=40)
@given(pages=streams(), window=WINDOWS, stops=st.sets(st.integers(0, 23), max_size=3))
def test_a_row_is_late_only_for_a_window_that_was_emitted_for_its_own_source(
    policy: Disorder, pages: list[Page], window: tuple[int, int], stops: set[int]
) -> None:
    spec, sink, late = WindowSpec(*window), ListSink(), ListSink()
    watch = Watch(spec, sink)
    plan = arrow_plan(SAMPLE, *window, group_by=["g"], source="g", disorder=policy, n="count(*)")
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            return Script(plan, journal=FileJournal(fs.LocalFileSystem(), folder, sync=False), sink=sink, late=late)

        script = begin()
        for k, page in enumerate(pages):
            watch.coming(page)
            script.page(pl.DataFrame(page.rows, schema={"t": pl.Int64, "g": pl.String}, orient="row"), at=page.at)
            watch.look()
            if k in stops:
                script = begin()
                script.clock.set(page.at)
                watch.look()
        figures = script.metrics()["q/window"]
        assert (figures["lost_pairs"], figures["late_rows"]) == (watch.lost_pairs, len(watch.late))
        assert figures["late_by_source"] == Counter(source for _, source in watch.late)
        assert sorted((row["t"], row["g"]) for row in late.rows) == sorted(watch.late)
        script.drain()
        watch.look()
        watch.end()


# --- a source that is an hour behind


def hour_behind(appears: float, minutes: int) -> list[tuple[int, pl.DataFrame]]:
    """Ten sources, pages of 30 seconds; one is an hour behind, and comes first at some minute."""
    rng, parts = np.random.default_rng(7), []
    for k in range(10):
        made = np.sort(rng.uniform(0, minutes * 60, minutes * 12))
        arrival, behind = made + rng.exponential(5, len(made)), 3_600 if k == 0 else 0
        here = made >= (60 * appears if k == 0 else 0)
        times = ((made - behind + 100_000)[here] * SECOND).astype(np.int64)
        columns = {"at": (arrival[here] * SECOND).astype(np.int64), "t": times, "g": [f"s{k}"] * len(times)}
        parts.append(pl.DataFrame(columns))
    rows = pl.concat(parts).sort("at").with_columns(pl.col("at") // (30 * SECOND))
    return [((k + 1) * 30 * SECOND, p.select("t", "g")) for (k,), p in rows.group_by("at", maintain_order=True)]


def play(policy: Disorder, pages: list[tuple[int, pl.DataFrame]]) -> Script:
    plan = arrow_plan(
        SAMPLE,
        "5 minutes",
        "1 minute",
        group_by=["g"],
        source="g",
        domain=TimeDomain.TIMESTAMP,
        disorder=policy,
        n="count(*)",
    )
    script = Script(plan)
    for at, rows in pages:
        script.until(at).page(rows, at=at)
    return script.drain()


def shares_lost(script: Script, pages: list[tuple[int, pl.DataFrame]]) -> dict[str, float]:
    """By source: the share of (row, window) pairs that no result has."""
    sent = pl.concat(rows for _, rows in pages).group_by("g").len().rows()
    taken: Counter[str] = Counter()
    for row in script.results:
        taken[row["g"]] += row["n"]
    return {source: 1 - taken[source] / (5 * rows) for source, rows in sent}


@pytest.mark.parametrize("appears", [60, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 20))])
def test_with_learned_skew_a_source_an_hour_behind_loses_nothing_whenever_it_comes(appears: int) -> None:
    pages = hour_behind(appears, minutes=80)
    script = play(learned(), pages)
    lost = shares_lost(script, pages)
    assert max(lost.values()) < 0.02
    others: list[Any] = [r for r in script.results if r["g"] != "s0"]
    waits = [(r["emitted_at"] - r["window_end"]).total_seconds() + 100_000 for r in others]
    assert np.quantile(waits, 0.95) <= 90, "the others do not wait for it"


def test_a_punctuation_that_was_said_before_a_source_was_known_closes_nothing_of_it() -> None:
    """Pages wait on the arcs: what was said of the first ones comes behind the page with the new source."""
    plan = arrow_plan(SAMPLE, 10, 10, group_by=["g"], source="g", disorder=learned(), n="count(*)")
    script = Script(plan)
    for t in range(0, 200, 20):
        script.page(pl.DataFrame({"t": [t], "g": ["a"]}))
    pages = [{"t": [200], "g": ["a"]}, {"t": [51, 220], "g": ["new", "a"]}, {"t": [53, 240], "g": ["new", "a"]}]
    for number, rows in enumerate(pages, 10):
        page = arrow_page(pl.DataFrame(rows), number, 0, "t", "g")
        script.executor.admit("source:s", page)
    script.executor.run_until_idle()
    script.drain()
    assert [(r["window_start"], r["n"]) for r in script.results if r["g"] == "new"] == [(50, 2)]
    assert script.metrics()["q/window"]["late_rows"] == 0


# --- runs of given windows


def runs(windows: set[int]) -> int:
    return sum(w - 1 not in windows for w in windows)


BATCHES = st.lists(st.tuples(st.sampled_from("ab"), st.sets(st.integers(-20, 20), max_size=6)), max_size=12)


@given(batches=BATCHES, restarts=st.sets(st.integers(0, 11)))
def test_given_windows_are_known_one_by_one_until_there_are_too_many_runs(
    batches: list[tuple[str, set[int]]], restarts: set[int]
) -> None:
    given, tables = GivenWindows(), []
    wanted: dict[str, set[int]] = {"a": set(), "b": set()}
    exact = {"a": True, "b": True}
    for k, (source, windows) in enumerate(batches):
        new = sorted(windows - wanted[source], reverse=True)
        given.add([source] * len(new), np.array(new, np.int64))
        exact[source] &= runs(wanted[source]) + runs(set(new)) <= MOST_RUNS
        wanted[source] |= windows
        table = given.table(whole=False)
        tables += [] if table is None else [table]
        if k in restarts:
            given = GivenWindows()
            given.load(tables)
    for source, windows in wanted.items():
        every = np.arange(-25, 26)
        found = given.count([source] * len(every), every, every)
        known = set(every[found > 0].tolist())
        assert windows <= known
        assert found.max() <= 1
        assert known == windows or not exact[source]


def test_of_too_many_runs_the_oldest_gap_is_forgotten() -> None:
    given = GivenWindows()
    for window in range(0, 4 * (MOST_RUNS + 1), 4):
        given.add(["a"], np.array([window]))
    asked = np.array([0, 1, 4, 5, 8, 9])
    assert given.count(["a"] * 6, asked, asked).tolist() == [1, 1, 1, 0, 1, 0]
