"""S5 section 3.3: queries that end with windows for each row, or with a union or a join of results, are prodded.

Random streams in random pages, prods anywhere, restarts in the middle. At a prod the answer is that of the query
over the rows that have come, without what is final. Final results are those of all rows, however often the query
was asked.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import QueryError
from slackwater.estimates.early import early
from slackwater.operators.prod import Prod
from slackwater.operators.prod_request import check_settings, read_prod
from slackwater.plan import logical as L
from slackwater.plan.node import PlanNode
from slackwater.plan.request import ProdRequest
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.testing.pages import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import recompute
from tests.kit.several_streams import COUNT, Came
from tests.kit.streams import SAMPLE, Stream, bounded_streams, finals, frame, same, unbounded_streams
from tests.kit.streams_of_samples import A, B, C, plan, union, windows
from tests.operators.test_random_early_joins import EVENTS, KINDS, busy
from tests.windows.test_rolling import CHEAP, GROUPS, recomputed
from tests.windows.test_rolling import KINDS as PER_ROW
from tests.windows.test_rolling import plan as rolling_plan

PAGES = ArrowPages().backend


def begin(made: PlanNode, folder: str, sink: ListSink, commit_every: int = 2, **settings: Any) -> Script:
    journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
    return Script(made, journal, sink, commit_every=commit_every, **settings)


# --- windows for each row


def check_rolling(stream: Stream, window: dict[str, int], groups: Sequence[str], events: Sequence[str]) -> int:
    """Prod and restart behind pages; the rest of the results are final. Gives how many early rows there were."""
    made, sink, asked = rolling_plan(window, stream.slack, groups, CHEAP), ListSink(), 0
    with tempfile.TemporaryDirectory() as folder:
        script = begin(made, folder, sink)
        for n, page in enumerate(stream.pages):
            script.page(page)
            event = events[n % len(events)] if events else ""
            if event == "restart":
                script = begin(made, folder, sink)
            elif event:
                until = None if event == "prod" else 10
                given, before = len(finals(sink.rows)), len(sink.rows)
                script.prod(until)
                so_far = Stream(stream.pages[: n + 1], stream.slack)
                wanted = recomputed(so_far, window, groups, CHEAP).results[given:]
                wanted = [row for row in wanted if until is None or row["window_end"] <= until]
                got = sink.rows[before:]
                assert len(got) == len(wanted)
                for ours, theirs in zip(got, wanted, strict=True):
                    assert ours["kind"] == "early" and ours["completeness"] is None
                    for name in CHEAP:
                        assert same(ours[name], theirs[name]) and same(ours[f"{name}_seen"], theirs[name])
                        assert ours[f"{name}_low"] is None and ours[f"{name}_high"] is None
                asked += len(got)
        script.drain()
    wanted = recomputed(stream, window, groups, CHEAP).results
    got = finals(sink.rows)
    assert len(got) == len(wanted)
    assert all(same(ours[name], row[name]) for ours, row in zip(got, wanted, strict=True) for name in row)
    return asked


SOME = st.lists(st.sampled_from(["prod", "until", "restart", ""]), max_size=6)


@settings(max_examples=60)
@given(st.one_of(bounded_streams(), unbounded_streams()), PER_ROW, GROUPS, SOME)
@example(busy(3), {"range": 8}, ["g"], ["prod", "restart", "prod", "until"])
@example(busy(3), {"rows": 4, "slide": 2}, [], ["prod", "restart", "prod", "until"])
def test_windows_for_each_row_at_a_prod_equal_a_recomputation(
    stream: Stream, window: dict[str, int], groups: list[str], events: list[str]
) -> None:
    check_rolling(stream, window, groups, events)


def test_rows_that_wait_are_answered() -> None:
    assert check_rolling(busy(3), {"range": 8}, ["g"], ["prod"]) > 20


def test_a_prod_asks_for_the_windows_of_some_groups() -> None:
    script = Script(rolling_plan({"range": 8}, 50, ["g"], {"n": ("count(*)", len)}))
    script.page(frame([[1, "a"], [2, "b"], [3, "a"]]))
    script.prod(where="g = 'a'")
    assert [(row["g"], row["window_end"], row["n"]) for row in script.results] == [("a", 1, 1), ("a", 3, 2)]


def test_each_source_answers_from_its_own_lane() -> None:
    texts = {"n": "count(*)", "whole": "sum(i)"}
    script = Script(arrow_plan(SAMPLE, 8, group_by=["g"], disorder=bounded(4), source="g", **texts))
    script.page(frame([[1, "a", 0, 0.0, 1], [2, "b", 0, 0.0, 2]])).page(frame([[9, "a", 0, 0.0, 3]])).prod()
    said = [(row["g"], row["window_end"], row["n"], row["whole"], row["kind"]) for row in script.results]
    assert said == [("a", 1, 1, 1, "final"), ("b", 2, 1, 2, "final"), ("a", 9, 1, 3, "early")]


# --- unions of results


def sides(spec: tuple[int, int], other: tuple[int, int]) -> L.Logical:
    """Results of windows of several streams; the last ones are windows for each row."""
    one = L.Select((windows(A, *spec, "g"),), (("what", "'a'"), ("g", "g"), ("n", "n"), ("whole", "whole")))
    two = L.Select(
        (windows(union(B, C), *other, "g"),), (("what", "'b'"), ("g", "g"), ("n", "n"), ("whole", "whole + 1"))
    )
    return L.Union((one, two))


def of_sides(came: Came, spec: tuple[int, int], other: tuple[int, int]) -> list[dict[str, Any]]:
    one = recompute(came["a"], WindowSpec(*spec), ["g"], COUNT)
    two = recompute(pl.concat([came["b"], came["c"]]), WindowSpec(*other), ["g"], COUNT)
    shifted = [{**row, "whole": None if row["whole"] is None else row["whole"] + 1} for row in two]
    return [{"what": "a", **row} for row in one] + [{"what": "b", **row} for row in shifted]


NAMES = ("what", "g", "window_start", "window_end")


def check_union(
    specs: tuple[tuple[int, int], tuple[int, int]],
    streams: dict[str, Stream],
    events: list[tuple[str, Any]],
    commit_every: int,
) -> int:
    sink, came, asked = ListSink(), {name: SAMPLE.clear() for name in "abc"}, 0
    made = plan(sides(*specs), {name: bounded(stream.slack) for name, stream in streams.items()})
    with tempfile.TemporaryDirectory() as folder:
        script = begin(made, folder, sink, commit_every)
        left = {name: list(stream.pages) for name, stream in streams.items()}
        rest = [(name, 0) for name, pages in left.items() for _ in pages]
        for what, until in [*events, *rest, ("prod", None)]:
            if what == "restart":
                script = begin(made, folder, sink, commit_every)
            elif what == "prod":
                before = len(sink.rows)
                script.prod(until)
                closed = {tuple(row[name] for name in NAMES) for row in finals(sink.rows)}
                wanted = [
                    row
                    for row in of_sides(came, *specs)
                    if tuple(row[name] for name in NAMES) not in closed
                    and (until is None or row["window_end"] <= until)
                ]
                got = sink.rows[before:]
                assert all(row["kind"] == "early" for row in got)
                columns = (*NAMES, "n", "whole")
                seen = Counter(tuple(row[f"{c}_seen"] if c in COUNT else row[c] for c in columns) for row in got)
                assert seen == Counter(tuple(row[c] for c in columns) for row in wanted)
                asked += len(got)
            elif left.get(what):
                page = left[what].pop(0)
                came[what] = pl.concat([came[what], page])
                script.page(page, stream=what)
        script.drain()
    columns = (*NAMES, "n", "whole")
    got = Counter(tuple(row[c] for c in columns) for row in finals(sink.rows))
    assert got == Counter(tuple(row[c] for c in columns) for row in of_sides(came, *specs))
    return asked


STREAMS = st.fixed_dictionaries({name: bounded_streams(most=12) for name in "abc"})


@given(
    specs=st.sampled_from([((12, 6), (12, 6)), ((6, 3), (20, 10))]),
    streams=STREAMS,
    events=st.lists(EVENTS, max_size=25),
    commit_every=st.sampled_from([1, 2, 64]),
)
def test_a_union_of_results_at_a_prod_equals_a_recomputation(
    specs: Any, streams: dict[str, Stream], events: list[tuple[str, Any]], commit_every: int
) -> None:
    check_union(specs, streams, events, commit_every)


def test_each_window_of_a_union_is_timed_by_itself() -> None:
    """S5 section 4.4: half of a slide of 10 and of one of 20 have passed at other times."""
    query = sides((10, 10), (20, 20))
    sink = ListSink()
    script = Script(plan(query, {name: bounded(100) for name in "abc"}), sink=sink, early=early(at=0.5))
    for t in range(0, 41):
        for name in "abc":
            script.page(frame([[t, "x", 0, 0.0, 1]]), stream=name)
    first = [(row["what"], row["window_end"]) for row in sink.rows]
    assert first == [("a", 10), ("b", 20), ("a", 20), ("a", 30), ("b", 40), ("a", 40)]
    assert sink.rows[0]["n_seen"] in (5, 6) and sink.rows[1]["n_seen"] in range(19, 24)


# --- joins of results


def pairs(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted((k, v) for k, v in row.items() if k != "kind")) for row in rows)


def check_join(kind: str, streams: dict[str, Stream], events: list[tuple[str, Any]], commit_every: int) -> int:
    """The join below a window of `test_random_early_joins`, with the join's rows as the query's results."""
    sink, came, asked = ListSink(), {name: SAMPLE.clear() for name in "abc"}, 0
    (query,) = KINDS[kind].query.inputs
    made = plan(query, {name: bounded(stream.slack) for name, stream in streams.items()})
    names = made.schema.names

    def wanted() -> Counter[tuple[Any, ...]]:
        return pairs([{n: row.get(n) for n in names} for _, _, row in KINDS[kind].rows(came)])

    with tempfile.TemporaryDirectory() as folder:
        script = begin(made, folder, sink, commit_every)
        left = {name: list(stream.pages) for name, stream in streams.items() if name in script._streams}
        rest = [(name, 0) for name, pages in left.items() for _ in pages]
        for what, _ in [*events, *rest, ("prod", None)]:
            if what == "restart":
                script = begin(made, folder, sink, commit_every)
            elif what == "prod":
                before = len(sink.rows)
                script.prod()
                got = sink.rows[before:]
                assert all(row["kind"] == "early" for row in got)
                out = pairs([row for row in sink.rows if "kind" not in row])
                assert pairs(got) == wanted() - out and not out - wanted()
                asked += len(got)
            elif left.get(what):
                page = left[what].pop(0)
                came[what] = pl.concat([came[what], page])
                script.page(page, stream=what)
        script.drain()
    assert pairs([row for row in sink.rows if "kind" not in row]) == wanted()
    return asked


#: Joins of which one side at least is of results.
OF_RESULTS = [
    name
    for name in KINDS
    if ("True" in name or "together" in name or "again" in name) and "False-False" not in name
]


@given(
    kind=st.sampled_from(OF_RESULTS),
    streams=STREAMS,
    events=st.lists(EVENTS, max_size=25),
    commit_every=st.sampled_from([1, 2, 64]),
)
def test_a_join_of_results_at_a_prod_equals_a_recomputation(
    kind: str, streams: dict[str, Stream], events: list[tuple[str, Any]], commit_every: int
) -> None:
    check_join(kind, streams, events, commit_every)


@pytest.mark.parametrize("kind", [name for name in OF_RESULTS if name.endswith((" 0", " 4", "together", "again"))])
def test_each_kind_of_join_of_results_is_prodded(kind: str) -> None:
    streams = {"a": busy(1), "b": busy(2), "c": busy(5)}
    order: list[tuple[str, Any]] = [(name, 0) for _ in range(6) for name in "abc"]
    events = [e for n, page in enumerate(order) for e in (page, [("prod", None), ("restart", 0)][n % 3 == 2])]
    assert check_join(kind, streams, events, 2) > 0


# --- what cannot be asked


def test_what_makes_no_sense_is_refused_by_name() -> None:
    rolling = rolling_plan({"range": 8}, 0, ["g"], {"n": ("count(*)", len)})
    join = plan(KINDS["inner together"].query.inputs[0])
    two = plan(sides((10, 10), (20, 20)))
    for made, words in ((rolling, "ends with its row"), (join, "meet in a join")):
        with pytest.raises(QueryError, match=words):
            check_settings(made, early(at=0.5), None)
        check_settings(made, early(every="5 seconds"), None)
    with pytest.raises(QueryError, match="leave where= and at= out"):
        read_prod(join, ProdRequest(where="g = 'a'"), PAGES)
    for made in (rolling, two):
        with pytest.raises(QueryError, match="at= is for windows that all have the same range"):
            read_prod(made, ProdRequest(at=5), PAGES)
    assert read_prod(plan(sides((10, 5), (10, 5))), ProdRequest(at=7), PAGES) == Prod(15, 7)
    with pytest.raises(QueryError, match="without windows"):
        read_prod(plan(KINDS["left False-False 0"].query.inputs[0]), ProdRequest(), PAGES)
    named = L.Select(KINDS["inner together"].query.inputs, (("kind", "g"), ("i", "i")))
    with pytest.raises(QueryError, match="have a column 'kind'"):
        read_prod(plan(named), ProdRequest(), PAGES)
