"""Every Python block of the documents can be read, and says of `sw` only what there is: names and settings."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater as sw

ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "examples" / "tour.ipynb").read_text("utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
] + [pytest.param("".join(cell["source"]), id=f"tour.ipynb-{number}") for number, cell in enumerate(CELLS)]


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sw":
            yield node.attr


def _calls(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Names that are called, with the settings that are given by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func
            if isinstance(of.value, ast.Name) and of.value.id == "sw":
                yield of.attr, [keyword.arg for keyword in node.keywords if keyword.arg is not None]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_says_only_what_there_is(block: str) -> None:
    tree = ast.parse(block)
    assert set(_names(tree)) <= set(sw.__all__)
    for name, settings in _calls(tree):
        known = inspect.signature(getattr(sw, name)).parameters
        assert set(settings) <= set(known), f"sw.{name} has no such setting"


def test_the_notebook_was_run_from_top_to_bottom_without_an_error() -> None:
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    kinds = [output["output_type"] for cell in CELLS for output in cell["outputs"]]
    assert kinds and set(kinds) <= {"stream", "execute_result"}
    assert [o for cell in CELLS for o in cell["outputs"] if o.get("name") == "stderr"] == []


def test_the_notebook_tells_nothing_of_the_machine_that_ran_it() -> None:
    shown = json.dumps([cell["outputs"] for cell in CELLS])
    assert re.findall(r"/(?:home|root|tmp|Users|work|var)/", shown) == []


def test_each_text_of_the_notebook_begins_with_a_title() -> None:
    texts = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "markdown"]
    assert [text for text in texts if not text.startswith("#")] == []
