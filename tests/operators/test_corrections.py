"""Answers that late rows correct: what stands at any time is the answer of all rows that have come by then."""

from __future__ import annotations

import pickle
import random
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from slackwater.errors import QueryError
from slackwater.operators import archive
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.testing.pages import ArrowPages
from slackwater.testing.stores import ArrowStores
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.kit.corrections import HAVING, FileStores, Oracle, operator, plan_of, played, small
from tests.kit.faults import Fate, MortalFiles, World
from tests.kit.streams import SAMPLE, frame, timeless
from tests.operators.test_large_state import LargeStores

range_of = range


class LargeFileStores(LargeStores, FileStores):
    """And panes that leave the driver."""


def late_pages(draw: random.Random) -> list[pl.DataFrame]:
    """Pages of a few rows each, many of them long after their time."""
    pages, high = list[pl.DataFrame](), 0
    for _ in range(draw.randint(3, 14)):
        high += draw.choice([0, 1, 5, 10, 20])
        rows = []
        for _ in range(draw.randint(0, 12)):
            back = draw.choice([0, *(draw.randint(0, most) for most in (8, 30, 60, 60))])
            back = None if draw.random() < 0.05 else back
            rows.append(
                (
                    None if back is None else high - back,
                    draw.choice(["a", "b", None]),
                    draw.choice([0, 1]),
                    draw.choice([0.5, 1.25, None]),
                    draw.choice([None, draw.randint(-9, 9)]),
                    draw.choice("pq"),
                )
            )
        pages.append(frame(rows))
    return pages


def random_run(seed: int, by_source: bool) -> Oracle:
    draw = random.Random(seed)
    pages, few, kept = late_pages(draw), draw.random() < 0.5, draw.random() < 0.3
    range, slide = draw.choice([(7, 3), (10, 10), (30, 10), (5, 1), (12, 8), (20, 15), (1, 1), (5, 9)])
    length, having = draw.choice([1, 20, 1000, 1000]), draw.choice([None, None, *HAVING])
    policy = draw.choice([bounded(0), bounded(4), drop_ratio(0.2)])
    stops = {number for number in range_of(len(pages)) if draw.random() < 0.3}
    grows = not by_source and range % slide == 0 and draw.random() < 0.3
    groups = draw.choice([("g",), ("g", "h"), ("h", "g")] if by_source else [("g",), ("g", "h"), ("x",), ()])
    stores = draw.choice([ArrowStores, FileStores, LargeFileStores])
    plan = plan_of(range, slide, groups, policy, length, "g" if by_source else None, kept, having, grows)
    spec = CumulateSpec(range, slide) if grows else WindowSpec(range, slide)
    oracle = Oracle(spec, groups, length, by_source, kept, HAVING.get(having))
    limit = 300 if stores is LargeFileStores else 2**28
    with tempfile.TemporaryDirectory() as folder, small(few):
        played(plan, pages, oracle, folder, stops, stores, limit)
    return oracle


@pytest.mark.parametrize("by_source", [False, True], ids=["all at once", "by source"])
def test_what_stands_is_the_answer_of_all_rows_that_have_come(by_source: bool) -> None:
    told = [random_run(seed, by_source) for seed in range_of(30)]
    assert sum(oracle.corrected for oracle in told) > 100
    assert sum(oracle.lost for oracle in told) > 50
    assert sum(oracle.withdrawn for oracle in told) > 2


@dataclass
class FileWorld(World):
    """Files of closed panes lie in the journal's folder."""

    def start(self, fate: Fate) -> Script:
        self.sink.fate = self.late.fate = fate
        journal = FileJournal(MortalFiles(fate), str(self.folder))
        made = type("Stores", (FileStores,), {"folder": self.folder / "panes"})
        pages = ArrowPages(stores=made)
        return Script(self.plan, journal, self.sink, self.late, commit_every=self.commit_every, pages=pages)


PAGES = [
    frame([(1, "a", 0, 1.0, 1, "p"), (2, "b", 0, 1.0, 2, "p"), (14, "a", 0, 1.0, 3, "p")]),
    frame([(3, "a", 0, 1.0, 4, "p"), (31, "b", 0, 1.0, 5, "p")]),
    frame([(4, "c", 1, 2.0, 6, "q"), (12, "a", 0, 1.0, 7, "p"), (35, "a", 0, 1.0, 8, "p")]),
    frame([(5, "c", 1, 2.0, 9, "q"), (52, "a", 0, 1.0, 10, "p")]),
]


