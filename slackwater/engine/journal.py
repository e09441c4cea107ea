"""The journal's protocol: a record is prepared, the sinks are written, the record is committed.

After a crash the newest record is either committed, and all it says has happened, or only prepared, and its
answers are written again under the same commit ids. What no record holds comes again from the source.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import NotRequired, Protocol, TypedDict

from slackwater.engine.graph import Place
from slackwater.operators.element import SavedElement
from slackwater.operators.label import Label, LabelFields
from slackwater.operators.operator import State
from slackwater.operators.page import SavedPage
from slackwater.operators.payload import Payload


class SavedEntry(SavedElement):
    """What waits on an arc, as JSON values; `page` and `source` are those of pages."""

    admission: int
    page: NotRequired[SavedPage]
    source: NotRequired[LabelFields | None]


class SavedTimes(TypedDict):
    """How far time has come on the inputs and ports of an operator, and since which admission it is there."""

    registers: list[list[object]]
    said: dict[str, list[object]]
    since: int


@dataclass
class Emission:
    """Rows that a commit gives to an output."""

    sink: Label
    commit_id: int
    payload: Payload
    early: bool = True
    """Whether it answers a prod; of what a journal holds, that is not known any more."""


@dataclass
class Record:
    """All that has changed since the record before, or the whole state."""

    step: int
    whole: bool
    consumed: dict[str, int] = field(default_factory=dict)
    """Number of the last page taken, per source."""
    states: dict[Label, State] = field(default_factory=dict)
    """Operator states by label."""
    queues: dict[Place, list[SavedEntry]] = field(default_factory=dict)
    """What waits, by operator and input; complete in every record."""
    times: dict[Label, SavedTimes] = field(default_factory=dict)
    """By operator: how far time has come on its inputs and ports, and since which admission it is there."""
    admission: int = 0
    """Number of the last admission."""
    emissions: list[Emission] = field(default_factory=list)
    aside: list[Record] = field(default_factory=list)
    """In a whole record: the states of queries that were stopped or have failed, until they are back."""

    def part(self, labels: Set[str]) -> Record:
        """What it says of these operators."""
        return replace(
            self,
            consumed={},
            states={label: s for label, s in self.states.items() if label in labels},
            queues={place: waiting for place, waiting in self.queues.items() if place[0] in labels},
            times={label: t for label, t in self.times.items() if label in labels},
            emissions=[e for e in self.emissions if e.sink in labels],
            aside=[],
        )

    def without(self, labels: Set[str]) -> Record:
        """The same but for what it says of these operators."""
        return replace(self.part(self.labels - labels), consumed=self.consumed, aside=self.aside)

    @property
    def labels(self) -> set[Label]:
        """The operators that it says something of."""
        of_queues = (label for label, _ in self.queues)
        return {*self.states, *self.times, *of_queues, *(emission.sink for emission in self.emissions)}


@dataclass
class Recovery:
    """What a journal knows: the latest whole record and the changes since; the last may be only prepared."""

    records: list[Record] = field(default_factory=list)
    committed: bool = True
    """Whether the last record's answers are known to be out."""


class Journal(Protocol):
    """Keeps records. `durable` says whether they outlive the process."""

    durable: bool

    @property
    def size(self) -> int:
        """Bytes that a restart reads: the latest whole record and the changes since."""

    def recover(self) -> Recovery:
        """All that is needed to continue; empty for a new journal."""

    def read(self) -> list[Record]:
        """The latest whole record and the changes since, as they are now."""

    def wants_whole(self) -> bool:
        """Whether the next record should be a whole one, so that older ones can go."""

    def check_owner(self) -> None:
        """Refuse to go on if another session has taken the journal. To be asked before a sink is written."""

    def prepare(self, record: Record) -> None:
        """Make a record durable, then check the owner."""

    def commit(self, record: Record) -> None:
        """Mark the prepared record as done, atomically."""


class NoJournal:
    """For a session that need not survive a crash."""

    durable = False
    size = 0

    def recover(self) -> Recovery:
        """Nothing."""
        return Recovery()

    def read(self) -> list[Record]:
        """Nothing."""
        return []

    def wants_whole(self) -> bool:
        """Never: nothing is kept."""
        return False

    def check_owner(self) -> None:
        """Nobody else can have it."""

    def prepare(self, record: Record) -> None:
        """Keep nothing."""

    def commit(self, record: Record) -> None:
        """Keep nothing."""
