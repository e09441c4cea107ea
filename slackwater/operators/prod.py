"""A prod: answer now (S5 section 3.1). Every operator gives what it has so far; what a final result needs stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from slackwater.windows.spec import WindowSpec

#: The fields of a prod. JSON has a list of them.
ProdFields: TypeAlias = "tuple[int | None, int | None, str | None, bool, str | None, bool, str | None]"


@dataclass(frozen=True, slots=True)
class Prod:
    """Asks for the windows that end in (after, until], and for the groups that meet `where`."""

    until: int | None = None
    after: int | None = None
    where: str | None = None
    timed: bool = False
    """Whether the Prodder has chosen its moment for these windows: how good the answer is tells it where to aim."""
    query: str | None = None
    """The query that is to answer: where a plan branches, the prod goes its way only. None: all behind its arc."""
    void: bool = False
    """Whether an aggregate below could not answer: those above it give no answer, which would lack its rows."""
    to: str | None = None
    """Of several aggregates whose results the query gives, the label of the one that is to answer; None: all."""

    def asks(self, label: str) -> bool:
        """Whether the aggregate of this label is to answer."""
        return self.to in (None, label)

    @staticmethod
    def at(tick: int, spec: WindowSpec, where: str | None = None) -> Prod:
        """For the windows that contain an instant: S5's predicate "timestamp = t".

        >>> Prod.at(25, WindowSpec(30, 10))
        Prod(until=50, after=25, where=None, timed=False, query=None, void=False, to=None)
        """
        return Prod(spec.bounds(spec.last_window(spec.pane_of(tick)))[1], tick, where)

    def saved(self) -> ProdFields:
        """As JSON values."""
        return self.until, self.after, self.where, self.timed, self.query, self.void, self.to

    @staticmethod
    def load(saved: ProdFields) -> Prod:
        """From what `saved` gave."""
        return Prod(*saved)
