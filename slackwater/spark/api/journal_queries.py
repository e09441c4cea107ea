"""The queries of a session's journal: which of them are not back yet, and which it is yet to note.

A query is noted when all queries of the journal are back: nothing runs before. So a program that starts others than
the journal holds, and ends there, leaves the journal as it was.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Collection, Mapping
from typing import Literal

from slackwater.errors import JournalError, QueryWarning
from slackwater.events import event
from slackwater.operators.label import Label
from slackwater.plan.change import kept_by
from slackwater.plan.node import PlanNode, describe
from slackwater.spark.storage.journal_files import FileJournal, QueryNote

#: What to do when the journal holds another query of the same name; None refuses it.
OnChange = Literal["continue", "new"]


class JournalQueries:
    """The journal's notes of queries; none without a journal. Only the executor's thread changes them."""

    def __init__(self, journal: FileJournal | None) -> None:
        self._journal = journal
        self._own = uuid.uuid4().hex[:8]
        self._new: Mapping[str, QueryNote] = {}
        """Queries that have been started, to be noted when no other is missing."""
        self._over: set[str] = set()
        """Queries to be dropped then."""

    def run_id(self, name: str) -> str:
        """What tells a query's commit ids from those of all others."""
        return self._own if self._journal is None else self._journal.run_id(name)

    def changed(self, name: str, plan: PlanNode) -> bool:
        """Whether the journal holds another query of this name."""
        return self._journal is not None and self._journal.queries.get(name) not in (None, describe(plan))

    def parts(self, name: str, plan: PlanNode, on_change: OnChange | None) -> dict[str, Label]:
        """Labels of a query's parts, by their place in its plan; another plan only if that is asked."""
        if self._journal is None:
            return {}
        if on_change is None or not self.changed(name, plan):
            return self._journal.check(name, describe(plan))
        change = self._journal.change(name, describe(plan), kept_by(plan))
        event("query.changed", query=name, begun=change.begun, gone=change.gone)
        if change.begun or change.gone:
            text = f"query {name!r} goes on from the journal: {change.describe()}"
            warnings.warn(f"{text}; windows that are open lack earlier rows there", QueryWarning, stacklevel=4)
        return self._journal.parts(name)

    def reserved(self, name: str) -> frozenset[Label]:
        """Labels of the parts of other queries."""
        return frozenset() if self._journal is None else self._journal.reserved(name)

    @property
    def shared(self) -> frozenset[Label]:
        """Labels of the parts of all queries."""
        labels = frozenset[Label]() if self._journal is None else self._journal.shared
        return labels.union(*(noted.parts.values() for noted in self._new.values()))

    @property
    def plays(self) -> dict[str, int]:
        """Numbers of the replays that queries read, by query."""
        return {} if self._journal is None else self._journal.plays

    def missing(self, started: Collection[str]) -> list[str]:
        """Queries that the journal holds and that have not been started again: their pages must wait for them."""
        return [] if self._journal is None else [name for name in self._journal.queries if name not in started]

    def check_known(self, name: str) -> None:
        """Refuse a name that the journal does not hold."""
        if self._journal is None or name not in self._journal.queries:
            raise JournalError(f"the journal holds no query {name!r}")

    def note(self, name: str, noted: QueryNote, started: Collection[str], over: Collection[str]) -> None:
        """Note a started query, and drop those that it ends: now, or when none is missing."""
        self._write({**self._new, name: noted}, {*self._over, *over}, started)

    def forget(self, name: str, started: Collection[str]) -> None:
        """Drop a query that will not come back; it may have been the last that was missing."""
        assert self._journal is not None
        self._journal.note({}, [name])
        self._write(self._new, self._over, started)

    def ended(self, name: str, resumable: bool) -> bool:
        """A query has been stopped or has failed; whether a later session can go on with it."""
        self._new = {other: noted for other, noted in self._new.items() if other != name}
        if self._journal is None:
            return False
        if not resumable:
            self._journal.note({}, [name])
        return resumable and name in self._journal.queries

    def _write(self, new: Mapping[str, QueryNote], over: set[str], started: Collection[str]) -> None:
        if self._journal is not None:
            if self.missing(started):
                self._new, self._over = new, over
            else:
                self._journal.note(new, over)
                self._new, self._over = {}, set()
