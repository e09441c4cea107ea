"""The oracle of corrected answers: all rows that count, by window and group, and what the sink has been told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

from slackwater.engine.build import source_label
from slackwater.operators import archive, correcting_aggregate, past_answers
from slackwater.operators.correcting_aggregate import CorrectingAggregate
from slackwater.operators.stores import CellTables
from slackwater.plan.corrections import with_corrections
from slackwater.plan.node import PlanNode
from slackwater.progress.disorder import Disorder
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.state.cell_folders import CellFolders
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.pages import ArrowPages
from slackwater.testing.stores import ArrowStores
from slackwater.windows.closed import Closed
from slackwater.windows.spec import WindowSpec
from tests.kit.streams import SAMPLE, same, timeless

AGGREGATES = {"n": "count(*)", "total": "sum(i)", "high": "max(s)", "mean": "avg(x)", "begins": "first(i)"}
KEPT = {"n": "count(*)", "middle": "median(x)", "all_i": "collect_set(i)"}
HAVING: dict[str | None, Callable[[int], bool]] = {"n >= 2": lambda n: n >= 2, "n < 3": lambda n: n < 3}
Row = dict[str, Any]
Key = tuple[Any, ...]


def values(rows: list[Row], kept: bool) -> Row:
    """The aggregates of some rows, from scratch."""
    whole = [r["i"] for r in rows if r["i"] is not None]
    numbers = sorted(r["x"] for r in rows if r["x"] is not None)
    if kept:
        half = len(numbers) // 2
        middle = (numbers[half] + numbers[-half - 1]) / 2 if numbers else None
        return {"n": len(rows), "middle": middle, "all_i": sorted(set(whole))}
    first = min(rows, key=lambda r: (r["t"], r["i"] is not None, r["i"]))
    return {
        "n": len(rows),
        "total": sum(whole) if whole else None,
        "high": max((r["s"] for r in rows if r["s"] is not None), default=None),
        "mean": sum(numbers) / len(numbers) if numbers else None,
        "begins": first["i"],
    }


@dataclass
class Oracle:
    """All rows that count, by window and group; and what the sink has been told."""

    spec: WindowSpec
    groups: Sequence[str]
    length: int
    by_source: bool
    kept: bool = False
    having: Callable[[int], bool] | None = None
    """Of how many rows answers are given."""
    rows: dict[Key, list[Row]] = field(default_factory=lambda: defaultdict(list))
    told: dict[Key, Row] = field(default_factory=dict)
    given: set[Key] = field(default_factory=set)
    """Windows that were answered, with their source."""
    corrected: int = 0
    withdrawn: int = 0
    lost: int = 0
    """(row, window) pairs that correct nothing any more."""
    late: list[Row] = field(default_factory=list)
    """Their rows, and those without a time."""

    def _closed(self, closed: Closed, source: str | None) -> int:
        named = {} if closed.named is None else dict(closed.named.iter_rows())
        through = named.get(source or "null", closed.emitted_through) if self.by_source else closed.emitted_through
        return -(10**9) if through is None else through

    def take(self, page: pl.DataFrame, closed: Closed) -> None:
        """A page comes when these windows are closed."""
        windows = -(-self.length // self.spec.slide)
        for row in page.iter_rows(named=True):
            if row["t"] is None:
                self.late.append(row)
                continue
            lost = 0
            pane = self.spec.pane_of(row["t"])
            for window in range(self.spec.first_window(pane), self.spec.last_window(pane) + 1):
                if row["t"] >= self.spec.bounds(window)[1]:
                    continue  # between two windows
                through = self._closed(closed, row["g"])
                given = window <= through if not self.by_source else (window, row["g"]) in self.given
                if given and window <= through - windows:
                    lost += 1
                else:
                    self.rows[(window, *(row[g] for g in self.groups))].append(row)

            self.lost += lost
            self.late += [row] if lost else []

    def hear(self, commits: dict[int, list[Row]], first: int) -> None:
        """What the sink has been told: each row replaces the one that it names."""
        for number in sorted(n for n in commits if n >= first):
            keys = set()
            for row in commits[number]:
                end = row["window_end"]
                window = (end - self.spec.offset - self.spec.first_end) // self.spec.slide
                key = (window, *(row[g] for g in self.groups))
                assert key not in keys, "two rows of one commit for one window and group"
                keys.add(key)
                assert row["commit"] == number
                before = self.told.pop(key, None)
                assert row["replaces"] == (None if before is None else before["commit"]), (row, before)
                if row["kind"] == "withdrawn":
                    assert before is not None and row["n"] == before["n"]
                    self.withdrawn += 1
                    continue
                assert row["kind"] == "corrected" or (row["kind"] == "final" and before is None)
                self.corrected += row["kind"] == "corrected"
                self.told[key] = row

    def check(self, closed: Closed) -> None:
        """What stands is what all rows that count come to, for every window that is closed."""
        wanted = {}
        for key, rows in self.rows.items():
            source = rows[0]["g"]
            if key[0] <= self._closed(closed, source):
                self.given.add((key[0], source))
                if self.having is None or self.having(len(rows)):
                    wanted[key] = values(rows, self.kept)
        assert self.told.keys() == wanted.keys()
        for key, row in wanted.items():
            for name, value in row.items():
                assert same(self.told[key][name], value), (key, name, self.told[key][name], value)


class FileStores(ArrowStores):
    """The files of closed panes below a folder, as on Spark."""

    folder: Path

    def cells(self, label: str) -> CellTables:
        pages = SparkPages(SparkBackend(None, StorageDir.of(self.folder)))  # type: ignore[arg-type]
        return CellFolders(label, pages)


def plan_of(
    range: int,
    slide: int,
    groups: Sequence[str],
    policy: Disorder,
    length: int,
    source: str | None = None,
    kept: bool = False,
    having: str | None = None,
    grows: bool = False,
    **more: Any,
) -> PlanNode:
    aggregates = KEPT if kept else AGGREGATES
    lengths = {"range": range, "step" if grows else "slide": slide, **more}
    plan: PlanNode = arrow_plan(
        SAMPLE, group_by=groups, disorder=policy, source=source, having=having, **lengths, **aggregates
    )
    return with_corrections(plan, length)


@contextmanager
def small(few: bool) -> Iterator[None]:
    """Files become one, and late rows are taken, a few at a time."""
    with ExitStack() as stack:
        for where, name in ((archive, "MANY"), (past_answers, "MOST_RUNS"), (correcting_aggregate, "MOST_PAIRS")):
            if few:
                stack.enter_context(mock.patch.object(where, name, 2))
        yield


def operator(script: Script) -> CorrectingAggregate:
    (found,) = [n.operator for n in script.executor.graph if isinstance(n.operator, CorrectingAggregate)]
    return found


def played(
    plan: PlanNode,
    pages: Sequence[pl.DataFrame],
    oracle: Oracle,
    folder: str,
    stops: set[int],
    stores: Any,
    limit: int = 2**28,
) -> Script:
    """The pages one by one, with a check after each; a new process goes on after some of them."""
    sink, late = ListSink(), ListSink()
    made = type("Stores", (stores,), {"folder": Path(folder) / "files"})

    def start() -> Script:
        script = Script(plan, f"{folder}/journal", sink, late, pages=ArrowPages(stores=made))
        window = operator(script)
        window._settings = replace(window._settings, resident_limit=limit)
        return script

    script, heard = start(), 0
    stream = next(iter(script._streams.values()))
    for number, page in enumerate(pages):
        if number in stops:
            script = start()
        oracle.take(page, operator(script)._closed)
        script.executor.admit(source_label("s"), arrow_page(page, number, 0, stream.time, stream.source))
        script.executor.run_until_idle()
        oracle.hear({n: t.to_pylist() for n, t in sink.commits.items()}, heard)
        heard = max(sink.commits, default=-1) + 1
        oracle.check(operator(script)._closed)
        figures = script.metrics()["q/window"]
        assert figures["lost_pairs"] == oracle.lost
        assert figures["corrected_results"] >= oracle.corrected
    assert sorted(map(str, timeless(late.rows))) == sorted(map(str, oracle.late))
    script.drain()
    oracle.hear({n: t.to_pylist() for n, t in sink.commits.items()}, heard)
    oracle.check(operator(script)._closed)
    return script