@pytest.mark.parametrize("having", [None, "n < 2"])
def test_a_process_may_die_at_every_point(tmp_path: Path, having: str | None) -> None:
    plan = plan_of(20, 10, ("g",), bounded(2), 1000, having=having)
    calm = FileWorld(plan, PAGES, tmp_path / "calm", commit_every=2)
    with small(True):
        deaths = calm.deaths(tmp_path / "deaths")
        assert len(deaths) > 40
        told = timeless(calm.sink.rows)
        assert {row["kind"] for row in told} >= {"final", "withdrawn" if having else "corrected"}
        for point, world in enumerate(deaths):
            script = world.live(Fate(), again=point % 3)
            assert script is not None
            assert timeless(world.sink.rows) == told
            assert script.metrics()["q/window"]["corrected_results"] > 0


def test_what_the_driver_holds_does_not_grow_with_the_windows_that_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(10, 10, ("g",), bounded(0), 10**9)
    stores = type("Stores", (FileStores,), {"folder": tmp_path})
    script = Script(plan, pages=ArrowPages(stores=stores))
    monkeypatch.setattr(archive, "MANY", 6)
    held = dict[int, int]()
    for number in range_of(500):
        script.page(frame([(number * 10, f"g{n}", 0, 1.0, n, "p") for n in range_of(3)]))
        if number in (250, 499):
            past = operator(script)._past
            held[number] = (
                len(pickle.dumps(past._archive._files)) + past._runs.height + operator(script)._panes.bytes
            )
    figures = script.metrics()["q/window"]
    assert figures["archived_bytes"] > 499 * 3 * 8
    assert figures["archived_files"] < 30
    assert held[499] < 1.5 * held[250]
    script.page(frame([(15, "g1", 0, 1.0, 100, "p")]))  # its pane lies in a file of the third level
    (row,) = [r for r in script.results if r["kind"] == "corrected"]
    assert (row["n"], row["total"], row["replaces"]) == (2, 101, 2)


def test_nothing_is_archived_twice_and_old_files_go(tmp_path: Path) -> None:
    plan = plan_of(10, 10, ("g",), bounded(0), 100)
    stores = type("Stores", (FileStores,), {"folder": tmp_path})
    script = Script(plan, pages=ArrowPages(stores=stores))
    for number in range_of(200):
        script.page(frame([(number * 10, "a", 0, 1.0, number, "p")]))
    assert script.metrics()["q/window"]["archived_files"] < 40
    kept = [low for part in operator(script)._past.partials(0, 10**6) for low in part["__pane"].to_list()]
    assert len(kept) == len(set(kept)) and set(range_of(190, 198)) <= set(kept)
    assert len(list(tmp_path.rglob("*.parquet"))) < 40


def test_a_filled_answer_is_replaced_too() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), fill=0, n="count(*)")
    script = Script(plan, corrections=1000)
    script.page(frame([(1, "a"), (1, "b"), (11, "b")])).page(frame([(21, "a"), (21, "b"), (31, "b")]))
    filled = next(r for r in script.results if r["window_start"] == 10 and r["g"] == "a")
    assert (filled["n"], filled["kind"]) == (0, "final")
    script.new_rows()
    script.page(frame([(12, "a"), (13, "c")]))
    told = [(r["g"], r["n"], r["kind"], r["replaces"]) for r in script.new_rows()]
    assert told == [("a", 1, "corrected", filled["commit"]), ("c", 1, "corrected", None)]


def test_early_answers_have_the_columns_too() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), n="count(*)"), corrections=1000)
    script.page(frame([(1, "a")])).prod().page(frame([(12, "a")])).page(frame([(2, "a")]))
    assert [(r["kind"], r["n"], r["commit"], r["replaces"]) for r in script.results] == [
        ("early", 1, 1, None),
        ("final", 1, 2, None),
        ("corrected", 2, 3, 2),
    ]


def test_windows_that_were_answered_without_corrections_stay_as_they_are(tmp_path: Path) -> None:
    plan, sink = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), n="count(*)"), ListSink()
    Script(plan, tmp_path, sink).page(frame([(1, "a")])).page(frame([(12, "a")]))
    script = Script(plan, tmp_path, sink, corrections=1000)
    script.page(frame([(2, "a"), (13, "a"), (25, "a")])).page(frame([(14, "a")]))
    told = [(r["kind"], r["window_start"], r["n"], r.get("replaces")) for r in sink.rows]
    assert told == [("final", 0, 1, None), ("final", 10, 2, None), ("corrected", 10, 3, sink.rows[1]["commit"])]
    assert script.metrics()["q/window"]["lost_pairs"] == 1


def test_a_restart_with_another_aggregate_corrects_later_windows_only(tmp_path: Path) -> None:
    one = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), n="count(*)")
    two = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), n="count(*)", high="max(i)")
    sink = ListSink()
    Script(one, tmp_path, sink, corrections=1000).page(frame([(1, "a")])).page(frame([(12, "a")]))
    script = Script(two, tmp_path, sink, corrections=1000)
    script.page(frame([(2, "a"), (25, "a")])).page(frame([(14, "a", 0, 1.0, 5, "p")]))
    assert [(r["kind"], r["window_start"], r["n"]) for r in sink.rows] == [
        ("final", 0, 1),
        ("final", 10, 1),
        ("corrected", 10, 2),
    ]


