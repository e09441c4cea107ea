"""The journal on files: what a crash leaves is enough to go on with nothing lost and nothing twice.

The process dies at every single point at which it touches a file or a sink, then again at random ones; the
source gives again what was not acknowledged, under the same numbers, and sometimes more than that.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.engine.journal import Emission, Record
from slackwater.errors import JournalError
from slackwater.operators.label import Label
from slackwater.operators.operator import State
from slackwater.operators.page import Origin, Page, SavedRows
from slackwater.operators.payload import Recipe, Staged
from slackwater.plan.node import describe
from slackwater.plan.nodes import WindowNode
from slackwater.plan.steps import Select, Where
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.heartbeat import Heartbeat
from slackwater.spark.storage import journal_files
from slackwater.spark.storage.journal_files import FileJournal, QueryNote, open_journal
from slackwater.spark.storage.journal_names import FORMAT, READ_FORMATS
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.faults import Fate, World
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, frame, timeless, unbounded_streams

LOCAL = fs.LocalFileSystem()
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(x)",
    "var": "variance(x)",
    "ends": "last(s)",
    "d": "approx_count_distinct(i)",
}
PAGES = [
    frame([[0, "a", 1, 1.0, 1, "p"], [4, "b", 1, 2.0, 2, "q"], [None, "a", 1, 3.0, 3, "r"]]),
    frame([[9, "a", 1, 4.0, 4, "s"], [6, None, 1, 5.0, 5, "t"]]),
    frame([[2, "a", 1, 6.0, 6, "u"], [18, "b", 1, 7.0, 7, "v"]]),
    frame([[17, "b", 1, 8.0, 8, "w"], [1, "a", 1, 9.0, 9, "x"], [30, "c", 1, 0.5, 1, "y"]]),
    frame([[28, "c", 1, 0.25, 2, "z"]]),
]


@cache
def query(slack: int = 3, window: tuple[int, int] = (7, 3)) -> WindowNode:
    return arrow_plan(SAMPLE, *window, group_by=["g"], disorder=bounded(slack), **AGGREGATES)


def undisturbed(pages: Sequence[pl.DataFrame], slack: int = 3) -> Script:
    """A run without a journal and without a crash."""
    calm = Script(query(slack), late=ListSink())
    for number, page in enumerate(pages):
        calm.page(page, at=number)
    return calm.drain()


def assert_undisturbed(world: World, script: Script, calm: Script) -> None:
    """Results, late rows and figures are those of the calm run."""
    assert calm.late is not None
    assert_same_rows(world.sink.rows, timeless(calm.results), ["window_start", "g"])
    assert sorted(map(str, world.late.rows)) == sorted(map(str, calm.late.rows))
    unlike = ("commits", "state_bytes", "recent", "newest_rows")  # the latest answers are those since the start
    for label, figures in calm.metrics().items():
        got = script.metrics()[label]
        if not figures.get("rows"):  # nothing came: it is silent since it began, which the last process did later
            got, figures = {**got, "heard": None}, {**figures, "heard": None}
        assert {k: v for k, v in got.items() if k not in unlike} == {
            k: v for k, v in figures.items() if k not in unlike
        }


@pytest.fixture(
    params=[
        pytest.param(0, id="often whole"),
        pytest.param(1 << 20, id="once whole", marks=pytest.mark.long),
    ]
)
def whole_at(request: pytest.FixtureRequest) -> Iterator[int]:
    """How large the changes may grow before the whole state is written again."""
    with mock.patch.object(journal_files, "_SMALLEST_WHOLE", request.param):
        yield request.param


def test_the_process_may_die_at_every_point(tmp_path: Path, whole_at: int) -> None:
    calm = undisturbed(PAGES[:4])
    deaths = World(query(), PAGES[:4], tmp_path / "calm", commit_every=2).deaths(tmp_path / "deaths")
    assert len(deaths) > 60
    for point, world in enumerate(deaths):
        script = world.live(Fate(), again=point % 3)
        assert script is not None
        assert_undisturbed(world, script, calm)


@settings(max_examples=60)
@example(Stream([frame([]), frame([])], 0), [21], 0, 1, 0)
@given(
    unbounded_streams(most=20),
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.integers(0, 3),
    st.sampled_from([1, 2, 3, 64]),
    st.sampled_from([0, 3_000, 1 << 20]),
)
def test_the_process_may_die_again_and_again(
    stream: Stream, deaths: list[int], again: int, commit_every: int, whole_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(journal_files, "_SMALLEST_WHOLE", whole_at):
        world = World(query(stream.slack), stream.pages, Path(folder), commit_every)
        script = world.outlive(deaths, again)
        assert_undisturbed(world, script, undisturbed(world.pages, stream.slack))


def test_a_stop_between_any_two_pages_changes_nothing(tmp_path: Path, whole_at: int) -> None:
    world = World(query(), PAGES, tmp_path)
    for number in range(len(PAGES)):
        script = world.start(Fate())
        assert script.executor.consumed("source:s") == (number - 1 if number else None)
        world._give(script, number)
    script = world.live(Fate())
    assert script is not None
    assert_undisturbed(world, script, undisturbed(PAGES))
    assert world.sink.rewritten == world.late.rewritten == 0


def is_prepared(folder: Path) -> bool:
    """Whether the newest record is not known to be out."""
    steps = [int(p.name.partition("-")[0]) for p in (folder / "steps").glob("*.record")]
    return bool(steps) and max(steps) > max(int(p.name) for p in (folder / "commits").iterdir())


def test_answers_that_were_prepared_but_not_written_come_with_the_restart(tmp_path: Path) -> None:
    points = Fate()
    World(query(), PAGES[:2], tmp_path / "count").live(points)
    seen = set()
    for point in range(1, points.count + 1):
        world = World(query(), PAGES[:2], tmp_path / str(point))
        world.live(Fate(point))
        if is_prepared(tmp_path / str(point)):
            before = dict(world.sink.commits)
            world.start(Fate())
            seen.add(len(world.sink.commits) - len(before))
            assert not is_prepared(tmp_path / str(point))
    assert seen == {0, 1}


def test_a_page_that_was_taken_is_acknowledged_at_once_and_not_counted_again(tmp_path: Path) -> None:
    world = World(query(), PAGES, tmp_path)
    world._give(world.start(Fate()), 0)
    script = world.start(Fate())
    world._give(script, 0)
    assert script.metrics()["source:s"]["pages"] == 1


def test_a_stream_that_has_ended_stays_so(tmp_path: Path) -> None:
    Script(query(), FileJournal(LOCAL, str(tmp_path))).page(PAGES[0]).drain()
    again = Script(query(), FileJournal(LOCAL, str(tmp_path)))
    assert again.metrics()["source:s"]["heartbeat"] == Heartbeat.END.tick
    assert again.page(PAGES[1]).metrics()["q/window"]["late_rows"] == 2
    assert again.results == []


# --- records


def tables(record: Record) -> dict[str, pa.Table]:
    return {f"{label}/{n}": t for label, s in record.states.items() for n, t in s.tables.items()}


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    table = pa.table({"x": [1, None, 3], "s": ["a", "é", None]})
    window, steps = Label("q/1", "window"), (Where("x > 1"), Select((("x", "é"),)))
    record = Record(
        1,
        True,
        {Label.of_source("s"): 12},
        {window: State({"last_closed": None, "deep": [1, {"a": 2.5}]}, {"panes": table}, True)},
        {(window, 0): [{"punctuation": [-(2**63), []], "admission": 3}]},
        {window: {"registers": [[5, []]], "said": {"main": [3, [[4, 9]]]}, "since": 2}},
        3,
        [
            Emission(Label("q/1", "sink"), 4, table),
            Emission(Label("q/1", "late"), 5, Staged("somewhere/else", 10**7)),
            Emission(Label("r", "sink"), 0, Recipe(Page(Origin("source:s", 3), SavedRows("pages/1"), steps), 7)),
        ],
    )
    FileJournal(LOCAL, str(tmp_path)).prepare(record)
    journal = FileJournal(LOCAL, str(tmp_path))
    assert not journal.recover().committed
    journal.commit(record)
    recovered = FileJournal(LOCAL, str(tmp_path)).recover()
    assert recovered.committed
    (again,) = recovered.records
    assert (again.step, again.whole, again.consumed) == (record.step, record.whole, record.consumed)
    assert again.queues == record.queues
    assert again.emissions == record.emissions
    assert tables(again) == tables(record)
    assert again.states[window].values == record.states[window].values
    assert {label.to_json()[0] for label in again.labels} == {"q/1", "r"}


def test_a_new_journal_knows_nothing(tmp_path: Path) -> None:
    recovered = FileJournal(LOCAL, str(tmp_path)).recover()
    assert (recovered.records, recovered.committed) == ([], True)


def test_a_whole_record_makes_the_earlier_ones_go(tmp_path: Path) -> None:
    with mock.patch.object(journal_files, "_SMALLEST_WHOLE", 0):
        script = Script(query(), FileJournal(LOCAL, str(tmp_path)))
        counts = []
        for number in range(12):
            script.page(PAGES[number % 5].with_columns(pl.col("t") + 3 * number))
            counts.append(len(list((tmp_path / "steps").iterdir())))
    assert max(counts) < 6


def test_changes_are_kept_beside_the_whole_record_until_they_outgrow_it(tmp_path: Path) -> None:
    script = Script(query(), FileJournal(LOCAL, str(tmp_path)))
    for number in range(6):
        script.page(PAGES[number % 5].with_columns(pl.col("t") + 3 * number))
    assert len(list((tmp_path / "steps").iterdir())) == 6
    recovered = FileJournal(LOCAL, str(tmp_path)).recover()
    assert [r.whole for r in recovered.records] == [True, False, False, False, False, False]


# --- refusals


def test_the_journal_of_another_query_is_refused_and_both_plans_are_named(tmp_path: Path) -> None:
    journal = FileJournal(LOCAL, str(tmp_path))
    journal.note({"q": QueryNote(describe(query(window=(7, 3))), {"where0": Label("q", "where", 0)})})
    assert journal.check("q", describe(query(window=(7, 3)))) == {"where0": "q/where0"}
    with pytest.raises(JournalError) as refusal:
        FileJournal(LOCAL, str(tmp_path)).check("q", describe(query(window=(8, 2))))
    message = str(refusal.value)
    assert "range 7 slide 3" in message
    assert "range 8 slide 2" in message
    assert str(tmp_path) in message and "on_change='new'" in message


def test_a_query_that_was_forgotten_makes_room_for_another(tmp_path: Path) -> None:
    journal = FileJournal(LOCAL, str(tmp_path))
    journal.note({"q": QueryNote("one", {}), "r": QueryNote("three", {})})
    journal.note({}, over=["q"])
    other = FileJournal(LOCAL, str(tmp_path))
    assert other.check("q", "two") == {}
    other.note({"q": QueryNote("two", {})})
    assert FileJournal(LOCAL, str(tmp_path)).queries == {"q": "two", "r": "three"}


def test_a_query_keeps_its_id_until_it_is_forgotten(tmp_path: Path) -> None:
    """Commits of a later query of that name begin at 0 again: its files must not be taken for the earlier one's."""
    journal = FileJournal(LOCAL, str(tmp_path / "a"))
    first = journal.run_id("q")
    journal.note({"q": QueryNote("plan", {})})
    again = FileJournal(LOCAL, str(tmp_path / "a"))
    assert again.run_id("q") == first
    assert len({first, again.run_id("r"), FileJournal(LOCAL, str(tmp_path / "b")).run_id("q")}) == 3
    again.note({}, over=["q"])
    assert FileJournal(LOCAL, str(tmp_path / "a")).run_id("q") != first


