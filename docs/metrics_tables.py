"""Run it to write the tables of docs/metrics.md, from the types of the figures."""

from __future__ import annotations

import ast
from pathlib import Path

PAGE = Path(__file__).parent / "metrics.md"
PACKAGE = Path(__file__).parent.parent / "slackwater"
TYPES = (PACKAGE / "spark" / "api" / "metric_types.py", PACKAGE / "engine" / "figures.py")
SHOWN = ("Metrics", "StreamMetrics", "OperatorMetrics", "AccuracyMetrics", "Loss", "ChoiceMetrics")
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


def tables() -> str:
    """A table of fields for each class."""
    nodes = [node for path in TYPES for node in ast.parse(path.read_text()).body]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    # A base that has a table of its own is not repeated.
    found = [(classes[name], _bases(classes, name)) for name in SHOWN]
    return "\n\n".join(_table(of, [line for each in (of, *bases) for line in each.body]) for of, bases in found)


def _bases(classes: dict[str, ast.ClassDef], name: str) -> list[ast.ClassDef]:
    bases = [ast.unparse(base) for base in classes[name].bases]
    return [classes[base] for base in bases if base in classes and base not in SHOWN]


def _table(of: ast.ClassDef, body: list[ast.stmt]) -> str:
    lines = [
        f"## `{of.name}`",
        "",
        str(ast.get_docstring(of)),
        "",
        "| field | type | what it says |",
        "|---|---|---|",
    ]
    for field, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            told = (
                after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            )
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            lines.append(f"| `{ast.unparse(field.target)}` | `{kind}` | {told} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables made anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
