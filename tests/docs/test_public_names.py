"""What a user gets from the session and its objects can be named: each type is in `sw`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater as sw

GIVERS = (sw.Session, sw.Query, sw.Stream, sw.Windowed, sw.Run, sw.LivePage)
CLASSES = {
    node.name
    for path in Path(str(sw.__file__)).parent.rglob("*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.ClassDef)
}


def returned(giver: type) -> Iterator[tuple[str, str]]:
    """The names of our classes in what public methods and properties return."""
    for name, member in inspect.getmembers(giver):
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(function):
            written = str(function.__annotations__.get("return", ""))
            yield from ((name, word) for word in re.findall(r"\b(?<!pa\.)\w+", written) if word in CLASSES)


@pytest.mark.parametrize("giver", GIVERS, ids=lambda giver: giver.__name__)
def test_what_methods_return_is_exported(giver: type) -> None:
    found = dict(returned(giver))
    assert found or giver is sw.LivePage
    assert {(name, word) for name, word in found.items() if word not in sw.__all__} == set()


def test_pysparks_words_are_there() -> None:
    for giver, words in {
        sw.Query: ("filter", "where", "select", "withColumn", "union", "join"),
        sw.Windowed: ("groupBy", "agg"),
        sw.Run: ("isActive", "awaitTermination", "exception", "lastProgress", "status", "stop"),
    }.items():
        assert [word for word in words if not hasattr(giver, word)] == []
