"""Parts of a page that a program writes, between two marks."""

from __future__ import annotations

import re
from pathlib import Path


def put(page: Path, begin: str, end: str, made: str) -> None:
    """Write what was made between the two marks of a page, in place of what stood there."""
    text, marked = page.read_text(), re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"{page} has no lines {begin} and {end}")
    page.write_text(marked.sub(lambda _: f"{begin}\n{made}\n{end}", text))
