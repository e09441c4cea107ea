"""Sources of prods (S5 section 3.2): a stream of prods, and the feedback of a sink. Final results stay the same."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.errors import RunError
from slackwater.operators import prod_stream
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from tests.kit.streams import SAMPLE, WINDOWS, Stream, assert_same_rows, bounded_streams, finals, frame
from tests.kit.streams_of_samples import A, B, plan, union, windows


class AskingSink(ListSink):
    """Asks for more after a commit; counts what it was given between two pages."""

    def __init__(self, ask: Callable[[str, int], Prod | None]) -> None:
        super().__init__()
        self._ask = ask
        self.given: Counter[str] = Counter()

    def write(self, payload: Payload, commit_id: int) -> Prod | None:  # type: ignore[override]
        super().write(payload, commit_id)
        kind = self.commits[commit_id]["kind"][0].as_py()
        self.given[kind] += 1
        return self._ask(kind, commit_id)


def counts(slack: int = 5, size: int = 10) -> Any:
    return arrow_plan(SAMPLE, size, size, group_by=["g"], disorder=bounded(slack), n="count(*)")


# --- feedback


def test_a_sink_that_asks_after_a_final_answer_is_told_of_the_open_windows() -> None:
    sink = AskingSink(lambda kind, _: Prod(where="g = 'a'") if kind == "final" else None)
    script = Script(counts(), sink=sink).page(frame([[1, "a"], [18, "a"], [18, "b"]]))
    assert [(r["kind"], r["g"], r["window_start"]) for r in script.results] == [
        ("final", "a", 0),
        ("early", "a", 10),
    ]


def test_a_sink_that_always_asks_is_answered_twice_a_page_and_not_for_ever() -> None:
    sink = AskingSink(lambda kind, _: Prod())
    script = Script(counts(), sink=sink)
    script.page(frame([[1, "a"], [18, "a"]]))
    assert sink.given == {"final": 1, "early": 2}  # for the final answer, and once for the answer to that
    sink.given.clear()
    script.prod()
    assert sink.given == {"early": 1}
    script.page(frame([[17, "a"]]))
    assert sink.given == {"early": 1}  # no final answer, nobody asked
    script.prod()
    assert sink.given == {"early": 3}


@settings(max_examples=40)
@given(
    stream=bounded_streams(),
    window=WINDOWS,
    asks=st.lists(st.sampled_from([None, Prod(), Prod(20), Prod(where="g = 'a'")]), min_size=1),
    stops=st.sets(st.integers(0, 10)),
)
def test_feedback_ends_and_changes_no_final_result(
    stream: Stream, window: tuple[int, int], asks: list[Prod | None], stops: set[int]
) -> None:
    def query() -> Any:
        return arrow_plan(SAMPLE, *window, group_by=["g"], disorder=bounded(stream.slack), n="count(*)", m="max(x)")

    calm = Script(query())
    with tempfile.TemporaryDirectory() as folder:
        sink = AskingSink(lambda _, commit_id: asks[commit_id % len(asks)])

        def begin() -> Script:
            return Script(query(), FileJournal(fs.LocalFileSystem(), folder, sync=False), sink)

        script = begin()
        for number, page in enumerate(stream.pages):
            calm.page(page)
            sink.given.clear()
            script.page(page)
            assert sink.given["early"] <= sink.given["final"] + 1
            if number in stops:
                script = begin()
        calm.drain()
        script.drain()
    assert_same_rows(finals(sink.rows), finals(calm.results), ["window_start", "g"])


def test_what_a_sink_asked_for_in_a_commit_that_a_crash_cut_short_is_answered_after_the_restart(
    tmp_path: Path,
) -> None:
    class Crash(Exception):
        pass

    def fails(kind: str, commit_id: int) -> Prod | None:
        raise Crash

    def journal() -> FileJournal:
        return FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)

    with pytest.raises(RunError, match="Crash"):
        Script(counts(), journal(), AskingSink(fails)).page(frame([[1, "a"], [18, "a"]]))
    sink = AskingSink(lambda kind, _: Prod() if kind == "final" else None)
    script = Script(counts(), journal(), sink)
    script.executor.run_until_idle()
    assert [(r["kind"], r["window_start"]) for r in sink.rows] == [("final", 0), ("early", 10)]


def test_a_nested_query_is_prodded_from_its_beginning() -> None:
    below = counts()
    sink = AskingSink(lambda kind, _: Prod() if kind == "final" else None)
    script = Script(arrow_plan(SAMPLE, 10, 10, over=below, most="max(n)"), sink=sink)
    script.page(frame([[1, "a"], [18, "a"], [18, "b"], [18, "b"]]))
    assert [(r["kind"], r["most"]) for r in script.results] == [("final", 1), ("early", 2)]


def test_a_prod_is_a_plain_value() -> None:
    assert sw.prod(until=30) == sw.prod(30, None)
    assert sw.prod(where="g = 'a'").where == "g = 'a'"


# --- a stream of prods

ASKED = {"until": pl.Int64, "at": pl.Int64, "where": pl.String, "query": pl.String, "t": pl.Int64}


class Asked:
    """A script with a stream of prods beside it."""

    def __init__(self, *columns: str, folder: str | None = None, sink: ListSink | None = None) -> None:
        journal = None if folder is None else FileJournal(fs.LocalFileSystem(), folder, sync=False)
        self.script = Script(counts(), journal, sink)
        self._operator = prod_stream.ProdStream("source:ask", {c: f'"{c}"' for c in columns}, self._send)
        self.script.executor.add(self._operator)
        self._labels = [n.label for n in self.script.executor.graph if n.label.startswith("q/")]

    def _send(self, query: str | None, asked: prod_stream.ProdRow) -> int:
        if query not in (None, "q"):
            return 0
        self.script.executor.prod(replace(asked.of(self.script.plan), query="q"))
        return 1

    def ask(self, number: int, *rows: dict[str, Any]) -> list[tuple[int, str]]:
        """Let a page of prods in; gives the early answers."""
        before = len(self.script.results)
        page = arrow_page(pl.DataFrame([{**dict.fromkeys(ASKED), **r} for r in rows], schema=ASKED), number, 0, "t")
        self.script.executor.admit("source:ask", page)
        self.script.executor.run_until_idle()
        early = self.script.results[before:]
        assert all(r["kind"] == "early" for r in early)
        return sorted((r["window_end"], r["g"]) for r in early)

    @property
    def figures(self) -> dict[str, Any]:
        figures = self.script.metrics()["source:ask"]
        return {k: figures[k] for k in ("prods", "refused")}


ROWS = frame([[11, "a"], [12, "b"], [15, "a"]])


def test_rows_of_a_stream_of_prods_say_until_when_for_which_groups_and_which_query() -> None:
    asked = Asked("until", "where", "query")
    asked.script.page(frame([[11, "a"], [12, "b"], [15, "a"], [24, "a"]]))
    assert asked.ask(0, {"until": 20}) == [(20, "a"), (20, "b")]
    assert asked.ask(1, {"until": None}) == [(20, "a"), (20, "b"), (30, "a")]
    assert asked.ask(2, {"where": "g = 'a'", "query": "q"}) == [(20, "a"), (30, "a")]
    assert asked.ask(3, {"query": "other"}) == []
    assert asked.figures == {"prods": 4, "refused": 1}


def test_without_a_column_for_it_the_time_of_a_row_says_until_when() -> None:
    asked = Asked()
    asked.script.page(frame([[11, "a"], [24, "a"]]))
    assert asked.ask(0, {"t": 20}) == [(20, "a")]
    assert asked.ask(1, {"t": None}) == []
    assert asked.figures == {"prods": 1, "refused": 1}


def test_a_row_may_ask_for_the_windows_that_contain_an_instant() -> None:
    asked = Asked("until", "at")
    asked.script.page(frame([[11, "a"], [24, "a"]]))
    assert asked.ask(0, {"at": 21}) == [(30, "a")]
    assert asked.ask(1, {"until": 30}) == [(20, "a"), (30, "a")]
    assert asked.ask(2, {"until": 30, "at": 21}) == []
    assert asked.figures == {"prods": 2, "refused": 1}


def test_equal_prods_of_a_page_are_one() -> None:
    asked = Asked("until")
    asked.script.page(ROWS)
    assert asked.ask(0, {"until": 20}, {"until": 20}) == [(20, "a"), (20, "b")]


def test_prods_that_were_answered_are_not_repeated_after_a_restart(tmp_path: Path) -> None:
    sink = ListSink()
    asked = Asked("until", folder=str(tmp_path), sink=sink)
    asked.script.page(ROWS)
    assert len(asked.ask(0, {"until": 20})) == 2
    again = Asked("until", folder=str(tmp_path), sink=sink)
    assert again.ask(0, {"until": 20}) == []
    assert again.ask(1, {"until": 20}) == [(20, "a"), (20, "b")]
    assert again.figures == {"prods": 2, "refused": 0}
    again.script.drain()
    assert [(r["g"], r["n"]) for r in finals(sink.rows)] == [("a", 2), ("b", 1)]


def test_s5_section_3_2_d_a_request_goes_back_along_the_arcs_of_its_query() -> None:
    """To the sources behind it, by the ports that it reads: other streams and policies are not asked."""
    script = Script(plan(windows(union(A, B), 10, 10, n="count(*)")))
    other = windows(B, 10, 10, n="count(*)", disorder=bounded(3))
    add_query(script.executor, "r", plan(other), ListSink())
    asked = {
        query: [(str(n.label), port) for n, port in script.executor.graph.prod_sources(query)]
        for query in ("q", "r", None)
    }
    own = bounded(3).describe()
    assert asked["q"] == [("source:a", "main"), ("source:b", "main")]
    assert asked["r"] == [("source:b", own)]
    assert asked[None] == [("source:a", "main"), ("source:b", "main"), ("source:b", own)]