@pytest.mark.parametrize("version", READ_FORMATS)
def test_a_journal_of_each_format_that_is_read_goes_on(tmp_path: Path, version: int) -> None:
    """Written by that version of the program: three pages of five."""
    folder = shutil.copytree(Path(__file__).parent / "journals" / f"format-{version}", tmp_path / "journal")
    calm, sink = undisturbed(PAGES), ListSink()
    journal = FileJournal(LOCAL, str(folder))
    assert journal.check("q", describe(query())) == {}
    script = Script(query(), journal, sink)
    for page in PAGES[3:]:
        script.page(page)
    before = Script(query())
    for page in PAGES[:3]:
        before.page(page)
    rows = [*timeless(before.results), *timeless(script.drain().results)]
    assert_same_rows(rows, timeless(calm.results), ["window_start", "g"])
    assert json.loads((folder / "journal-2.json").read_text())["format"] == FORMAT


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    FileJournal(LOCAL, str(tmp_path)).note({"q": QueryNote("plan", {})})
    header = json.loads((tmp_path / "journal-1.json").read_text())
    (tmp_path / "journal-1.json").write_text(json.dumps({**header, "format": 99}))
    with pytest.raises(
        JournalError, match="has format 99, this version reads the formats 19 and 20: continue with"
    ):
        FileJournal(LOCAL, str(tmp_path))


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "{}", '{"format": 2}', "7", "null", '{"format": 2, "queries": 3}']
)
def test_a_header_that_is_no_journals_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(JournalError, match=r"journal.json' is not a Slackwater journal; give an empty folder"):
        FileJournal(LOCAL, str(tmp_path))


def test_nobody_else_may_read_its_files(tmp_path: Path) -> None:
    script = Script(query(), open_journal(StorageDir.of(tmp_path)))
    script.page(PAGES[0]).drain()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(files) > 2 and {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_s3a_is_s3(tmp_path: Path) -> None:
    place = StorageDir.of("s3a://bucket/some/folder?endpoint_override=localhost:9&scheme=http&region=x")
    assert (place.path, place.address) == ("bucket/some/folder", "s3a://bucket/some/folder")
    assert isinstance(place.files, fs.S3FileSystem)


def test_the_size_is_what_a_restart_reads(tmp_path: Path) -> None:
    journal = FileJournal(LOCAL, str(tmp_path))
    script = Script(query(), journal)
    for page in PAGES:
        script.page(page)
        assert journal.size == sum(file.stat().st_size for file in (tmp_path / "steps").iterdir()) > 0
    script.drain()
    again = FileJournal(LOCAL, str(tmp_path))
    again.recover()
    assert again.size == journal.size, "as it was counted when written"
