"""Aggregates over the results of aggregates (S5 section 3.3, Q3-4), under prods, heartbeats and restarts.

Final values equal a recomputation of both levels over all rows; early ones equal one over those that had arrived.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.operators.prod import Prod
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.plan.column_use import needed_columns
from slackwater.plan.node import aggregates_of, describe
from slackwater.plan.nodes import WindowNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import recompute
from tests.kit.streams import SAMPLE, WINDOWS, Stream, assert_same_rows, bounded_streams, frame

INNER = {"total": ("sum(i)", pl.when(pl.col("i").count() > 0).then(pl.col("i").sum())), "n": ("count(*)", pl.len())}
OUTER = {
    "most": ("max(total)", pl.col("total").max()),
    "sums": ("sum(n)", pl.col("n").sum().cast(pl.Int64)),
    "results": ("count(*)", pl.len().cast(pl.Int64)),
    "mean": ("avg(total)", pl.col("total").mean()),
}


def plan(
    policy: Disorder,
    inner: tuple[int, int],
    outer: tuple[int, int],
    keys: list[str],
    where: str | None = None,
    source: str | None = None,
) -> WindowNode:
    texts = {name: text for name, (text, _) in INNER.items()}
    below = arrow_plan(SAMPLE, *inner, group_by=["g", "h"], disorder=policy, source=source, **texts)
    assert isinstance(below, WindowNode)
    above = {name: text for name, (text, _) in OUTER.items()}
    made = arrow_plan(SAMPLE, *outer, group_by=keys, where=where, over=below, **above)
    assert isinstance(made, WindowNode)
    return made


def recomputed(
    rows: pl.DataFrame, inner: tuple[int, int], outer: tuple[int, int], keys: list[str], where: str | None
) -> list[dict[str, Any]]:
    """Both levels from scratch: an inner result is a row at the last tick of its window."""
    below = recompute(rows, WindowSpec(*inner), ["g", "h"], INNER)
    if not below:
        return []
    schema = {"g": pl.String, "h": pl.Int64, "total": pl.Int64, "n": pl.Int64, "window_end": pl.Int64}
    results = pl.DataFrame([{k: r[k] for k in schema} for r in below], schema=schema)
    results = results.with_columns(t=pl.col("window_end") - 1).drop("window_end")
    if where is not None:
        results = results.filter(pl.sql_expr(where))
    # Outer windows end where inner ones end, if their slides go together.
    in_step = outer[1] % inner[1] == 0
    return recompute(results, WindowSpec(*outer, (inner[0] - outer[0]) % inner[1] * in_step), keys, OUTER)


def finals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in rows if r["kind"] == "final"]


@settings(max_examples=60)
@given(
    stream=bounded_streams(),
    inner=WINDOWS,
    outer=WINDOWS,
    keys=st.sampled_from([[], ["g"], ["g", "h"]]),
    where=st.sampled_from([None, "n > 1"]),
    prods=st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(-60, 90)), st.booleans())),
    stops=st.sets(st.integers(0, 10)),
    commit_every=st.sampled_from([1, 3, 64]),
)
def test_nested_aggregates_are_right_at_every_prod_and_in_the_end(
    stream: Stream,
    inner: tuple[int, int],
    outer: tuple[int, int],
    keys: list[str],
    where: str | None,
    prods: list[tuple[int, int | None, bool]],
    stops: set[int],
    commit_every: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            query = plan(bounded(stream.slack), inner, outer, keys, where)
            return Script(query, journal, sink, commit_every=commit_every)

        script = begin()
        for number, page in enumerate(stream.pages):
            script.page(page)
            for at, until, some in prods:
                if at != number:
                    continue
                condition = "g = 'a'" if some and keys else None
                before = len(sink.rows)
                script.prod(until, condition)
                early = sink.rows[before:]
                assert all(r["kind"] == "early" for r in early)
                arrived = pl.concat([SAMPLE.clear(), *stream.pages[: number + 1]]).drop_nulls("t")
                spec = WindowSpec(*inner)
                heartbeat = script.metrics()["source:s"]["heartbeat"]
                passed = spec.bounds((heartbeat + 1 - spec.range) // spec.slide)[1] - 1
                wanted = [
                    r
                    for r in recomputed(arrived, inner, outer, keys, where)
                    if r["window_end"] - 1 > passed
                    and (until is None or r["window_end"] <= until)
                    and (condition is None or r["g"] == "a")
                ]
                got = [{**r, **{name: r[f"{name}_seen"] for name in OUTER}} for r in early]
                assert_same_rows(got, wanted, ["window_start", *keys])
                assert all(r[name] == r[f"{name}_seen"] for r in early for name in OUTER)
            if number in stops:
                script = begin()
        script.drain()
    wanted = recomputed(stream.rows.drop_nulls("t"), inner, outer, keys, where)
    assert_same_rows(finals(sink.rows), wanted, ["window_start", *keys])


def readings(*rows: tuple[int, str, int]) -> pl.DataFrame:
    return frame([[t, sensor, None, None, volume] for t, sensor, volume in rows])


def sums(policy: Disorder) -> WindowNode:
    """Q3-4's lower half: Sum(volume) per sensor, RANGE 30 SLIDE 10."""
    made = arrow_plan(SAMPLE, 30, 10, group_by=["g"], disorder=policy, volume="sum(i)")
    assert isinstance(made, WindowNode)
    return made


