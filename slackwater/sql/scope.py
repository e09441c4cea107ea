"""The names that a query can speak of: streams, views, and Python functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slackwater.plan import logical as L
from slackwater.plan.nodes import Function


@dataclass(frozen=True)
class MapFunction:
    """A Python function that makes other rows of rows, and the columns that it gives."""

    function: Function
    schema: str


@dataclass(frozen=True)
class Scope:
    """What is known where a query stands. Names are found in any capitals, unless two differ only in them."""

    streams: frozenset[str] = frozenset()
    views: Mapping[str, L.Logical] = field(default_factory=dict)
    functions: Mapping[str, MapFunction] = field(default_factory=dict)

    def with_stream(self, name: str) -> Scope:
        """The same with another stream."""
        return replace(self, streams=self.streams | {name})

    def with_view(self, name: str, query: L.Logical) -> Scope:
        """The same with a view; it hides a stream of its name."""
        return replace(self, views={**self.views, name: query})

    def with_function(self, name: str, function: MapFunction) -> Scope:
        """The same with a function."""
        return replace(self, functions={**self.functions, name: function})

    def query(self, name: str) -> L.Logical | None:
        """The rows that a name stands for; None for an unknown one."""
        view = _found(name, self.views)
        if view is not None:
            return self.views[view]
        stream = _found(name, self.streams)
        return None if stream is None else L.Scan(stream)

    def function(self, name: str) -> MapFunction | None:
        """The function of this name; None for an unknown one."""
        found = _found(name, self.functions)
        return None if found is None else self.functions[found]

    @property
    def relations(self) -> list[str]:
        """Names of all streams and views."""
        return sorted({*self.streams, *self.views})


def _found(name: str, names: Iterable[str]) -> str | None:
    known = list(names)
    if name in known:
        return name
    near = [k for k in known if k.lower() == name.lower()]
    return near[0] if len(near) == 1 else None
