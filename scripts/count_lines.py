"""Count the lines of code of slackwater/, without blank lines, comments and docstrings: in all and by room.

    python scripts/count_lines.py

A room is a folder at the top of the package. A line counts if it holds a token of code.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "slackwater"
#: Tokens that are no code.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def docstrings(tree: ast.AST) -> set[int]:
    """The lines of all texts that stand alone: docstrings, also those below a field."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def lines_of_code(text: str) -> int:
    """How many lines of a program hold code."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings(ast.parse(text)))


def by_room() -> dict[str, tuple[int, int]]:
    """For each room: its files and its lines of code. Modules at the top of the package are one room."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = f"{parts[0]}/" if len(parts) > 1 else "(top)"
        files[room] += 1
        lines[room] += lines_of_code(path.read_text())
    return {room: (files[room], lines[room]) for room in sorted(files)}


def main() -> None:
    """Print the table."""
    rooms = by_room()
    total = (sum(files for files, _ in rooms.values()), sum(lines for _, lines in rooms.values()))
    print(f"{'room':<14}{'files':>7}{'lines':>9}")
    for room, (files, lines) in [*rooms.items(), ("total", total)]:
        print(f"{room:<14}{files:>7}{lines:>9,}")


if __name__ == "__main__":
    main()