def test_q3_4_is_the_largest_sum_of_the_sensors_of_each_window() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, over=sums(bounded(5)), most="max(volume)"))
    script.page(readings((100, "a", 40), (105, "b", 30), (112, "b", 25), (121, "a", 10))).prod(until=130)
    assert [(r["kind"], r["window_end"], r["most"]) for r in script.results] == [
        ("final", 110, 40),
        ("early", 120, 55),
        ("early", 130, 55),
    ]
    # Sums that a prod has shown are not added to: the sum of b is 56 now, not 55 + 56.
    script.page(readings((122, "b", 1), (140, "a", 0)))
    assert [(r["kind"], r["window_end"], r["most"]) for r in script.results[3:]] == [
        ("final", 120, 55),
        ("final", 130, 56),
    ]


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


GROUPED = pa.schema([("g", pa.string()), ("i", pa.int64())])
VOLUMES = pa.schema([("g", pa.string()), ("volume", pa.int64())])


def test_an_outer_window_takes_the_inner_windows_that_end_in_it() -> None:
    script = Script(arrow_plan(SAMPLE, 20, 20, over=sums(bounded(0)), results="count(*)"))
    script.page(readings((0, "a", 1), (100, "a", 1))).drain()
    # The windows that hold 0 end at 10, 20 and 30; those that hold 100 at 110, 120 and 130.
    assert [(r["window_start"], r["results"]) for r in script.results] == [(0, 2), (20, 1), (100, 2), (120, 1)]


def test_the_outer_heartbeat_is_the_last_tick_of_the_last_closed_inner_window() -> None:
    """At 57 the inner windows up to 50 are closed; an outer window that ends at 55 waits for the one up to 60."""
    script = Script(arrow_plan(SAMPLE, 20, 5, over=sums(bounded(0)), results="count(*)"))
    script.page(readings((21, "a", 1), (58, "a", 1)))
    assert [r["window_end"] for r in script.results] == [30, 35, 40, 45, 50]
    script.page(readings((60, "a", 1)))
    assert [r["window_end"] for r in script.results[5:]] == [55, 60]


@given(WINDOWS, st.integers(-40, 40), st.one_of(st.integers(-40, 80), st.just(MAX_TICK)))
def test_a_range_punctuation_passes_as_the_range_of_the_results_that_it_has_let_out(
    window: tuple[int, int], after: int, until: int
) -> None:
    below = arrow_plan(SAMPLE, *window, n="count(*)")
    assert isinstance(below, WindowNode)
    operator = WindowAggregate("window", below, ManualClock())
    said = operator.output([Punctuation(Heartbeat.NONE, ranges=((after, until),))])
    windows = [WindowSpec(*window).bounds(k) for k in range(-200, 200)]
    out = {end - 1 for start, end in windows if after < start and end - 1 <= until}
    promised = {end - 1 for _, end in windows for a, u in said.ranges if a < end - 1 <= u}
    assert promised == out


def test_a_sideline_below_a_nested_query_loses_nothing() -> None:
    below = arrow_plan(SAMPLE, 10, 10, map=(same, GROUPED), group_by=["g"], disorder=bounded(0), total="sum(i)")
    assert isinstance(below, WindowNode)
    script = Script(arrow_plan(SAMPLE, 10, 10, over=below, most="max(total)"), sideline=sw.sideline(ratio=4))
    script.page(readings((0, "a", 0)))
    script.executor.prod(Prod(until=10, query="q"))
    for number, t in enumerate([1, 3, 5, 7, 15, 25, 35], start=1):
        script.executor.admit(source_label("s"), arrow_page(readings((t, "a", 2**number)), number, 0, "t"))
    script.executor.run_until_idle()
    assert script.metrics()["q/map0"]["sidelined_pages"] == 4
    assert [(r["window_start"], r["most"]) for r in finals(script.results)] == [(10, 32), (20, 64), (0, 30)]


