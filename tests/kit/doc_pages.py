"""Runs the Python blocks of a page of docs/ from top to bottom, and sets what they print beside the page's word."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Ran:
    """A block, what it printed, and what the page says that it prints; None where the page says nothing."""

    code: str
    printed: str
    shown: str | None


def run(page: str) -> Iterator[Ran]:
    """The blocks of a page, each after it has run; they share their names."""
    names: dict[str, Any] = {}
    for block in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block["code"], page, "exec"), names)
        printed = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
        yield Ran(block["code"], printed, block["output"])


def rewrite(page: str, ran: list[Ran]) -> None:
    """Put what the blocks have printed into the page, where it shows an output."""
    left = iter(ran)

    def filled(block: re.Match[str]) -> str:
        of = next(left)
        text = f"```python\n{of.code}```\n"
        return text if of.shown is None else f"{text}\n```text\n{of.printed}```\n"

    path = DOCS / page
    path.write_text(_BLOCK.sub(filled, path.read_text(encoding="utf-8")), encoding="utf-8")
