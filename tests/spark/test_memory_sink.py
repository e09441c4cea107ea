"""Results in memory: final rows, the last early answer of a window and group, a bounded size, and reading along."""

from __future__ import annotations

import logging
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import QueryError
from slackwater.operators.payload import Staged
from slackwater.plan.nodes import StepNode
from slackwater.plan.result_keys import result_keys
from slackwater.plan.steps import Select
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.sinks.memory_sink import MemorySink
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

NO_PAGES: Any = None


def plan(**more: Any) -> Any:
    return arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(5), n="count(*)", **more)


def script_of(**bound: int) -> tuple[Script, MemorySink]:
    sink = MemorySink(NO_PAGES, plan().schema, result_keys(plan()), **bound)
    return Script(plan(), sink=sink), sink  # type: ignore[arg-type]


def said(table: pa.Table) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["window_start"], r["g"], r["n"]) for r in table.to_pylist()]


def test_an_early_answer_stays_until_a_later_one_or_the_final_one_comes() -> None:
    script, sink = script_of()
    script.page(frame([[1, "a"], [2, "b"]])).prod()
    assert said(sink.table()) == [("early", 0, "a", 1), ("early", 0, "b", 1)]
    script.page(frame([[3, "a"]])).prod(where="g = 'a'")
    assert said(sink.table()) == [("early", 0, "b", 1), ("early", 0, "a", 2)]
    script.page(frame([[11, "a"], [16, "a"]])).prod()
    assert said(sink.table()) == [("final", 0, "a", 2), ("final", 0, "b", 1), ("early", 10, "a", 2)]
    script.drain()
    assert said(sink.table()) == [("final", 0, "a", 2), ("final", 0, "b", 1), ("final", 10, "a", 2)]
    assert sink.dropped == 0


def test_many_prods_take_no_more_memory_than_one() -> None:
    script, sink = script_of()
    script.page(frame([[1, str(g)] for g in range(50)])).prod()
    once = sink.table().nbytes
    for _ in range(40):
        script.prod()
    assert sink.table().num_rows == 50 and sink.table().nbytes <= 1.1 * once


def test_a_group_that_is_null_is_a_group_too() -> None:
    script, sink = script_of()
    script.page(pl.concat([frame([[1, "a"]]), frame([[1, None]])])).prod().prod()
    assert sorted(said(sink.table()), key=str) == [("early", 0, "a", 1), ("early", 0, None, 1)]


def test_one_reads_along_with_the_table_that_one_has() -> None:
    script, sink = script_of()
    seen = sink.table()
    assert seen.num_rows == 0
    script.page(frame([[1, "a"]])).prod()
    news = sink.table(since=seen)
    assert said(news) == [("early", 0, "a", 1)]
    assert sink.table(since=news).num_rows == 0
    script.page(frame([[16, "b"]])).prod()
    # What one takes out of a table does not matter, nor that the early row is gone.
    after = sink.table(since=news.filter(pa.array([False])).select(["g"]))
    assert said(after) == [("final", 0, "a", 1), ("early", 10, "b", 1)]
    assert said(sink.table(since=seen)) == said(sink.table())


@pytest.mark.parametrize("since", [7, "yesterday", pa.table({"n": [1]})])
def test_only_a_table_of_results_can_be_read_on_from(since: object) -> None:
    with pytest.raises(QueryError, match=r"give a table that results\(\) of this run has returned"):
        script_of()[1].table(since)


def test_the_oldest_rows_go_when_there_are_too_many_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    script, sink = script_of(most_bytes=3_000)
    with caplog.at_level(logging.WARNING):
        for n in range(200):
            script.page(frame([[10 * n + 9, "a"]]))
            script.prod()
    table = sink.table()
    assert sink.bytes <= 3_000
    finals = [start for kind, start, _, _ in said(table) if kind == "final"]
    assert 2 < len(finals) < 199 and finals == list(range(finals[0], 1_990, 10)), "the newest stay"
    assert sink.dropped == 199 - len(finals)
    assert ["results_dropped in run.metrics()" in r.getMessage() for r in caplog.records] == [True]


def test_early_rows_that_nobody_ends_are_dropped_too() -> None:
    sink = MemorySink(NO_PAGES, plan().schema, result_keys(plan()), most_bytes=2_000)
    for n in range(100):
        sink.write(pa.table({"g": ["a"], "window_start": [n], "window_end": [n + 10], "kind": ["early"]}), n)
    assert sink.bytes <= 2_000
    assert sink.dropped == 100 - sink.table().num_rows and sink.table()["window_start"].to_pylist()[-1] == 99


def test_many_small_commits_become_few_tables() -> None:
    sink = MemorySink(NO_PAGES, None)
    seen = sink.table()
    for n in range(2_000):
        sink.write(pa.table({"x": [n]}), n)
        seen = sink.table(since=seen)
        assert seen["x"].to_pylist() == [n]
    assert sink.table()["x"].to_pylist() == list(range(2_000))
    assert sink.table()["x"].num_chunks < 300


def test_staged_rows_are_taken_file_by_file(tmp_path: Any) -> None:
    class Pages:
        root = StorageDir.of(tmp_path)

    (tmp_path / "staged").mkdir()
    for n in range(5):
        pq.write_table(pa.table({"x": list(range(n * 1000, n * 1000 + 1000))}), tmp_path / f"staged/{n}.parquet")
    sink = MemorySink(Pages, None, most_bytes=17_000)  # type: ignore[arg-type]
    sink.write(Staged("staged", 5_000), 0)
    assert sink.table()["x"].to_pylist() == list(range(3_000, 5_000)) and sink.dropped == 3_000


@pytest.mark.parametrize(
    ("select", "keys"),
    [
        (None, ("g",)),
        ({"who": "g", "n": "n"}, ("who",)),
        ({"n": "n"}, ()),
        ({"g": "upper(g)", "n": "n"}, ()),
    ],
)
def test_a_group_is_known_by_its_columns_under_any_name(select: Any, keys: tuple[str, ...]) -> None:
    made = plan()
    if select is not None:
        made = StepNode((made,), Select(tuple(select.items())), made.schema)
    assert result_keys(made) == ("window_start", "window_end", *keys)


def test_final_rows_replace_nothing() -> None:
    made = arrow_plan(SAMPLE, range=10, group_by=["g"], disorder=bounded(0), n="count(*)")
    assert result_keys(made) == ("window_start", "window_end", "g")
    sink = MemorySink(NO_PAGES, made.schema, result_keys(made))
    Script(made, sink=sink).page(frame([[1, "a"], [1, "a"]])).drain()  # type: ignore[arg-type]
    assert sink.table().num_rows == 2