def test_a_page_waits_only_if_all_outer_windows_of_its_inner_ones_were_prodded() -> None:
    below = arrow_plan(SAMPLE, 20, 10, map=(same, GROUPED), disorder=bounded(9), total="sum(i)")
    assert isinstance(below, WindowNode)
    script = Script(arrow_plan(SAMPLE, 10, 10, over=below, most="max(total)"), sideline=sw.sideline(ratio=4))
    script.page(readings((4, "a", 1))).prod(until=10).page(readings((5, "a", 2)))
    assert script.metrics()["q/map0"]["sidelined_pages"] == 0, "it belongs to the inner window that ends at 20 too"
    script.prod(until=20).page(readings((6, "a", 4)))
    assert script.metrics()["q/map0"]["sidelined_pages"] == 1


@pytest.mark.parametrize("sideline", [None, sw.sideline()])
def test_a_map_over_results_works_in_order(tmp_path: Path, sideline: Any) -> None:
    """Early results stay before their prod, and count for it only; a commit leaves none behind."""
    made = arrow_plan(SAMPLE, 20, 20, map=(same, VOLUMES), over=sums(bounded(5)), most="max(volume)", n="count(*)")
    script = Script(made, FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False), sideline=sideline)
    script.page(readings((1, "a", 2), (18, "b", 3))).prod(until=20).prod(until=20)
    assert [(r["kind"], r["window_end"], r["most"], r["n"]) for r in script.results] == [("early", 20, 3, 3)] * 2
    script.page(readings((19, "a", 9), (30, "b", 1))).drain()
    answers = [(r["kind"], r["window_end"], r["most"], r["n"]) for r in script.results[2:]]
    assert answers == [("final", 20, 11, 3), ("final", 40, 11, 4), ("final", 60, 1, 2)]


def test_a_prod_names_groups_of_the_outer_query_only() -> None:
    made = arrow_plan(
        SAMPLE,
        10,
        10,
        over=sums(bounded(9)),
        select={"lane": "g", "g": "volume", "volume": "volume"},
        group_by=["lane", "g"],
        n="count(*)",
    )
    script = Script(made).page(readings((1, "a", 3), (2, "b", 3), (3, "c", 4))).prod(10, "lane <> 'a' AND g = 3")
    assert [(r["lane"], r["g"], r["n"]) for r in script.results] == [("b", 3, 1)]


def test_a_prod_of_the_last_outer_window_takes_inner_ones_that_ended_before_its_last_slide() -> None:
    below = arrow_plan(SAMPLE, 10, 10, disorder=bounded(19), n="count(*)")
    assert isinstance(below, WindowNode)
    script = Script(arrow_plan(SAMPLE, 20, 10, over=below, whole="sum(n)"), early=sw.early(at=0.5))
    for t in range(0, 36):
        script.page(frame([[t]]))
    early = [(r["window_end"], r["whole"]) for r in script.results if r["kind"] == "early"]
    # Prodded at 15, 25 and 35; of the first window all has come, of the second half of the slide nothing.
    assert early[-3:] == [(20, 16), (30, 16), (40, 16)]


@pytest.mark.parametrize("commit_every", range(1, 9))
def test_a_commit_between_a_page_and_the_answer_to_a_prod_loses_nothing(tmp_path: Path, commit_every: int) -> None:
    def begin() -> Script:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        made = arrow_plan(SAMPLE, 10, 10, where="volume > 0", over=sums(bounded(5)), most="max(volume)")
        return Script(made, journal, sink, commit_every=commit_every)

    sink = ListSink()
    script = begin().page(readings((1, "a", 2), (18, "b", 3)))
    # The page is not safe yet while the prod is answered, so there are commits on the way.
    script.executor.admit("source:s", arrow_page(readings((22, "b", 4), (27, "a", 1)), 1, 0, "t"))
    script.executor.prod(Prod(query="q"))
    script.executor.run_until_idle()
    begin().drain()
    said = [(r["kind"], r["window_end"], r["most"]) for r in sink.rows]
    assert [r for r in said if r[0] == "final"] == [
        ("final", 10, 2),
        ("final", 20, 3),
        ("final", 30, 7),
        ("final", 40, 7),
        ("final", 50, 4),
    ]
    assert [r for r in said if r[0] == "early"] == [("early", 20, 3), ("early", 30, 3), ("early", 40, 3)]


