"""What joins have in common: each keeps the rows of two inputs in a store, and counts those that come too late."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict

from slackwater.figures import Figures
from slackwater.operators.operator import Emit, State
from slackwater.operators.page import Page
from slackwater.operators.several import Several
from slackwater.operators.waiting_rows import MadeRows
from slackwater.plan.step import Columns
from slackwater.progress.clock import Clock


class JoinValues(TypedDict):
    """The journaled values of any join."""

    rows: Mapping[str, object]
    late: list[int]


class KeepingJoin(Several):
    """A join of two inputs. Subclasses match their rows, and say what a journal keeps beside them."""

    makes_rows: ClassVar[bool] = True

    def __init__(self, label: str, clock: Clock, store: MadeRows, late: Sequence[Columns] | None = None) -> None:
        super().__init__(label, late)
        self._clock = clock
        self._store = store
        self._late = [0, 0]

    def keep(self, side: int, page: Page, past: int, emit: Emit) -> None:
        """Put the rows of a page into the store. Those with a time at or below `past` are late."""
        late = self._store.add(side, page, past)
        self._late[side] += late
        self.send_late(side, page, past, late, emit)

    def counted(self) -> int:
        """As the store knows them."""
        return self._store.counted()

    @abstractmethod
    def values(self, common: JoinValues) -> Mapping[str, object]:
        """The journaled values of the join."""

    def state(self, whole: bool) -> State:
        """Times, counts, and the rows."""
        kept = self._store.state(whole)
        kept.values = self.values(JoinValues(rows=kept.values, late=list(self._late)))
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        self._late = list(states[-1].read(JoinValues)["late"])
        self._store.restore([state.at("rows") for state in states])

    def settle(self) -> None:
        """What went may be deleted."""
        self._store.settle()

    def metrics(self) -> Figures:
        """Late rows and the size of the state."""
        return {"late_rows": sum(self._late), "late_by_input": list(self._late), **self._store.size}
