"""The program on the page about testing runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_first_program_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(compile(program, "testing.md", "exec"), {})
