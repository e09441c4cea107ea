"""No two classes of the package share a name, names are nouns (STYLE), and protocols are typed (D13)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "slackwater"
#: A logical node is what the user wrote; the step of the same name is what is done to a page for it.
SAME_THING = {"plan/logical.py", "plan/steps.py"}
#: Words that once stood for things, each with several meanings.
NO_NAMES = {
    "made",
    "told",
    "said",
    "held",
    "known",
    "seen",
    "beside",
    "behind",
    "noted",
    "judged",
    "taking",
    "asked",
}


def classes() -> dict[str, set[str]]:
    """The files that define a class, by its name."""
    found = defaultdict[str, set[str]](set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(path.relative_to(PACKAGE).as_posix())
    return found


def test_no_two_classes_share_a_name() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1 and files != SAME_THING} == {}


def test_no_class_or_file_has_a_participle_for_a_name() -> None:
    names = {name.strip("_").lower() for name in classes()} | {path.stem for path in PACKAGE.rglob("*.py")}
    assert not names & NO_NAMES


def any_in(function: ast.FunctionDef) -> bool:
    """Whether an argument or the result of a function has the type Any."""
    types = [argument.annotation for argument in ast.walk(function.args) if isinstance(argument, ast.arg)]
    names = [part for kind in (*types, function.returns) if kind is not None for part in ast.walk(kind)]
    return any(isinstance(part, ast.Name) and part.id == "Any" for part in names)


def test_no_protocol_of_operators_takes_or_gives_any() -> None:
    for path in (PACKAGE / "operators").glob("*.py"):
        for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(kind, ast.ClassDef) and {ast.unparse(base) for base in kind.bases} & {"Protocol", "ABC"}:
                methods = [part for part in kind.body if isinstance(part, ast.FunctionDef)]
                assert not [f"{kind.name}.{method.name}" for method in methods if any_in(method)], path.name
