"""A kind of node says all of itself: nobody but the table in engine/build.py asks which kind a node is (D12)."""

from __future__ import annotations

import ast
from pathlib import Path

import slackwater
from slackwater.engine.build import node_kinds
from slackwater.plan import join_node, node, nodes

PACKAGE = Path(slackwater.__file__).parent


def kinds() -> set[str]:
    values = [*vars(nodes).values(), *vars(join_node).values()]
    return {v.__name__ for v in values if isinstance(v, type) and issubclass(v, node.PlanNode)}


def asked_kinds(path: Path) -> list[str]:
    """The kinds of nodes that a module tests for by isinstance or in a match."""
    found = []
    for tree in ast.walk(ast.parse(path.read_text())):
        called = tree.func.id if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else ""
        if isinstance(tree, ast.Call) and called in ("isinstance", "issubclass"):
            found += [n.id for n in ast.walk(tree.args[1]) if isinstance(n, ast.Name)]
            found += [n.attr for n in ast.walk(tree.args[1]) if isinstance(n, ast.Attribute)]
        if isinstance(tree, ast.MatchClass) and isinstance(tree.cls, ast.Name):
            found.append(tree.cls.id)
    return [name for name in found if name in kinds()]


def test_nobody_asks_which_kind_a_node_is() -> None:
    asked = {str(p.relative_to(PACKAGE)): names for p in PACKAGE.rglob("*.py") if (names := asked_kinds(p))}
    assert asked == {}


def test_the_look_finds_what_it_looks_for(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(x):\n    return isinstance(x, (JoinNode, int)) or isinstance(x, nodes.StepNode)\n")
    assert sorted(asked_kinds(module)) == ["JoinNode", "StepNode"]


def test_every_kind_of_node_has_an_operator() -> None:
    concrete = kinds() - {"PlanNode", "AggregateNode"}
    assert {kind.__name__ for kind in node_kinds() if kind.__module__.startswith("slackwater.")} == concrete
