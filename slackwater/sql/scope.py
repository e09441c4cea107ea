"""The names that a query can use: streams, views, stored relations, Python functions, and columns of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slackwater.errors import QueryError, UnknownTableError
from slackwater.plan import logical as L
from slackwater.plan.analyse import Analysis
from slackwater.plan.step import Function


@dataclass(frozen=True)
class MapFunction:
    """A Python function that maps rows to other rows, and the columns of those."""

    function: Function
    schema: str


@dataclass(frozen=True)
class Scope:
    """The names that a query can use. Case does not matter, unless two names differ only in it."""

    streams: frozenset[str] = frozenset()
    views: Mapping[str, L.Logical] = field(default_factory=dict)
    functions: Mapping[str, MapFunction] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    """Stored relations with a name in the session."""
    analysis: Analysis | None = field(default=None, compare=False)
    """Finds the columns of rows; None while a text is read whose streams are not declared yet."""

    def with_stream(self, name: str) -> Scope:
        """This scope and one more stream."""
        return replace(self, streams=self.streams | {name})

    def with_view(self, name: str, query: L.Logical) -> Scope:
        """This scope and one more view, which hides a stream of its name."""
        return replace(self, views={**self.views, name: query})

    def with_table(self, name: str) -> Scope:
        """This scope and one more stored relation."""
        return replace(self, tables=self.tables | {name})

    def with_function(self, name: str, function: MapFunction) -> Scope:
        """This scope and one more function."""
        return replace(self, functions={**self.functions, name: function})

    def view(self, name: str) -> L.Logical | None:
        """The query of the view of this name; None for an unknown one."""
        view = _found(name, self.views)
        return None if view is None else self.views[view]

    def stream(self, name: str) -> str | None:
        """The stream of this name, in its own capitals; None for an unknown one."""
        return _found(name, self.streams)

    def table(self, name: str) -> str | None:
        """The stored relation of this name; None for an unknown one."""
        named = _found(name, self.tables)
        if named is not None:
            return named
        return None if self.columns_of_table(name) is None else name

    def columns(self, rows: L.Logical) -> list[str] | None:
        """The columns of some rows; None if they are not known yet, or have a mistake, which is reported later."""
        try:
            return None if self.analysis is None else self.analysis.columns(rows)
        except QueryError:
            return None

    def columns_of_table(self, name: str) -> list[str] | None:
        """The columns of a stored relation; None if they are not known, or there is none of this name."""
        try:
            return None if self.analysis is None else self.analysis.table(name)
        except UnknownTableError:
            return None

    def function(self, name: str) -> MapFunction | None:
        """The function of this name; None for an unknown one."""
        known_name = _found(name, self.functions)
        return None if known_name is None else self.functions[known_name]

    @property
    def relations(self) -> list[str]:
        """Names of all streams, views and stored relations."""
        return sorted({*self.streams, *self.views, *self.tables})


def _found(name: str, names: Iterable[str]) -> str | None:
    candidates = list(names)
    if name in candidates:
        return name
    similar = [k for k in candidates if k.lower() == name.lower()]
    return similar[0] if len(similar) == 1 else None
