"""A query that is over leaves nothing behind for one that is started under its name, also right after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.errors import RunError
from slackwater.testing import ListSink, arrow_page
from tests.kit.counted import PLAN, Broken, executor, page
from tests.kit.joins import join_of, renamed
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan

JOIN = plan(join_of(renamed(A, "", "t", "g"), renamed(B, "2", "t", "g"), (9, 9), "g = g2"))


def give(to: Executor, number: int, *times: int) -> None:
    to.admit(source_label("s"), page(number, *times))
    to.run_until_idle()


def removed(folder: Path) -> Executor:
    made = executor(folder, other=ListSink(), q=ListSink())
    made.remove("q")
    return made


def stopped(folder: Path) -> Executor:
    made = executor(folder, other=ListSink(), q=ListSink())
    assert made.retire("q") is False, "another query reads its stream"
    return made


def forgotten(folder: Path) -> Executor:
    made = executor(folder, other=ListSink())
    made.forget("q")
    return made


def forgotten_by_the_process_before(folder: Path) -> Executor:
    """It died when its list of queries was written, and before the next record was."""
    made = executor(folder)
    made.keep_only({"other"})
    add_query(made, "other", PLAN, ListSink())
    return made


@pytest.mark.parametrize("over", [removed, stopped, forgotten, forgotten_by_the_process_before])
def test_a_new_query_gets_nothing_of_an_old_one_of_its_name(
    tmp_path: Path, over: Callable[[Path], Executor]
) -> None:
    give(executor(tmp_path, other=ListSink(), q=ListSink()), 0, 1, 2, 3)
    again, fresh = over(tmp_path), ListSink()
    add_query(again, "q", PLAN, fresh)
    give(again, 1, 4)
    again.drain()
    assert [r["n"] for r in fresh.rows] == [1], "three rows came before its time"


def test_a_query_that_could_not_be_started_keeps_its_state(tmp_path: Path) -> None:
    """Its sink fails at what a crash has left; then it is started again."""
    first = executor(tmp_path, q=Broken())
    with pytest.raises(RunError, match="broken"):
        give(first, 0, 1, 2, 30)
    second, sink = executor(tmp_path), ListSink()
    with pytest.raises(RunError, match="broken"):
        add_query(second, "q", PLAN, Broken())
    add_query(second, "q", PLAN, sink)
    give(second, 1, 31)
    second.drain()
    assert [r["n"] for r in sink.rows] == [2, 2]


def joins(folder: Path, parts: dict[str, dict[str, str]], **sinks: ListSink) -> Executor:
    """Queries over one join, which belongs to all of them and has the label of the first."""
    made = executor(folder)
    made.on_failed = lambda query, error, resumable: None
    for name, sink in sinks.items():
        others = [label for n, mine in parts.items() if n != name for label in mine.values()]
        settings = QuerySettings(labels=parts.get(name, {}), reserved=frozenset(others))
        parts[name] = add_query(made, name, JOIN, sink, settings)
    return made


def come(to: Executor, stream: str, number: int, tick: int) -> None:
    to.admit(source_label(stream), arrow_page(frame([[tick, "a"]]), number, 0, "t"))
    to.run_until_idle()


@pytest.mark.parametrize("fails", [False, True])
def test_a_part_that_another_query_has_too_is_not_forgotten(tmp_path: Path, fails: bool) -> None:
    """The join is q's by its name, but the other query's rows are in it."""
    parts: dict[str, dict[str, str]] = {}
    first = joins(tmp_path, parts, q=ListSink(), other=ListSink())
    come(first, "a", 0, 1)
    if fails:
        first.fail(source_label("a"), OSError("Spark cannot read it"))
        first.run_until_idle()
    sink = ListSink()
    del parts["q"]
    again = executor(tmp_path)
    again.forget("q", frozenset(parts["other"].values()))
    add_query(again, "other", JOIN, sink, QuerySettings(labels=parts["other"]))
    come(again, "b", 0, 2)
    again.drain()
    assert [(r["t"], r["t2"]) for r in sink.rows] == [(1, 2)]
