"""Rows that go straight into a function are not kept: the journal notes how they are made, and they come again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import slackwater as sw
from slackwater.errors import RunError
from slackwater.operators import sink as sink_operator
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, Recipe, Staged
from slackwater.plan.nodes import StreamNode
from slackwater.plan.steps import Select, Where
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.locations.files import Files
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import by_reference
from slackwater.spark.sinks.sinks import CallableSink
from slackwater.spark.storage.storage_dir import StorageDir

pytestmark = pytest.mark.spark

SCHEMA = "t BIGINT, k STRING, v BIGINT"
FILES = 4
Query = Callable[[sw.Session, sw.Stream], sw.Query]


@pytest.fixture(autouse=True)
def payloads(monkeypatch: pytest.MonkeyPatch) -> list[Payload]:
    """However few the rows, they do not go by the driver. What functions are given is noted."""
    given: list[Payload] = []
    real = CallableSink.write

    def noting(self: CallableSink, payload: Payload, commit_id: int) -> Any:
        given.append(payload)
        return real(self, payload, commit_id)

    monkeypatch.setattr(sink_operator, "FEW", 0)
    monkeypatch.setattr(CallableSink, "write", noting)
    return given


def give(folder: Path, first: int = 0, files: int = FILES) -> None:
    """Some rows have no time."""
    folder.mkdir(exist_ok=True)
    for f in range(first, first + files):
        times = [None if n == 3 else 10 * f + n for n in range(10)]
        rows = {"t": times, "k": ["a", "b"] * 5, "v": [100 * f + n for n in range(10)]}
        path = folder / f"{f}.parquet"
        pl.DataFrame(rows, schema={"t": pl.Int64, "k": pl.String, "v": pl.Int64}).write_parquet(path)
        os.utime(path, (1_000_000 + f, 1_000_000 + f))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


class Taken:
    """What a function was given, by commit; at one commit it copies the journal as a kill would leave it then."""

    def __init__(self, journal: Path, dies_at: int | None = None) -> None:
        self.commits: dict[int, list[tuple[Any, ...]]] = {}
        self._journal = journal
        self._dies_at = dies_at

    def __call__(self, rows: DataFrame, commit_id: int) -> None:
        self.commits[commit_id] = rows_of(rows)
        if commit_id == self._dies_at:
            shutil.copytree(self._journal, self._journal.with_name("left"))


def live(spark: SparkSession, root: Path, query: Query, taken: Any, journal: Path | None = None) -> dict[str, Any]:
    with sw.Session(spark, journal=journal or root / "journal", batch_pages=False) as s:
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
        made = query(s, s.stream("rows", df, time="t", disorder=sw.bounded(5)))
        run = made.start(sink=taken, name="q", hold=True)
        s.run_available()
        return run.metrics()


def straight(s: sw.Session, rows: sw.Stream) -> sw.Query:
    return rows.where("v % 100 < 8").select("t", "k", twice="2 * v").where("k = 'a'")


def assert_again(again: Taken, calm: Taken, dies_at: int) -> None:
    """All that was not marked comes again; a mark may stand for several commits."""
    assert set(range(dies_at, FILES)) <= set(again.commits)
    assert again.commits == {n: rows for n, rows in calm.commits.items() if n in again.commits}


FIGURES = ("rows", "missing_time", "pages", "lateness", "heartbeat")


@pytest.mark.parametrize(
    "dies_at", [0, FILES - 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, FILES - 1))]
)
def test_after_a_kill_between_the_journal_and_the_mark_the_same_rows_come_again(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload], dies_at: int
) -> None:
    give(tmp_path / "in")
    calm = Taken(tmp_path / "journal", dies_at)
    figures = live(spark, tmp_path, straight, calm)
    assert [type(payload) for payload in payloads] == [Recipe] * FILES
    assert sum(len(rows) for rows in calm.commits.values()) == 16, "v % 100 of 0, 2, 4 and 6"
    assert not (tmp_path / "journal" / "staged").exists()

    again = Taken(tmp_path / "left")
    after = live(spark, tmp_path, straight, again, tmp_path / "left")
    assert_again(again, calm, dies_at)
    assert {name: after[name] for name in FIGURES} == {name: figures[name] for name in FIGURES}


def test_files_that_go_before_their_rows_are_out_are_told_of(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in")
    calm = Taken(tmp_path / "journal", dies_at=2)
    live(spark, tmp_path, straight, calm)
    kept = (tmp_path / "in" / "2.parquet").rename(tmp_path / "kept")
    with pytest.raises(RunError, match=r"query 'q' has failed: files of the stream .*2\.parquet.*Keep files until"):
        live(spark, tmp_path, straight, Taken(tmp_path / "left"), tmp_path / "left")
    kept.rename(tmp_path / "in" / "2.parquet")
    again = Taken(tmp_path / "left")
    live(spark, tmp_path, straight, again, tmp_path / "left")
    assert_again(again, calm, 2)


def test_a_file_that_goes_under_the_function_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", files=1)

    def loses(rows: DataFrame, commit_id: int) -> None:
        (tmp_path / "in" / "0.parquet").unlink()
        rows.collect()

    with pytest.raises(RunError, match=r"query 'q' has failed: files of the stream .*0\.parquet"):
        live(spark, tmp_path, straight, loses)


def test_what_the_function_misses_is_its_own_fault(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in")

    def misses(rows: DataFrame, commit_id: int) -> None:
        rows.sparkSession.read.parquet(str(tmp_path / "no-history"))

    with pytest.raises(RunError, match=r"cannot give its results to the function .*no-history"):
        live(spark, tmp_path, straight, misses)


def test_another_sink_takes_the_rows_after_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in")
    calm = Taken(tmp_path / "journal", dies_at=1)
    live(spark, tmp_path, straight, calm)
    live(spark, tmp_path, straight, str(tmp_path / "out"), tmp_path / "left")
    found = pl.read_parquet(tmp_path / "out" / "*.parquet").rows()
    again = [row for n in (1, 2, 3) for row in calm.commits[n]]
    # A mark may stand for several commits.
    assert sorted(found, key=str) in [sorted([*more, *again], key=str) for more in ([], calm.commits[0])]


def test_a_function_may_run_no_job_or_many(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in")
    seen: list[int] = []

    def looks(rows: DataFrame, commit_id: int) -> None:
        if commit_id:
            seen.append(len(rows.limit(2).collect()) + rows.where("twice > 0").count())

    figures = live(spark, tmp_path, straight, looks)
    assert seen == [2 + 4] * (FILES - 1)
    assert (figures["rows"], figures["missing_time"]) == (10 * FILES, FILES)


@pytest.mark.parametrize("column", ["rand()", "current_timestamp()", "uuid()", "theirs(v)"])
def test_what_may_not_be_the_same_again_is_kept(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload], column: str
) -> None:
    give(tmp_path / "in")
    spark.udf.register("theirs", F.udf(lambda v: v, LongType(), useArrow=False))
    calm = Taken(tmp_path / "journal", dies_at=1)
    live(spark, tmp_path, lambda s, rows: rows.select("v", x=column), calm)
    assert not any(isinstance(payload, Recipe) for payload in payloads)
    again = Taken(tmp_path / "left")
    live(spark, tmp_path, lambda s, rows: rows.select("v", x=column), again, tmp_path / "left")
    assert again.commits[1] == calm.commits[1]


# --- stored relations


def joined(relation: DataFrame) -> Query:
    return lambda s, rows: rows.where("v > 3").join(relation, on="k").select("v", "name")


def test_a_relation_of_the_driver_is_kept_as_it_was(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload]
) -> None:
    give(tmp_path / "in")
    first = spark.createDataFrame(pa.table({"k": ["a", "a", "b"], "name": ["x", "y", "z"]}))
    other = spark.createDataFrame([("a", "new"), ("b", "newer")], "k STRING, name STRING")
    calm = Taken(tmp_path / "journal", dies_at=2)
    live(spark, tmp_path, joined(first), calm)
    assert [type(payload) for payload in payloads] == [Recipe] * FILES
    assert [payload.rows for payload in payloads if isinstance(payload, Recipe)] == [9, 15, 15, 15]
    give(tmp_path / "in", FILES, 1)
    again = Taken(tmp_path / "left")
    live(spark, tmp_path, joined(other), again, tmp_path / "left")
    assert again.commits[2] == calm.commits[2], "made with the relation of the time"
    assert {name for _, name in again.commits[FILES]} == {"new", "newer"}
    live(spark, tmp_path, joined(other), again, tmp_path / "left")
    assert not any((tmp_path / "left" / "relations").iterdir()), "nobody needs a copy any more"


def test_rows_joined_with_files_are_kept(spark: SparkSession, tmp_path: Path, payloads: list[Payload]) -> None:
    give(tmp_path / "in")
    pl.DataFrame({"k": ["a"], "name": ["x"]}).write_parquet(tmp_path / "relation.parquet")
    relation = spark.read.parquet(str(tmp_path / "relation.parquet"))
    calm = Taken(tmp_path / "journal")
    live(spark, tmp_path, joined(relation), calm)
    assert not any(isinstance(payload, Recipe) for payload in payloads)
    assert sum(map(len, calm.commits.values())) == 18


# --- queries beside each other, and figures


def test_queries_with_and_without_windows_share_a_stream(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload]
) -> None:
    give(tmp_path / "in")
    taken = {name: Taken(tmp_path / "journal") for name in ("all", "some")}
    with sw.Session(spark, journal=tmp_path / "journal", batch_pages=False) as s:
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        rows = s.stream("rows", df, time="t", disorder=sw.bounded(0))
        everything = rows.select("v").start(sink=taken["all"], name="all", hold=True)
        windows = rows.window(10).agg(n="count(*)").start(name="windows", hold=True)
        some = rows.where("k = 'b'").start(sink=taken["some"], name="some", hold=True)
        s.run_available()
        assert [row["n"] for row in windows.results().to_pylist()] == [9] * FILES
        figures = [run.metrics() for run in (everything, windows, some)]
    assert [type(payload) for payload in payloads] == [Recipe] * 2 * FILES
    found = sorted(row for rows in taken["all"].commits.values() for row in rows)
    assert found == [(100 * f + n,) for f in range(FILES) for n in range(10)]
    assert {name: len(rows) for name, rows in taken["some"].commits.items()} == dict.fromkeys(range(FILES), 5)
    assert [(of["rows"], of["missing_time"]) for of in figures] == [(10 * FILES, FILES)] * 3


def test_a_page_without_rows_says_nothing(spark: SparkSession, tmp_path: Path, payloads: list[Payload]) -> None:
    give(tmp_path / "in")
    calm = Taken(tmp_path / "journal")
    live(spark, tmp_path, lambda s, rows: rows.where("v >= 200"), calm)
    assert list(calm.commits) == [0, 1] and all(len(rows) == 10 for rows in calm.commits.values())


def page(spark: SparkSession, root: Path, **of: Any) -> tuple[SparkPages, Page]:
    give(root / "in")
    paths = tuple(str(root / "in" / f"{f}.parquet") for f in range(FILES))
    schema = spark.createDataFrame([], SCHEMA).schema.json()
    node = StreamNode("rows", (), "t", "t", TimeDomain.SEQUENCE, sw.bounded(5), **of)
    files = Files("parquet", (), schema, paths, 1000)
    needs = frozenset({"total", "sketch"})
    made = by_reference(files, node, 3, 7, "spool/rows/3", ["t", "k", "v"], needs)
    return SparkPages(SparkBackend(spark, StorageDir.of(root / "j"))), made


@pytest.mark.parametrize("of", [{}, {"source": "k"}, {"punctuation": "CASE WHEN t IS NULL THEN v END"}], ids=str)
@pytest.mark.parametrize("known", [False, True])
def test_the_statistics_are_those_of_a_job_of_their_own(
    spark: SparkSession, tmp_path: Path, of: dict[str, str], known: bool
) -> None:
    (pages, given), (others, other) = page(spark, tmp_path, **of), page(spark, tmp_path, **of)
    if known:
        pages.measure(given)
    filtered = given.with_step(Where("v > 105")).with_step(Select((("w", "v + 1"),)))
    recipe = pages.recipe(filtered)
    assert recipe is not None and recipe.rows == 24
    assert rows_of(pages.spark.made(recipe)) == [(v + 1,) for v in sorted(filtered_values(), key=_as_shown)]
    made, expected = pages.arrival(given), others.measure(other)
    assert made is not None and made.saved() == expected.saved()
    everything = pages.recipe(given.with_step(Select((("v", "v"),))))
    assert everything is not None and everything.rows == 10 * FILES, "rows that only say how far time is count too"


def filtered_values() -> list[int]:
    return [v for f in range(FILES) for n in range(10) if (v := 100 * f + n) > 105]


def _as_shown(v: int) -> str:
    return str((v + 1,))


def test_rows_in_the_driver_are_fewer_than_it_takes_to_count_them(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_operator, "FEW", 5)
    give(tmp_path / "in")
    calm = Taken(tmp_path / "journal")
    live(spark, tmp_path, straight, calm)
    assert [type(payload) for payload in payloads] == [Recipe] + [pa.Table] * (FILES - 1)
    assert [len(rows) for rows in calm.commits.values()] == [4] * FILES


def test_staged_rows_do_not_stay_when_they_are_out(
    spark: SparkSession, tmp_path: Path, payloads: list[Payload], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.spark.backend.layout.TaskLayout.SMALL", 1)
    give(tmp_path / "in")
    live(spark, tmp_path, lambda s, rows: rows.select("v", x="rand()"), Taken(tmp_path / "journal"))
    assert any(isinstance(payload, Staged) for payload in payloads)
    assert not any((tmp_path / "journal" / "staged").iterdir())
