"""Links between documents lead to files and headings that are there; every page and public name has its place."""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path

import pytest

import slackwater as sw

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def _text(document: str) -> str:
    return _FENCE.sub("", (ROOT / document).read_text(encoding="utf-8"))


def _anchor(heading: str) -> str:
    """As both MkDocs and the usual hosts of repositories make it of a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "").strip().lower())
    return re.sub(r"[\s]+", "-", words)


def _anchors(document: str) -> set[str]:
    return {_anchor(heading) for heading in re.findall(r"^#+ (.+)$", _text(document), re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    for to, anchor in _LINK.findall(_text(document)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), to)) if to else document
        assert (ROOT / target).exists(), f"{to} is not there"
        assert not anchor or anchor in _anchors(target), f"{target} has no heading #{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [d.removeprefix("docs/") for d in DOCUMENTS if d.startswith("docs/")]
    assert [page for page in pages if not re.search(rf": {re.escape(page)}$", site, re.MULTILINE)] == []


def test_the_reference_has_every_public_name() -> None:
    shown = re.findall(r"^::: slackwater\.((?:papers\.)?\w+)$", _text("docs/reference.md"), re.MULTILINE)
    public = [*(name for name in sw.__all__ if name != "papers"), *(f"papers.{name}" for name in sw.papers.__all__)]
    assert sorted(shown) == sorted(public)


def test_the_figures_beside_native_spark_are_those_of_the_benchmarks() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "coming_from_figures.py"))
    text = made["PAGE"].read_text("utf-8")
    assert made["page"](text) == text, "run python docs/coming_from_figures.py"
    assert len(re.findall(r"\d ×", made["table"]())) == 8
