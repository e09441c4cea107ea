"""A query may be called anything: names are fields of labels, and nobody takes a label's text apart."""

from __future__ import annotations

import copy
from pathlib import Path

import polars as pl
import pytest
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.operators.label import Label
from slackwater.operators.page import Page
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal, QueryNote
from slackwater.spark.storage.storage_dir import file_name
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages

NAMES = [
    "a",
    "a/sink",
    "a/window",
    "a#1",
    "source:s",
    "source:s/late",
    "prods/s",
    'it\'s "so"',
    "  ",
    "日本 é",
    "~2f",
]
ROWS = pl.DataFrame({"t": [1, 2, 11]})


class Refusing(ListSink):
    """An output that takes nothing."""

    def write(self, payload: object, commit_id: int) -> None:
        raise OSError("full")


def executor_of(
    folder: Path, outputs: dict[str, ListSink], forgotten: str | None = None
) -> tuple[Executor, FileJournal]:
    """All queries on one stream, behind a filter that they share; one may have been forgotten before."""
    journal = FileJournal(fs.LocalFileSystem(), str(folder))
    executor = Executor(ManualClock(), journal, pages=ArrowPages())
    plan = arrow_plan(ROWS, range=10, slide=10, where="t > 0", n="count(*)")
    if forgotten is not None:
        journal.note({}, [forgotten])
        executor.forget(forgotten, journal.shared)
    for name, output in outputs.items():
        settings = QuerySettings(labels=journal.check(name, "plan"), reserved=journal.reserved(name))
        parts = add_query(executor, name, plan, output, settings)
        journal.note({name: QueryNote("plan", parts)})
    return executor, journal


def page(number: int, first: int) -> Page:
    return arrow_page(pl.DataFrame({"t": [first, first + 1]}), number, 0, "t")


def test_queries_of_any_name_go_on_from_one_journal(tmp_path: Path) -> None:
    sinks = {name: ListSink() for name in NAMES}
    executor, journal = executor_of(tmp_path, sinks)
    executor.admit(source_label("s"), page(0, 1))
    executor.run_until_idle()
    journal.close()
    again, _ = executor_of(tmp_path, sinks)
    again.admit(source_label("s"), page(1, 8))
    again.drain()
    assert {name: [row["n"] for row in sink.rows] for name, sink in sinks.items()} == {key: [4] for key in NAMES}


@pytest.mark.parametrize("refused", ["a", "a/sink", "source:s"])
def test_a_query_of_any_name_fails_alone(refused: str, tmp_path: Path) -> None:
    sinks = {name: Refusing() if name == refused else ListSink() for name in NAMES}
    executor, _ = executor_of(tmp_path, sinks)
    failed = list[str]()
    executor.on_failed = lambda query, error, resumable: failed.append(query)
    executor.admit(source_label("s"), page(0, 1))
    executor.drain()
    assert failed == [refused]
    assert all(sinks[name].rows for name in NAMES if name != refused)


def test_to_forget_a_query_leaves_those_whose_names_begin_like_its_own(tmp_path: Path) -> None:
    sinks = {name: ListSink() for name in NAMES}
    executor, journal = executor_of(tmp_path, sinks)
    executor.admit(source_label("s"), page(0, 1))
    executor.run_until_idle()
    journal.close()
    again, _ = executor_of(tmp_path, sinks, forgotten="a")
    again.admit(source_label("s"), page(1, 8))
    again.drain()
    counts = {name: [row["n"] for row in sink.rows] for name, sink in sinks.items()}
    assert counts == {**{key: [4] for key in NAMES}, "a": [2]}


@pytest.mark.parametrize("name", NAMES)
def test_a_label_comes_back_from_its_fields_and_from_a_copy(name: str) -> None:
    label = Label(name, "window", 2)
    for again in (Label.from_json(label.to_json()), copy.deepcopy(label)):
        assert (again.query, again.role, again.number, str(again)) == (name, "window", 2, f"{name}/window2")


def test_labels_are_other_texts_and_other_files_if_a_field_is_another() -> None:
    labels = [Label(name, role) for name in NAMES for role in ("window", "sink", "late")] + [source_label("s")]
    assert len(set(labels)) == len(set(map(file_name, labels))) == len(labels)
    assert all(set(file_name(label)) <= set("abcdefghijklmnopqrstuvwxyz0123456789~_-.") for label in labels)
    assert len(file_name("x" * 1000)) < 200 and file_name("x" * 1000) != file_name("x" * 1001)
