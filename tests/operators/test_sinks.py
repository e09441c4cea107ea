"""Sinks without Spark: one schema for early and final results, and what a function may give back."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan.nodes import WindowNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.sinks.sinks import CallableSink, make_sink, sink_by_name
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ArrowPages, Script, arrow_plan
from slackwater.windows.results import early_schema
from tests.kit.streams import SAMPLE, frame

DISK = Disk(fs.LocalFileSystem(), sync=False)
#: Tables stay tables.
PAGES: Any = SimpleNamespace(
    given=lambda table, schema: table,
    root=StorageDir.of("/nowhere"),
    disk=DISK,
    matching=ArrowPages().here.matching,
)


def plan(**window: Any) -> Any:
    window = window or {"range": 10, "slide": 10}
    aggregates = {"n": "count(*)", "total": "sum(x)", "last": "max(s)"}
    return arrow_plan(SAMPLE, **window, group_by=["g"], disorder=bounded(5), **aggregates)


def play(sink: Any, late: Any = None, **window: Any) -> Script:
    script = Script(plan(**window), sink=sink, late=late)
    return script.page(frame([[1, "a"], [20, "b"]])).page(frame([[2, "a"], [40, "b"]]))


@pytest.mark.parametrize("early_first", [False, True])
def test_early_and_final_files_are_one_table(tmp_path: Path, early_first: bool) -> None:
    at_once = sw.parquet(tmp_path, every="0 seconds")
    script = Script(plan(), sink=make_sink(at_once, "run", PAGES, plan()))  # type: ignore[arg-type]
    script.page(frame([[1, "a"]]))
    if early_first:
        script.prod()
    script.page(frame([[20, "b"]])).prod().drain()
    made = plan()
    assert isinstance(made, WindowNode)
    wanted = early_schema(made.schema, made.kernel)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) > 2 and all(pq.read_schema(f).equals(wanted) for f in files)
    rows = pl.read_parquet(tmp_path / "*.parquet")
    nulls = rows.group_by("kind").agg(pl.col("n_seen").null_count()).sort("kind").rows()
    assert nulls == [("early", 0), ("final", 2)]


def test_windows_of_each_row_have_early_columns_too(tmp_path: Path) -> None:
    made = plan(range=10)
    Script(made, sink=make_sink(tmp_path, "run", PAGES, made)).page(frame([[1, "a"]])).drain()  # type: ignore[arg-type]
    assert made.early_schema is not None and len(made.early_schema) > len(made.schema)
    assert pl.read_parquet(tmp_path / "*.parquet").columns == made.early_schema.names


def test_a_function_always_gets_the_same_columns() -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    def take(rows: Any, commit_id: int) -> object:
        seen.append((rows["kind"][0].as_py(), tuple(rows.column_names)))
        return True

    play(CallableSink(take, PAGES, plan()))
    assert {kind for kind, _ in seen} == {"early", "final"} and len({names for _, names in seen}) == 1


@pytest.mark.parametrize(
    "asked",
    [sw.prod(until="soon"), sw.prod(until=[]), sw.prod(where="carrier = 'AA'"), sw.prod(where="g = 'O'Hare'")],
)
def test_a_wrong_prod_of_a_sinks_function_is_counted_and_told_once(
    asked: object, caplog: pytest.LogCaptureFixture
) -> None:
    sink = CallableSink(lambda rows, commit_id: asked, PAGES, plan())
    with caplog.at_level(logging.WARNING):
        script = play(sink)
    assert sink.refused > 1
    assert [r.getMessage().count("prod(") for r in caplog.records] == [1]
    assert script.metrics()["q/window"]["early_results"] == 0


def test_a_window_of_each_row_is_prodded_by_its_sink() -> None:
    sink = CallableSink(lambda rows, commit_id: True, PAGES, plan(range=10))
    script = play(sink, range=10)
    assert sink.refused == 0 and script.metrics()["q/window"]["early_results"] > 0


def test_what_a_late_sinks_function_gives_back_asks_for_nothing() -> None:
    late: list[int] = []

    def take(rows: Any, commit_id: int) -> object:
        late.append(commit_id)
        return True

    script = play(CallableSink(lambda rows, commit_id: None, PAGES, plan()), make_sink(take, "late", PAGES))
    assert late and script.metrics()["q/window"]["early_results"] == 0


def test_a_filter_of_results_counts_the_rows_that_it_lets_through() -> None:
    made = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(5), having="n > 1", n="count(*)")
    script = Script(made).page(frame([[1, "a"], [2, "a"], [3, "b"], [4, "c"]])).prod().drain()
    assert [(row["kind"], row["g"]) for row in script.results] == [("early", "a"), ("final", "a")]
    operators = script.executor.snapshot().operators
    (where,) = (figures for label, figures in operators.items() if "where" in label)
    assert (where["rows_in"], where["rows_out"]) == (6, 2)
    sink = operators["q/sink"]
    assert (sink["rows_in"], sink["results"], sink["early_results"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("name", "values", "settings", "message"),
    [
        ("parket", ["out"], {}, r"there is no sink 'parket' \(did you mean 'parquet'\?\); there are .*parquet"),
        ("parquet", ["out"], {"evry": "1 s"}, r"parquet\(…\): .*'evry'; its settings are folder, every"),
        ("parquet", ["out"], {"every": "soon"}, r"parquet\(every='soon'\): write a time"),
    ],
)
def test_a_sink_that_sql_names_must_be_there_with_its_settings(
    name: str, values: list[str], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        sink_by_name(name, values, settings, str)


def test_a_relative_folder_in_sql_starts_where_the_text_says() -> None:
    assert sink_by_name("parquet", ["out"], {}, lambda written: f"/data/{written}") == sw.sinks.parquet("/data/out")
