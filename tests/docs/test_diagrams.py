"""The site shows each diagram as a picture, and fetches nothing for it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.delitem(sys.modules, "diagrams", raising=False)
    import diagrams

    return diagrams


def test_each_diagram_has_its_picture_and_no_picture_is_left_over(drawing: Any) -> None:
    """Another text has another picture: python docs/diagrams.py draws it."""
    wanted = {drawing.picture(text) for text in drawing.diagrams()}
    assert wanted and wanted == set(drawing.DRAWN.iterdir())


def test_a_picture_shows_the_words_of_its_diagram(drawing: Any) -> None:
    for text in drawing.diagrams():
        drawn = drawing.picture(text).read_text(encoding="utf-8")
        words = set(re.findall(r"[A-Za-z]{4,}", " ".join(re.findall(r'"([^"]+)"|\[([^]"]+)\]', text)[0])))
        assert words and all(word in drawn for word in words)


def test_pictures_fetch_nothing(drawing: Any) -> None:
    for file in drawing.DRAWN.iterdir():
        drawn = file.read_text(encoding="utf-8")
        assert not re.search(r"<script|<foreignObject|@import|(href|src)=\"http", drawn), file.name