def test_three_levels_are_right_early_and_in_the_end() -> None:
    policy = bounded(5)
    lowest = arrow_plan(SAMPLE, 10, 10, group_by=["g", "h"], disorder=policy, n="count(*)")
    assert isinstance(lowest, WindowNode)
    middle = arrow_plan(SAMPLE, 10, 10, group_by=["g"], over=lowest, most="max(n)")
    assert isinstance(middle, WindowNode)
    script = Script(arrow_plan(SAMPLE, 20, 20, over=middle, whole="sum(most)"))
    rows = [(1, "a", 0), (2, "a", 0), (3, "a", 1), (4, "b", 0), (11, "b", 1), (18, "b", 1)]
    script.page(frame([list(r) for r in rows])).prod().page(frame([[19, "a", 0]])).prod().drain()
    assert [(r["kind"], r["whole"]) for r in script.results] == [("early", 5), ("early", 6), ("final", 6)]


def test_each_source_ends_its_own_outer_windows_where_both_levels_are_grouped_by_it() -> None:
    made = plan(punctuated("i"), (10, 10), (20, 20), ["g"], source="g")
    assert made.kernel.source == "g"

    def row(t: int, source: str, said: int | None = None) -> list[Any]:
        return [t, source, 0, None, said]

    script = Script(made).page(frame([row(1, "slow", -5), row(1, "fast"), row(15, "fast"), row(41, "fast", 29)]))
    assert [(r["g"], r["window_start"], r["sums"]) for r in finals(script.results)] == [("fast", 0, 2)]
    script.page(frame([row(2, "slow"), row(21, "slow")])).prod()
    early = [(r["g"], r["window_start"], r["sums"]) for r in script.results[1:]]
    assert sorted(early) == [("fast", 40, 1), ("slow", 0, 2), ("slow", 20, 1)]
    script.page(frame([row(11, "slow")])).drain()
    slow = [(r["window_start"], r["sums"]) for r in finals(script.results) if r["g"] == "slow"]
    assert slow == [(0, 3), (20, 1)]


def test_late_rows_are_counted_and_kept_at_the_first_aggregate() -> None:
    late = ListSink()
    script = Script(arrow_plan(SAMPLE, 10, 10, over=sums(bounded(0)), most="max(volume)"), late=late)
    script.page(readings((5, "a", 1), (50, "a", 1))).page(readings((6, "a", 1)))
    assert [r["t"] for r in late.rows] == [6]
    figures = script.metrics()
    assert (figures["q/inner1"]["late_rows"], figures["q/window"]["late_rows"]) == (1, 0)


def test_a_prodder_prods_the_outer_windows() -> None:
    second = 1_000_000
    below = arrow_plan(
        SAMPLE,
        "30 seconds",
        "10 seconds",
        group_by=["g"],
        disorder=bounded("5 seconds"),
        domain=TimeDomain.TIMESTAMP,
        n="count(*)",
    )
    assert isinstance(below, WindowNode)
    script = Script(
        arrow_plan(SAMPLE, "10 seconds", "10 seconds", over=below, most="max(n)"), early=sw.early(at=0.75)
    )
    for s in range(60):
        script.until(s * second).page(frame([[s * second, "ab"[s % 2]]]))
    early = [r for r in script.results if r["kind"] == "early"]
    assert [(r["emitted_at"].timestamp(), r["window_end"].timestamp(), r["most"]) for r in early][-2:] == [
        (47.5, 50, 14),
        (57.5, 60, 14),
    ]


def test_the_plan_of_a_nested_query_reads_from_the_stream_up() -> None:
    made = arrow_plan(SAMPLE, 10, 10, where="volume > 3", over=sums(bounded(5)), most="max(volume)")
    assert describe(made).splitlines()[1:] == [
        "window range 30 slide 10 group by g",
        "agg volume = sum(i)",
        "where volume > 3",
        "window range 10 slide 10",
        "agg most = max(volume)",
    ]
    assert needed_columns(made, late_rows=False) == {"s": {"t", "g", "i"}}
    assert aggregates_of(made)[-1].kernel.keys == ["g"]


@pytest.mark.parametrize("keys", [[], ["g"]])
def test_a_prod_before_any_row_is_harmless(keys: list[str]) -> None:
    script = Script(plan(bounded(0), (10, 10), (10, 10), keys)).prod().prod(until=100)
    assert script.results == []
