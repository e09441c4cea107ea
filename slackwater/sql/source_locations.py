"""Where the parts of a query were written, so that errors of analysis show the place in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.errors import QueryError, SqlError
from slackwater.plan import logical as L
from slackwater.plan.analyse import Analysis
from slackwater.sql.source import Span, SqlText

#: How messages name the thing that is wrong, the most reliable pattern first.
_NAMED = (re.compile(r"(?:column|function|aggregate|name|stream) '([^']+)'"), re.compile(r"'([^']+)'"))


@dataclass(frozen=True)
class SourceLocation:
    """Where a node was written, and its parts."""

    whole: Span
    window: Span | None = None
    groups: Span | None = None
    parts: Mapping[str, Span] = field(default_factory=dict)
    """Where aggregates and sides were written, by the words that begin messages about them."""


class SourceLocations:
    """The locations of the nodes of one text."""

    def __init__(self, source: SqlText) -> None:
        self.source = source
        self._nodes: dict[int, tuple[L.Logical, SourceLocation]] = {}

    def put(self, node: L.Logical, place: SourceLocation) -> L.Logical:
        """Remember where a node was written."""
        self._nodes[id(node)] = (node, place)
        return node

    def check(self, query: L.Logical, analysis: Analysis) -> None:
        """Refuse what `analyse` refuses, and show where it was written."""
        try:
            analysis.of(query)
        except SqlError:
            raise
        except QueryError as error:
            # The nodes of a view were written elsewhere: the mistake is shown where the view is used.
            locations = [self._nodes[id(node)][1] for node in error.nodes if id(node) in self._nodes]
            if not locations:
                raise
            raise self._at(locations[0], error) from None

    def _at(self, location: SourceLocation, error: QueryError) -> SqlError:
        """The error at the column that it names, or at the name in quotes that stands in the text."""
        message, groups = str(error), location.groups
        span = next((s for words, s in location.parts.items() if message.startswith(words)), None)
        if groups is not None and message.startswith("group_by"):
            span = groups
        by_clause = {"window": location.window, "groups": groups}.get(error.clause)
        return placed(self.source, span or by_clause or location.whole, message)


def placed(source: SqlText, span: Span, message: str) -> SqlError:
    """An error in a stretch of the text, at the word in it that the message names, if there is one."""
    inside = [t for t in source.tokens if span.start <= t.start and t.end < span.end]
    names = [text for pattern in _NAMED for text in pattern.findall(message)]
    for word in [w for text in names for w in (text, text.rsplit(".", 1)[-1])]:
        for token in inside:
            if token.text.lower() == word.lower():
                return source.error(Span(token.start, token.end + 1), message)
    return source.error(span, message)
