"""Results as Parquet files: few files, each row once at every moment, whatever crashes.

`Reader` stands for any reader of the folder: it looks at every moment at which the process may die.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import slackwater as sw
from slackwater.errors import QueryError, SinkError
from slackwater.operators.payload import Payload, Staged
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.sinks import table_sink
from slackwater.spark.sinks.parquet_sink import ParquetFolder
from slackwater.spark.sinks.table_sink import TableSink
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import Script, arrow_plan
from tests.kit import faults
from tests.kit.faults import Died, Fate, MortalFiles
from tests.kit.streams import SAMPLE, frame


class World:
    """A sink's folder, a journal's folder, and a clock that the test moves."""

    def __init__(self, folder: Path, every: float = 10.0) -> None:
        self.out, self.journal = folder / "out", folder / "journal"
        self.every, self.now = every, 0.0

    def sink(self, fate: Fate | None = None, run: str = "run") -> TableSink:
        files: Any = fs.LocalFileSystem() if fate is None else MortalFiles(fate)
        out, root = (StorageDir(files, str(p), f"file://{p}") for p in (self.out, self.journal))
        pages: Any = SimpleNamespace(root=root, disk=Disk(root.files, sync=False))
        return TableSink(ParquetFolder(out, run, False, None), run, pages, self.every, lambda: self.now)

    def shown(self) -> list[int]:
        if not self.out.exists():
            return []
        rows = ds.dataset(self.out, format="parquet").to_table()
        return rows["x"].to_pylist() if rows.num_columns else []

    def files(self) -> list[str]:
        return sorted(p.name for p in self.out.iterdir())

    def held(self) -> list[str]:
        return sorted(p.name for p in self.journal.glob("held/run/*"))


def rows(commit: int) -> pa.Table:
    return pa.table({"x": [10 * commit, 10 * commit + 1]})


def test_a_commit_is_shown_at_once_after_a_pause_and_with_others_in_a_rush(tmp_path: Path) -> None:
    world = World(tmp_path)
    sink = world.sink()
    sink.write(rows(0), 0)
    assert world.shown() == [0, 1]
    for commit in range(1, 8):
        world.now = commit
        sink.write(rows(commit), commit)
    assert world.shown() == [0, 1] and sink.due_in() == 3
    world.now = 10
    sink.flush_due()
    assert world.files() == ["part-run-000000-000000.parquet", "part-run-000001-000007.parquet"]
    assert world.shown() == [x for c in range(8) for x in (10 * c, 10 * c + 1)]
    assert sink.due_in() is None and world.held() == []
    world.now = 25
    sink.write(rows(8), 8)
    assert len(world.files()) == 3, "nothing waits after a pause"


def test_a_day_of_commits_makes_few_files(tmp_path: Path) -> None:
    world = World(tmp_path)
    sink = world.sink()
    for commit in range(1_500):
        world.now = commit / 1.5
        sink.write(rows(commit), commit)
    sink.flush()
    assert len(world.shown()) == 3_000
    assert len(world.files()) <= 1_000 / 10 + 1


def test_much_is_shown_before_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sink, "MOST_HELD", 100)
    world = World(tmp_path)
    sink = world.sink()
    for commit in range(9):
        sink.write(rows(commit), commit)
    assert len(world.shown()) == 16 and len(world.files()) == 2


def test_files_are_never_changed_and_hidden_ones_do_not_stay(tmp_path: Path) -> None:
    world = World(tmp_path)
    sink, seen = world.sink(), dict[str, bytes]()
    for commit in range(40):
        world.now += 3
        sink.write(rows(commit), commit)
        now = {p.name: p.read_bytes() for p in world.out.iterdir()}
        assert seen.items() <= now.items() and all(name.startswith("part-") for name in now)
        seen = now


def live(world: World, fate: Fate, done: int) -> int:
    """One life: commits from the first that is not done, each as a journal gives it; gives the first not done."""
    try:
        sink = world.sink(fate)
        for commit in range(done, 9):
            world.now += 4
            sink.write(rows(commit), commit)
            done = commit + 1
        sink.flush()
        return 10
    except Died:
        return done


class Reader:
    """Looks at the folder whenever something may be changed."""

    def __init__(self, world: World) -> None:
        self.world, self.before = world, set[int]()

    def look(self) -> None:
        shown = self.world.shown()
        assert len(shown) == len(set(shown)), "a row is seen twice"
        assert self.before <= set(shown), "a row that was there is gone"
        assert all(x ^ 1 in shown for x in shown if x % 10 < 2), "half a commit is seen"
        self.before = set(shown)


class Watched(Fate):
    """Fate with a reader that looks at each of its points."""

    def __init__(self, reader: Reader, at: int | None) -> None:
        super().__init__(at)
        self._reader = reader

    def step(self) -> None:
        self._reader.look()
        super().step()


def test_a_crash_at_any_point_loses_nothing_and_shows_nothing_twice(tmp_path: Path) -> None:
    undisturbed = World(tmp_path / "calm")
    calm = Watched(Reader(undisturbed), None)
    assert live(undisturbed, calm, 0) == 10
    wanted = [x for c in range(9) for x in (10 * c, 10 * c + 1)]
    assert calm.count > 50
    for at in range(1, calm.count + 1):
        world = World(tmp_path / str(at))
        reader = Reader(world)
        done = live(world, Fate(at), 0)
        reader.look()  # at all points before it has looked in the calm life
        # It dies again soon after it is back, and then lives to the end.
        for again in (4, 9, None):
            done = live(world, Watched(reader, again), min(done, 9))
        assert done == 10
        reader.look()
        assert sorted(world.shown()) == wanted and world.held() == [], at
        assert all(name.startswith("part-") for name in world.files())


def test_held_rows_are_shown_by_the_next_process_even_if_nothing_new_comes(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.sink()
    for commit in range(3):
        first.write(rows(commit), commit)
    assert world.shown() == [0, 1] and world.held() == ["1", "2"]
    back = world.sink()
    assert back.due_in() == 0
    back.flush_due()
    assert world.shown() == [0, 1, 10, 11, 20, 21] and world.held() == []


def test_a_run_knows_its_own_files_among_others(tmp_path: Path) -> None:
    world = World(tmp_path, every=0)
    for run in ("run", "run-000003", "run-late", "rün (1)"):
        sink = world.sink(run=run)
        for commit in range(4):
            sink.write(rows(commit), commit)
    again = world.sink()
    again.write(rows(3), 3)
    again.write(rows(4), 4)
    assert len(world.files()) == 17


def test_staged_files_come_behind_what_is_held_and_may_come_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.journal / "staged").mkdir(parents=True)
    for n in (2, 3):
        pq.write_table(rows(n), world.journal / f"staged/part-{n}.parquet")
    payload: Payload = Staged("staged", 4)
    sink = world.sink()
    sink.write(rows(0), 0)
    sink.write(rows(1), 1)
    sink.write(payload, 2)
    world.sink().write(payload, 2)
    assert sorted(world.shown()) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_polars_and_pyarrow_read_the_folder_as_one_table(tmp_path: Path) -> None:
    world = World(tmp_path)
    sink = world.sink()
    for commit in range(5):
        world.now += 7
        sink.write(rows(commit), commit)
    sink.flush()
    assert pl.read_parquet(world.out)["x"].sort().to_list() == sorted(pq.read_table(world.out)["x"].to_pylist())


@pytest.mark.parametrize("every", ["soon", "-1 second", None, 7])
def test_how_often_is_a_time(every: Any) -> None:
    with pytest.raises(QueryError, match=r"parquet\(every=.*every='"):
        sw.parquet("out", every=every)


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SinkError, match="give a folder that can be written"):
        World(tmp_path).sink()


class Journaled(faults.World):
    """A query with a journal and a Parquet sink, on files that may be the last thing the process has touched."""

    now = 0.0

    def start(self, fate: Fate) -> Script:
        files: Any = MortalFiles(fate)
        journal = FileJournal(files, str(self.folder / "journal"))
        out, root = (StorageDir(files, str(self.folder / name), "") for name in ("out", "journal"))
        pages: Any = SimpleNamespace(root=root, disk=Disk(root.files, sync=False))
        self.parquet = TableSink(ParquetFolder(out, "run", False, None), "run", pages, 10.0, self._seconds)
        return Script(self.plan, journal, self.parquet, commit_every=2)  # type: ignore[arg-type]

    def _seconds(self) -> float:
        self.now += 1.7
        return self.now

    def live(self, fate: Fate, again: int = 0) -> Script | None:
        try:
            script = self.read(fate, again).drain()
            self.parquet.flush()
        except Died:
            return None
        return script

    def shown(self) -> list[tuple[Any, ...]]:
        out = self.folder / "out"
        files = sorted(out.glob("*.parquet")) if out.exists() else []
        tables = [pl.read_parquet(f).select("window_start", "g", "n") for f in files]
        return sorted(row for table in tables for row in table.rows())


def test_with_a_journal_a_crash_at_any_point_leaves_each_result_once(tmp_path: Path) -> None:
    plan = arrow_plan(SAMPLE, 4, 4, group_by=["g"], disorder=bounded(0), n="count(*)")
    pages = [frame([[3 * n, "a"], [3 * n + 1, "b"], [3 * n + 2, "a"]]) for n in range(8)]
    calm = Journaled(plan, pages, tmp_path / "calm")
    deaths = calm.deaths(tmp_path / "deaths")
    wanted = calm.shown()
    assert len(wanted) > 8 and len(list((tmp_path / "calm/out").iterdir())) < 6
    assert len(deaths) > 150
    for at, stormy in enumerate(deaths):
        assert isinstance(stormy, Journaled)
        assert len(set(stormy.shown())) == len(stormy.shown()) and set(stormy.shown()) <= set(wanted)
        lives = [stormy.live(Fate(7)), stormy.live(Fate(), again=1)]
        assert lives[-1] is not None and stormy.shown() == wanted, at


def test_a_file_that_somebody_has_deleted_is_noticed(tmp_path: Path) -> None:
    world = World(tmp_path, every=0.0)
    sink = world.sink()
    for commit in range(4):
        sink.write(pa.table({"x": [commit]}), commit)
    (world.out / world.files()[1]).unlink()
    with pytest.warns(sw.QueryWarning, match=r"lacks the files of commits 1 to 1 of this query"):
        again = world.sink()
    again.write(pa.table({"x": [4]}), 4)
    assert world.shown() == [0, 2, 3, 4]
