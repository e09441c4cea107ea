"""slackwater journal: what it shows is what the journal holds, and looking changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from pyarrow import fs
from typer.testing import CliRunner

from slackwater.cli.app import app
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.storage.journal_names import READ_FORMATS

KEPT = Path(__file__).parents[1] / "engine" / "journals"


def said(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["journal", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(params=READ_FORMATS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT / f"format-{request.param}", tmp_path / "journal"))


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_looking_changes_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "steps" / "000000000004-1.record.half").write_bytes(b"what the owner is writing")
    before = content(folder)
    listed = said("ls", folder)
    assert "q " in listed and "batches up to 2 are taken" in listed
    shown = said("show", folder, "q")
    assert "stream s" in shown and "heartbeat of q/window: " in shown
    said("export", folder, "q", tmp_path / "out")
    panes = [path for path in (tmp_path / "out").iterdir() if "panes" in path.name]
    assert panes and sum(pl.read_parquet(path).height for path in panes) > 0
    assert "is not empty" in said("export", folder, "q", tmp_path / "out", code=1)
    assert content(folder) == before


def test_a_query_is_forgotten(folder: Path) -> None:
    said("forget", folder, "q")
    assert FileJournal(fs.LocalFileSystem(), str(folder)).queries == {}
    assert "holds no query 'q'; it holds none" in said("forget", folder, "q", code=1)


def test_it_is_brought_to_the_newest_format(folder: Path) -> None:
    before = next(folder.glob("journal*.json")).read_text()
    version = json.loads(before)["format"]
    newest = READ_FORMATS[-1]
    assert said("upgrade", folder).strip() == (
        f"format {newest}" if version == newest else f"format {version} is now {newest}"
    )
    assert json.loads((folder / "journal-2.json").read_text())["format"] == newest


def test_a_folder_without_a_journal_is_named(tmp_path: Path) -> None:
    assert "holds no journal" in said("ls", tmp_path, code=1)
    assert list(tmp_path.iterdir()) == []
