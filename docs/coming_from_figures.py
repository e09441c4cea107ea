"""Writes the figures of docs/coming-from.md: a table of cases that the benchmarks' pages have from their JSON.

python docs/coming_from_figures.py
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "coming-from.md"
MEASURED = DOCS.parent / "benchmarks" / "README.md"
BEGIN, END = "<!-- figures: begin (coming_from_figures.py) -->", "<!-- figures: end -->"
#: What the page tells of: the name of a case in the benchmarks' tables.
CASES = {
    "tumbling windows": "1 M rows, tumbling",
    "each row in 5 windows": "1 M rows, RANGE/SLIDE 5",
    "each row in 20 windows": "1 M rows, RANGE/SLIDE 20",
    "ten queries on one stream": "10 queries, 1 M rows",
    "micro-batches of 1,000 rows (time, less is better)": "1,000 rows, RANGE/SLIDE 5",
    "no window: filter and project (Nexmark q0, q2)": "q0 q2",
    "a join of two streams (Nexmark q3)": "q3",
}
_TIMES = re.compile(r"([\d.]+) ×")


def table() -> str:
    """The page's table: Slackwater's figure divided by that of native Structured Streaming."""
    ratios = {}
    for line in MEASURED.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        found = [match for cell in cells[1:] if (match := _TIMES.match(cell))]
        if line.startswith("| ") and found:
            ratios[cells[0]] = found[0][1]
    lines = ["| | rows a second, beside native |", "|---|---|"]
    for about, names in CASES.items():
        keys = names.split() if names.startswith("q") else [names]
        lines.append(f"| {about} | {', '.join(f'{ratios[key]} ×' for key in keys)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its table made anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
