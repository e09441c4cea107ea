"""A kind of node says all of itself: only the registries ask which kind a node is (D12).

Outside of them, a module may create nodes of a kind, derive a class from it and name it in annotations. It may not
use the kind in any other way: not in `isinstance`, a comparison, a `match`, a dictionary or a tuple of kinds.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest

import slackwater
from slackwater.engine.build import node_kinds
from slackwater.plan import join_node, node, nodes
from slackwater.plan.logical import Logical
from slackwater.plan.node import PlanNode

PACKAGE = Path(slackwater.__file__).parent
#: Where each table from kinds of nodes stands, and its name.
REGISTRIES = {
    "engine/build.py": "_BUILDERS",
    "plan/analyse.py": "_ANALYSERS",
    "sql/write.py": "_WRITERS",
}
#: Importing this module runs the command line.
NOT_IMPORTED = ("__main__.py",)


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def kinds() -> set[type[Any]]:
    return subclasses(PlanNode) | subclasses(Logical)


def is_kind(value: object) -> bool:
    """Whether a value is a kind of node, or a tuple or union with one in it."""
    if isinstance(value, (tuple, UnionType)):
        return any(map(is_kind, value if isinstance(value, tuple) else get_args(value)))
    return isinstance(value, type) and issubclass(value, (PlanNode, Logical))


def value_of(expression: ast.AST, names: Mapping[str, Any]) -> object:
    """What a name, or a name with dots, means in a module; None if it is not one of the module's own."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    if isinstance(expression, ast.Attribute):
        return getattr(value_of(expression.value, names), expression.attr, None)
    return None


def used_expressions(tree: ast.AST, registry: str | None) -> Iterator[ast.AST]:
    """All expressions but annotations, bases of classes, what is called, and the keys of the registry."""
    other: list[ast.AST | None] = []
    for part in ast.walk(tree):
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys)) if name == registry:
                other += [part.annotation, *keys]
            case ast.Module():  # other names for kinds: where one is used, it is found by its value
                values = [line.value for line in part.body if isinstance(line, ast.Assign)]
                other += [value for value in values if isinstance(value, ast.BinOp) or is_named(value)]
            case ast.Call(func=ast.Name(id="TypeVar")):
                other += [keyword.value for keyword in part.keywords]
            case ast.AnnAssign() | ast.arg():
                other.append(part.annotation)
            case ast.FunctionDef():
                other.append(part.returns)
            case ast.ClassDef():
                other += part.bases
            case ast.Call() if is_named(part.func):
                other.append(part.func)
                yield part.func
            case ast.Subscript() if is_named(part.value):
                other.append(part.slice)  # list[PlanNode]()
    unused = {id(inner) for part in other if part is not None for inner in ast.walk(part)}
    yield from (part for part in ast.walk(tree) if id(part) not in unused)


def is_named(expression: ast.AST) -> bool:
    """Whether it is a name, or a name with dots."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name)


def questions(text: str, names: Mapping[str, Any], registry: str | None = None) -> list[str]:
    """Where a module asks which kind a node is."""
    fields = {name for kind in kinds() for name in getattr(kind, "__dataclass_fields__", ())}
    class_names = {kind.__name__ for kind in kinds()}
    attributes = {name for kind in kinds() for name in dir(kind) if name[:2] != "__"} | fields
    tree = ast.parse(text)
    called = {id(call.func) for call in ast.walk(tree) if isinstance(call, ast.Call)}
    found = []
    for part in used_expressions(tree, registry):
        match part:
            case ast.Name(ctx=ast.Load()) | ast.Attribute() if (
                is_kind(value_of(part, names)) and id(part) not in called
            ):
                found.append(ast.unparse(part))
            case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found += [ast.unparse(part)] if name in attributes - {"name"} else []
            case ast.Compare() | ast.MatchValue():
                texts = [c.value for c in ast.walk(part) if isinstance(c, ast.Constant)]
                by_name = any(isinstance(a, ast.Attribute) and a.attr == "__name__" for a in ast.walk(part))
                found += [ast.unparse(part)] if by_name and class_names & set(map(str, texts)) else []
            case ast.Attribute(attr="__class__" | "__instancecheck__" | "__subclasscheck__"):
                found.append(ast.unparse(part))
    return found


def test_nobody_asks_which_kind_a_node_is() -> None:
    asked = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name in NOT_IMPORTED:
            continue
        name = path.relative_to(PACKAGE).as_posix()
        dotted = ".".join(["slackwater", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        module = importlib.import_module(dotted)
        found = questions(path.read_text(), vars(module), REGISTRIES.get(name))
        if found:
            asked[name] = found
    assert not asked, asked


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(x, (JoinNode, int))",
        "isinstance(x, nodes.StepNode)",
        "isinstance(x, (int, str, PlanNode))",
        "issubclass(type(x), JoinNode)",
        "isinstance(x, SEVERAL)",
        "isinstance(x, EITHER)",
        "type(x) is JoinNode",
        "type(x) == nodes.StepNode",
        "type(x) in {JoinNode, nodes.StepNode}",
        "x.__class__ is int",
        "type(x).__name__ == 'JoinNode'",
        "hasattr(x, 'kernel')",
        "getattr(x, 'condition', None)",
        "{JoinNode: 1}.get(type(x))",
        "JoinNode.__instancecheck__(x)",
        "any(map(JoinNode.__instancecheck__, [x]))",
        "list(filter(lambda y: isinstance(y, JoinNode), [x]))",
    ],
)
def test_every_way_to_ask_is_found(question: str) -> None:
    names = {"JoinNode": join_node.JoinNode, "nodes": nodes, "PlanNode": node.PlanNode, "int": int, "str": str}
    names |= {"SEVERAL": (join_node.JoinNode, int), "EITHER": join_node.JoinNode | nodes.StepNode}
    assert questions(f"def f(x):\n    return {question}\n", names)


def test_a_match_is_found_and_a_use_is_not() -> None:
    names = {"JoinNode": join_node.JoinNode, "nodes": nodes}
    assert questions("match x:\n    case JoinNode():\n        pass\n", names) == ["JoinNode"]
    assert questions("match x:\n    case nodes.StepNode(step=1):\n        pass\n", names) == ["nodes.StepNode"]
    assert not questions("class A(JoinNode):\n    b: JoinNode\n", names)
    assert not questions(
        "def f(x: JoinNode) -> nodes.StepNode:\n    return nodes.StepNode(list[JoinNode]())\n", names
    )


def test_every_kind_of_node_has_an_operator() -> None:
    concrete = {kind for kind in subclasses(PlanNode) if kind.__module__.startswith("slackwater.")}
    operators = {kind for kind in node_kinds() if kind.__module__.startswith("slackwater.")}
    assert operators == concrete - {PlanNode, nodes.AggregateNode}
