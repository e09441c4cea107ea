"""A log of partitions: no row is late that keeps the bound, and a partition that has been read holds no other back.

The log is simulated. Rows are written in some order, each at most `slack` older than the newest one before it. They
are read in pages that take a part of each partition, and the log is asked now and then, also late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.progress.log_ends import LogEnds
from slackwater.testing import Script, StreamSpec

SLACK, WIDTH = 8, 10
COLUMNS = "t BIGINT, p STRING, k STRING"
QUERY = f"SELECT k, COUNT(*) AS n FROM s [RANGE {WIDTH}, SLIDE {WIDTH}] GROUP BY k"
BY_PARTITION = f"SELECT p, COUNT(*) AS n FROM s [RANGE {WIDTH}, SLIDE {WIDTH}] GROUP BY p"


@dataclass
class FakeLog:
    """Keeps rows by partition; answers a question when the test wants it to."""

    partitions: dict[str, list[int]]
    position: dict[str, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    at: dict[int, dict[str, int]] = field(default_factory=dict)
    """The positions after each page."""

    def ask(self, page: int) -> None:
        if page not in self.asked:
            self.asked.append(page)

    def write(self, partition: str, time: int) -> None:
        self.partitions.setdefault(partition, []).append(time)

    def read(self, number: int, most: dict[str, int]) -> list[dict[str, Any]]:
        rows = []
        for name, times in self.partitions.items():
            start = self.position.get(name, 0)
            end = min(len(times), start + most.get(name, 0))
            rows += [{"t": t, "p": name, "k": "a"} for t in times[start:end]]
            self.position[name] = end
        # As Spark's notes: all partitions that there are when a page is planned.
        self.at[number] = dict(self.position)
        return rows

    def answer(self, page: int) -> LogEnds:
        """By the ends of now, for the positions after a page."""
        read = {name for name, end in self.at[page].items() if end >= len(self.partitions[name])}
        return LogEnds(page, frozenset(read), frozenset(self.at[page].keys() - read))


def script(query: str, journal: Path | None = None) -> Script:
    spec = StreamSpec(COLUMNS, sw.bounded(SLACK), "t", "p", partitioned=True)
    return Script.from_sql(query, {"s": spec}, journal=journal)


def connect(run: Script, log: FakeLog) -> None:
    run.executor.pages.logs[source_label("s")] = log


def answered(run: Script, log: FakeLog, page: int) -> None:
    run.executor.graph.nodes[source_label("s")].operator.read_to(log.answer(page))
    run.advance(1)


def recomputed(rows: list[dict[str, Any]], by: str) -> list[tuple[int, str, int]]:
    windows: dict[tuple[int, str], int] = {}
    for row in rows:
        key = (row["t"] // WIDTH * WIDTH, row[by])
        windows[key] = windows.get(key, 0) + 1
    return sorted((start, k, n) for (start, k), n in windows.items())


def given_by(run: Script, by: str) -> list[tuple[int, str, int]]:
    return sorted((row["window_start"], row[by], row["n"]) for row in run.results)


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Writes within the bound, reads of a part, answers to old and new questions, restarts."""
    newest, happened = 0, list[tuple[Any, ...]]()
    for _ in range(draw(st.integers(5, 60))):
        kind = draw(st.sampled_from(["write", "write", "write", "read", "answer", "restart"]))
        if kind == "write":
            newest += draw(st.integers(0, 6))
            happened.append(("write", draw(st.sampled_from("0123")), max(0, newest - draw(st.integers(0, SLACK)))))
        elif kind == "read":
            happened.append(("read", draw(st.dictionaries(st.sampled_from("0123"), st.integers(0, 4)))))
        elif kind == "answer":
            happened.append(("answer", draw(st.integers(0, 2))))
        else:
            happened.append(("restart",))
    return happened


