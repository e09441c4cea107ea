"""Run it to write the tables of docs/metrics.md, from the types of the figures."""

from __future__ import annotations

import ast
from pathlib import Path

PAGE = Path(__file__).parent / "metrics.md"
TYPES = Path(__file__).parent.parent / "slackwater" / "spark" / "api" / "metric_types.py"
SHOWN = ("Metrics", "StreamMetrics", "OperatorMetrics", "AccuracyMetrics", "Loss", "ChoiceMetrics")
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


def tables() -> str:
    """A table of fields for each class."""
    classes = {node.name: node for node in ast.parse(TYPES.read_text()).body if isinstance(node, ast.ClassDef)}
    return "\n\n".join(_table(classes[name]) for name in SHOWN)


def _table(of: ast.ClassDef) -> str:
    lines = [
        f"## `{of.name}`",
        "",
        str(ast.get_docstring(of)),
        "",
        "| field | type | what it says |",
        "|---|---|---|",
    ]
    for field, after in zip(of.body, [*of.body[1:], None], strict=True):
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