@pytest.mark.parametrize(("before", "after"), [(None, "n >= 2"), ("n >= 2", None), (None, "n < 2")])
def test_a_restart_with_another_having_corrects_later_windows_only(
    tmp_path: Path, before: str | None, after: str | None
) -> None:
    def script(having: str | None) -> Script:
        plan = arrow_plan(SAMPLE, 10, 10, group_by=["g"], disorder=bounded(0), having=having, n="count(*)")
        return Script(plan, tmp_path, sink, corrections=1000)

    sink = ListSink()
    script(before).page(frame([(1, "a"), (1, "a"), (2, "b")])).page(frame([(12, "a")]))
    answered = len(sink.rows)
    later = script(after).page(frame([(2, "b"), (2, "a"), (13, "a"), (25, "a")])).page(frame([(14, "a")]))
    assert later.metrics()["q/window"]["lost_pairs"] == 2
    wanted = [] if after == "n < 2" else [("final", 10, 2), ("corrected", 10, 3)]
    assert [(r["kind"], r["window_start"], r["n"]) for r in sink.rows[answered:]] == wanted


STREAMS = {
    "v": ("t BIGINT, k ARRAY<BIGINT>", bounded(0)),
    "s": ("t BIGINT, g STRING, x INT", bounded(0)),
    "u": ("t BIGINT, g STRING, x INT", bounded(0)),
}
TUMBLING = "[RANGE 10, SLIDE 10]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM s", "a query without windows has no answers to correct"),
        ("SELECT count(*) AS n FROM s [RANGE 10]", "answers of a window for each row cannot be corrected"),
        ("SELECT count(*) AS n FROM s [SESSION 10]", "a late row may merge two sessions"),
        ("SELECT g, count(*) AS n FROM s [RANGE UNBOUNDED] GROUP BY g", "totals without a window are never final"),
        (f"SELECT g, count(*) AS n FROM s {TUMBLING} GROUP BY ROLLUP(g)", "the results of several windows"),
        (f"SELECT count(*) AS n FROM s {TUMBLING} GROUP BY g", "the results lack the group column 'g'"),
        (f"SELECT count(*) AS commit FROM s {TUMBLING}", "'commit' is a column of corrected results"),
        (f"SELECT g, count(*) AS n FROM s {TUMBLING} GROUP BY g ORDER BY n LIMIT 1", "the rank of all groups"),
        (
            f"SELECT max(n) AS n FROM (SELECT count(*) AS n FROM s {TUMBLING}) {TUMBLING}",
            "a corrected result twice",
        ),
        (
            "SELECT count(*) AS n FROM s [RANGE 5] JOIN u [RANGE 5] ON s.g = u.g WINDOW [RANGE 10, SLIDE 10]",
            "rows that are late for a join never reach the window",
        ),
        (
            f"SELECT count(*) AS n FROM DROP_DUPLICATES(TABLE s, DESCRIPTOR(g), 10) {TUMBLING}",
            "drop_duplicates lets no late row through",
        ),
        (
            f"SELECT count(*) AS n FROM (SELECT * FROM s UNION ALL ORDERED SELECT * FROM u) {TUMBLING}",
            "an ordered union lets no late row through",
        ),
        ("SELECT count(*) AS n FROM s [RANGE 10, SLIDE 10, FILL LAST]", "fill='last' repeats an answer"),
        (
            "SELECT count(*) AS n FROM s [RANGE 10, SLIDE 10, FILL 0] HAVING count(*) > 2",
            "with fill= and HAVING, a filled answer may",
        ),
        (f"SELECT k, count(*) AS n FROM v {TUMBLING} GROUP BY k", "is a list or a struct"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_name(text: str, message: str) -> None:
    Script.from_sql(text, STREAMS)
    with pytest.raises(QueryError, match=re.escape(message)):
        Script.from_sql(f"{text} CORRECTIONS 100", STREAMS)


def test_a_union_of_streams_is_corrected() -> None:
    text = f"SELECT g, count(*) AS n FROM (SELECT * FROM s UNION ALL SELECT * FROM u) {TUMBLING} GROUP BY g"
    script = Script.from_sql(f"{text} CORRECTIONS 100", STREAMS)
    for stream, time in (("s", 1), ("u", 2), ("s", 12), ("u", 13), ("u", 3)):
        script.page([{"t": time, "g": "a", "x": 1}], stream=stream)
    assert [(r["kind"], r["n"]) for r in script.results] == [("final", 2), ("corrected", 3)]