@settings(max_examples=60)
@given(happened=happenings(), query=st.sampled_from([(QUERY, "k"), (BY_PARTITION, "p")]))
def test_no_row_within_the_bound_is_late(
    tmp_path_factory: Any, happened: list[tuple[Any, ...]], query: tuple[str, str]
) -> None:
    text, by = query
    journal = tmp_path_factory.mktemp("journal")
    log, run, pages, rows = FakeLog({"0": [], "1": []}), script(text, journal), 0, list[dict[str, Any]]()
    sink = run.sink
    connect(run, log)
    for event in happened:
        if event[0] == "write":
            log.write(event[1], event[2])
        elif event[0] == "read":
            rows += (page := log.read(pages, event[1]))
            run.page(pages_of(page), number=pages)
            pages += 1
        elif event[0] == "answer" and log.asked:
            answered(run, log, log.asked[-1 - event[1] % len(log.asked)])
        elif event[0] == "restart":
            spec = StreamSpec(COLUMNS, sw.bounded(SLACK), "t", "p", partitioned=True)
            run = Script.from_sql(text, {"s": spec}, journal=journal, sink=sink)
            log.asked.clear()
            connect(run, log)
    # All that is left is read, and the log says so: then only what the bound allows is still open.
    rows += (page := log.read(pages, dict.fromkeys("0123", 100)))
    run.page(pages_of(page), number=pages)
    if pages in log.asked:
        answered(run, log, pages)
    assert run.metrics()[source_label("s")]["rows"] == len(rows)
    expected = recomputed(rows, by)
    newest = max((row["t"] for row in rows), default=0)
    closed = [row for row in expected if row[0] + WIDTH <= newest - SLACK]
    answers = given_by(run, by)
    assert [row for row in answers if row not in expected] == [], "an answer without some of its rows"
    assert [row for row in closed if row not in answers] == [], "a partition that was read to its end holds others"
    run.drain()
    assert given_by(run, by) == expected


def pages_of(rows: list[dict[str, Any]]) -> Any:
    return rows or pl.DataFrame(schema={"t": pl.Int64, "p": pl.String, "k": pl.String})


def test_a_quiet_partition_holds_others_until_the_log_says_that_it_has_been_read() -> None:
    log, run = FakeLog({"0": [1, 45], "1": [3]}), script(QUERY)
    connect(run, log)
    run.page(log.read(0, {"0": 9, "1": 9}))
    assert run.results == [] and log.asked == [0]
    answered(run, log, 0)
    assert given_by(run, "k") == [(0, "a", 2)]
    log.write("1", 50)
    log.write("0", 80)
    run.page(log.read(1, {"0": 9}))
    answered(run, log, 1)
    assert len(run.results) == 1, "partition 1 has a row that is still to be read"
    run.page(log.read(2, {"1": 9}))
    answered(run, log, 2)
    assert given_by(run, "k") == [(0, "a", 2), (40, "a", 1), (50, "a", 1)]


def test_a_quiet_partition_delays_only_itself_where_a_query_groups_by_it() -> None:
    log, run = FakeLog({"0": [1, 45], "1": [3, 60]}), script(BY_PARTITION)
    connect(run, log)
    run.page(log.read(0, {"0": 9, "1": 1}))
    answered(run, log, 0)
    assert given_by(run, "p") == [(0, "0", 1)]


def union(partitioned: bool = True) -> Script:
    policy = sw.bounded("0 seconds")
    specs = {"a": StreamSpec("t TIMESTAMP, p STRING", policy, "t", "p", live=True, partitioned=partitioned)}
    specs["b"] = StreamSpec("t TIMESTAMP, p STRING", policy, live=True)
    text = (
        "SELECT COUNT(*) AS n FROM (SELECT t FROM a UNION ALL SELECT t FROM b) [RANGE 10 SECONDS, SLIDE 10 SECONDS]"
    )
    return Script.from_sql(text, specs)


def test_a_log_that_is_empty_does_not_hold_a_union() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for partitioned in (True, False):
        log, run = FakeLog({"0": [], "1": []}), union(partitioned)
        run.executor.pages.logs[source_label("a")] = log
        log.read(0, {})
        run.page([], stream="a", at=0)
        run.page([{"t": start}, {"t": start + timedelta(seconds=30)}], stream="b", at=1)
        assert run.results == [] and log.asked == [0]
        run.executor.graph.nodes[source_label("a")].operator.read_to(log.answer(0))
        run.advance(1)
        assert [row["n"] for row in run.results] == [1]
        # As soon as it has rows, it counts again.
        run.page([{"t": start + timedelta(seconds=31), "p": "0"}], stream="a", at=9)
        run.page([{"t": start + timedelta(seconds=90)}], stream="b", at=10)
        assert [row["n"] for row in run.results] == [1]
