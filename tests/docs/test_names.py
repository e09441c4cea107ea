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


def parts_of(kind: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """The types of the fields of a class, and of what its public methods take and give."""
    types: dict[str, list[ast.expr | None]] = {}
    for part in kind.body:
        if isinstance(part, ast.AnnAssign):
            types[ast.unparse(part.target)] = [part.annotation]
        elif isinstance(part, ast.FunctionDef) and (part.name.startswith("__") or not part.name.startswith("_")):
            arguments = (one.annotation for one in ast.walk(part.args) if isinstance(one, ast.arg))
            types[part.name] = [*arguments, part.returns]
    return types


def has_any(types: list[ast.expr | None]) -> bool:
    """Whether `Any` is in one of the types; one that is written as text is a type, too."""
    parts = [part for one in types if one is not None for part in ast.walk(one)]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return "Any" in names or any(has_any([ast.parse(text, mode="eval").body]) for text in texts)


def test_the_check_sees_any() -> None:
    (kind,) = ast.parse("class A:\n a: 'dict[str, Any]'\n def b(self, c: list[Any]) -> None: ...\n d: int").body
    assert isinstance(kind, ast.ClassDef)
    assert [name for name, types in parts_of(kind).items() if has_any(types)] == ["a", "b"]


def test_what_passes_between_operators_engine_and_back_ends_is_typed() -> None:
    for room in ("operators", "engine"):
        for path in (PACKAGE / room).glob("*.py"):
            for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(kind, ast.ClassDef):
                    untyped = [f"{kind.name}.{name}" for name, types in parts_of(kind).items() if has_any(types)]
                    assert untyped == [], path.name
