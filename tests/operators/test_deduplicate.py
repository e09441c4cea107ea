"""`drop_duplicates` against a from-scratch recomputation: row by row, in the order of arrival.

The oracle remembers every row that went on, for ever, and asks each row whether one of them is near. It catches
rows that go on twice or not at all, keys that are forgotten too early, and late rows that are guessed at.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import QueryError
from slackwater.operators.deduplicate import Deduplicate
from slackwater.operators.stores import CellTables
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.state.cell_folders import CellFolders
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script
from slackwater.testing.pages import ArrowPages
from slackwater.testing.stores import ArrowStores
from slackwater.testing.types import SampleRelation, SampleTypes
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame, unbounded_streams

NEVER = -(2**63)
Row = dict[str, Any]


def plan(
    within: int,
    keys: tuple[str, ...] = ("g",),
    policy: Disorder | None = None,
    source: str | None = None,
    over: L.Window | None = None,
    sample: pl.DataFrame = SAMPLE,
) -> PlanNode:
    relation = SampleRelation(sample)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    policy = policy or bounded(0)
    told = getattr(policy, "column", None)
    node = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, policy, source, told, relation.schema)
    query: L.Logical = L.DropDuplicates((L.Scan("s"),), keys, within)
    if over is not None:
        query = L.Aggregate((query,), over, ((None, "g"),), (("n", "count(*)"), ("total", "sum(i)")))
    return analyse(query, SampleTypes({"s": (node, relation)}))


class Oracle:
    """Remembers all rows that went on. A row is late where the cell before its own is past."""

    def __init__(self, within: int, keys: tuple[str, ...], by_source: bool = False) -> None:
        self.within, self.keys, self.by_source = within, keys, by_source
        self.went: list[Row] = []
        self.forgotten: list[Row] = []
        self.late = self.duplicates = 0
        self.limit = NEVER

    def page(self, rows: pl.DataFrame) -> list[Row]:
        """The rows of a page that go on: the earliest first, then by their columns."""
        order = [c for c in rows.columns if c != "t" and c not in self.keys]
        timed = rows.drop_nulls("t").sort("t", *order, maintain_order=True).to_dicts()
        given: list[Row] = []
        judged = [(row, self._near(row, self.went), self._is_late(row)) for row in timed]
        for row, near, late in judged:
            if near:
                self.duplicates += 1
            elif late:
                self.late += 1
            elif self._near(row, given):
                self.duplicates += 1
            else:
                given.append(row)
        self.went += given
        return given

    def _near(self, row: Row, others: list[Row]) -> bool:
        return any(
            abs(other["t"] - row["t"]) <= self.within and all(other[k] == row[k] for k in self.keys)
            for other in others
        )

    def _is_late(self, row: Row) -> bool:
        limit = self.limit
        if self.by_source:
            mine = [other["t"] for other in self.forgotten if other["g"] == row["g"]]
            limit = min(limit, max(mine, default=NEVER))
        return limit > NEVER and row["t"] - self.within <= limit

    def time(self, beat: int | None) -> None:
        limit = NEVER if beat is None else ((beat + 1) // self.within - 1) * self.within - 1
        if limit > self.limit:
            self.limit = limit
            self.forgotten += [row for row in self.went if row["t"] <= self.limit]
            self.went = [row for row in self.went if row["t"] > self.limit]


def same(one: list[Row], other: list[Row]) -> bool:
    return sorted(map(str, one)) == sorted(map(str, other))


class SpillingStores(ArrowStores):
    """Files below a folder, as on Spark."""

    folder: Path

    def cells(self, label: str) -> CellTables:
        pages = SparkPages(SparkBackend(None, StorageDir.of(self.folder)))  # type: ignore[arg-type]
        return CellFolders(label, pages)


def script_of(made: PlanNode, folder: str, sink: ListSink, limit: int | None = None, **settings: Any) -> Script:
    """A script on a journal; with a limit, rows beyond these bytes go to files."""
    journal = FileJournal(fs.LocalFileSystem(), f"{folder}/journal", sync=False)
    stores = type("Stores", (SpillingStores,), {"folder": Path(folder) / "files"})
    script = Script(made, journal, sink, pages=ArrowPages(stores=stores), **settings)
    for node in script.executor.graph:
        if isinstance(node.operator, Deduplicate) and limit is not None:
            node.operator._limit = limit
    return script


@given(
    stream=st.one_of(bounded_streams(), unbounded_streams()),
    within=st.integers(1, 15),
    keys=st.sampled_from([("g",), ("g", "h"), ("x",), ("t", "g"), ()]),
    stops=st.sets(st.integers(0, 10)),
    limit=st.sampled_from([None, 0, 200]),
)
def test_the_first_row_goes_on_and_those_near_it_do_not(
    stream: Stream, within: int, keys: tuple[str, ...], stops: set[int], limit: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink, late = ListSink(), ListSink()

        def begin() -> Script:
            return script_of(plan(within, keys, bounded(stream.slack)), folder, sink, limit, late=late)

        script, oracle, wanted = begin(), Oracle(within, keys or tuple(SAMPLE.columns)), []
        for number, page in enumerate(stream.pages):
            wanted += oracle.page(page)
            script.page(page)
            oracle.time(script.metrics()["source:s"]["heartbeat"])
            assert same(sink.rows, wanted), "rows go on at once"
            if number in stops:
                script = begin()
        figures = script.metrics()["q/distinct0"]
    assert (figures["late_rows"], figures["duplicates"]) == (oracle.late, oracle.duplicates)
    assert figures["state_rows"] == len(oracle.went)
    assert len(late.rows) == oracle.late + stream.rows["t"].null_count()


PUNCTUATED = SAMPLE.with_columns(upto=pl.lit(0, pl.Int64))


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-20, 40), st.sampled_from(["a", "b", "c"]), st.one_of(st.none(), st.integers(-10, 50))
        ),
        max_size=30,
    ),
    cuts=st.sets(st.integers(0, 30)),
    within=st.integers(1, 10),
    stops=st.sets(st.integers(0, 10)),
    limit=st.sampled_from([None, 0]),
)
def test_a_new_source_loses_nothing(
    rows: list[tuple[int, str, int | None]], cuts: set[int], within: int, stops: set[int], limit: int | None
) -> None:
    bounds = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            made = plan(within, ("g", "h"), punctuated("upto"), source="g", sample=PUNCTUATED)
            return script_of(made, folder, sink, limit)

        script, oracle, wanted = begin(), Oracle(within, ("g", "h"), by_source=True), []
        for number, (low, high) in enumerate(pairwise(bounds)):
            part = rows[low:high]
            page = frame([[t, g, 0, 0.0, 1] for t, g, _ in part])
            page = page.with_columns(upto=pl.Series([u for *_, u in part], dtype=pl.Int64))
            wanted += oracle.page(page)
            script.page(page)
            oracle.time(script.metrics()["source:s"]["heartbeat"])
            assert same(sink.rows, wanted)
            if number in stops:
                script = begin()
        figures = script.metrics()["q/distinct0"]
    assert (figures["late_rows"], figures["duplicates"]) == (oracle.late, oracle.duplicates)
    assert sum(figures["late_by_source"].values()) == oracle.late


@given(stream=bounded_streams(), within=st.integers(1, 10), stops=st.sets(st.integers(0, 10)))
def test_a_window_over_it_counts_what_goes_on(stream: Stream, within: int, stops: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            made = plan(within, ("g", "i"), bounded(stream.slack), over=L.Window(7, 7))
            return script_of(made, folder, sink)

        script, oracle, went = begin(), Oracle(within, ("g", "i")), []
        for number, page in enumerate(stream.pages):
            went += oracle.page(page)
            script.page(page)
            oracle.time(script.metrics()["source:s"]["heartbeat"])
            script.prod()
            if number in stops:
                script = begin()
        script.drain()
    counted: dict[tuple[Any, int], int] = {}
    for row in went:
        place = row["g"], row["t"] // 7 * 7
        counted[place] = counted.get(place, 0) + 1
    finals = [row for row in sink.rows if row["kind"] == "final"]
    assert {(row["g"], row["window_start"]): row["n"] for row in finals} == counted
    early = [row for row in sink.rows if row["kind"] == "early"]
    assert all(row["n_seen"] <= counted[row["g"], row["window_start"]] for row in early)


def test_a_duplicate_is_at_most_this_far_away_on_either_side() -> None:
    script = Script(plan(10, policy=bounded(30)))
    script.page(frame([[20, "a"]])).page(frame([[30, "a"], [10, "a"], [31, "a"], [9, "a"]]))
    assert sorted(row["t"] for row in script.results) == [9, 20, 31]


def test_null_is_a_key_and_so_is_not_a_number() -> None:
    nan = float("nan")
    script = Script(plan(10, ("x",))).page(frame([[1, "a", 0, None], [1, "b", 0, nan]]))
    script.page(frame([[2, "a", 0, None], [2, "b", 0, nan], [2, "c", 0, -0.0], [3, "c", 0, 0.0]]))
    assert [row["t"] for row in script.results] == [1, 1, 2]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: plan(0), r"drop_duplicates\(within=0\): it must be positive"),
        (lambda: plan(5, ("gg",)), r"there is no column 'gg' \(did you mean 'g'\?\)"),
    ],
)
def test_what_makes_no_sense_is_refused(made: Callable[[], PlanNode], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        made()


def test_in_sql() -> None:
    streams = {"s": (pa.schema([("t", pa.int64()), ("id", pa.string())]), bounded(5))}
    script = Script.from_sql("SELECT id FROM DROP_DUPLICATES(TABLE s, DESCRIPTOR(id), 10) WHERE t > 0", streams)
    script.page([{"t": 1, "id": "a"}, {"t": 1, "id": "a"}, {"t": 2, "id": "b"}, {"t": 12, "id": "a"}])
    assert [row["id"] for row in script.results] == ["a", "b", "a"]
    assert "drop duplicates of id within 10" in script.plan.inputs[0].inputs[0].describe()
