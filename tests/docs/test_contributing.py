"""CONTRIBUTING names files, folders and tables that are there, and an example of each extension."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_every_path_is_there(page: Path) -> None:
    paths = re.findall(
        r"`((?:slackwater|tests|benchmarks|experiments)[/.][\w/]+\.py|(?:slackwater|tests)/[\w/]*)`",
        page.read_text(),
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("name", "path"), re.findall(r"`(\w+)` of `(slackwater/[\w/]+\.py)`", TEXT))
def test_every_table_is_in_its_file(name: str, path: str) -> None:
    assert re.search(rf"^(?:def )?{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_extension_has_its_row() -> None:
    examples = {path.name for path in (ROOT / "tests" / "extensions").glob("test_*.py")}
    assert len(examples) == 10
    assert set(re.findall(r"\(tests/extensions/(\w+\.py)\)", TEXT)) == examples


def test_every_room_is_named() -> None:
    rooms = {path.parent.name for path in (ROOT / "slackwater").glob("*/__init__.py")}
    assert rooms == set(re.findall(r"`(\w+)/`", TEXT.split("## Where do I add")[0])) - {"slackwater", "tests"}


def test_a_file_has_at_most_400_lines() -> None:
    files = [
        path
        for folder in ("slackwater", "tests", "benchmarks", "experiments")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert [path.name for path in files if len(path.read_text().splitlines()) > 400] == []
