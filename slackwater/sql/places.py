"""Where the parts of a query were written, so that what analysis finds wrong is told with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.errors import QueryError, SqlError
from slackwater.plan import logical as L
from slackwater.plan.analyse import Analysis
from slackwater.sql.source import Source, Span

#: What a message is about, the surest first.
_NAMED = (re.compile(r"(?:column|function|aggregate|name|stream) '([^']+)'"), re.compile(r"'([^']+)'"))


@dataclass(frozen=True)
class Place:
    """Where a node was written, and its parts."""

    whole: Span
    window: Span | None = None
    groups: Span | None = None
    parts: Mapping[str, Span] = field(default_factory=dict)
    """Of aggregates and of sides, by the words that a message about them begins with."""


class Places:
    """The places of the nodes of one text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._nodes: dict[int, tuple[L.Logical, Place]] = {}

    def put(self, node: L.Logical, place: Place) -> L.Logical:
        """Remember where a node was written."""
        self._nodes[id(node)] = (node, place)
        return node

    def check(self, query: L.Logical, analysis: Analysis) -> None:
        """Refuse what `analyse` refuses, step by step, each mistake at its place."""
        self._check(query, analysis, as_rows=False, above=None)

    def _check(self, query: L.Logical, analysis: Analysis, as_rows: bool, above: Place | None) -> None:
        """Check the inputs first. A view has no place here: then the place of the node above is given."""
        _, place = self._nodes.get(id(query), (query, above))
        rows = isinstance(query, (L.Aggregate, L.Join, L.JoinStored))
        for input in query.inputs:
            self._check(input, analysis, as_rows or rows, place)
        span = None if place is None else place.whole
        try:
            if isinstance(query, L.Aggregate):
                below = analysis.rows_of(query.inputs[0])
                span = span if place is None else place.window or span
                below, _ = analysis.window(below, query.window)
                span = span if place is None else place.groups or span
                analysis.groups(below, query.groups)
                span = None if place is None else place.whole
            analysis.of(query, as_rows)
        except SqlError:
            raise
        except QueryError as error:
            if place is None or span is None:
                raise
            raise self._at(place, span, error) from None

    def _at(self, place: Place, span: Span, error: QueryError) -> SqlError:
        """The error at the column that it names, or at the name in quotes that stands in the text."""
        message = str(error)
        named = next((s for words, s in place.parts.items() if message.startswith(words)), None)
        if message.startswith("group_by") and place.groups is not None:
            named = place.groups
        span = named or span
        return placed(self.source, span, message)


def placed(source: Source, span: Span, message: str) -> SqlError:
    """An error in a stretch of the text, at the word in it that the message names, if there is one."""
    inside = [t for t in source.tokens if span.start <= t.start and t.end < span.end]
    names = [text for pattern in _NAMED for text in pattern.findall(message)]
    for word in [w for text in names for w in (text, text.rsplit(".", 1)[-1])]:
        for token in inside:
            if token.text.lower() == word.lower():
                return source.error(Span(token.start, token.end + 1), message)
    return source.error(span, message)
