"""The contract of a scheduling strategy: it sees what waits and says what to do next; it does no work.

What may run before what is said here and nowhere else (D9): prods first, sidelined pages in a lull, a commit before
expensive work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slackwater.choices import Choices
from slackwater.scheduling.chart import Segment
from slackwater.scheduling.paths import Plan

#: Seconds between two commits in a backlog: answers wait for a commit.
COMMIT_SECONDS = 2.0
#: Results on their way to a sink may put it off until then.
LATEST_COMMIT = 3.0


@dataclass(frozen=True, slots=True)
class WaitingPages:
    """Pages that wait before an operator: a few that came one after another, by the first of them."""

    admission: int
    seconds: float
    """Since it was admitted."""
    rows: float


@dataclass(frozen=True, slots=True)
class Ready:
    """An operator that could run now."""

    label: str
    oldest: int = 0
    """Admission number of the page that its oldest waiting element comes from."""
    oldest_in_need: int | None = None
    """Admission number of the oldest page at a source whose rows would be held back without what waits here."""
    results: bool = False
    """Whether rows wait that an operator has made when time had passed: they are on their way out."""
    depth: int = 0
    """Arcs between it and the source."""
    waiting: int = 1
    """Elements on its inputs."""
    rows: int = 0
    """Rows that wait, as far as they are known; so are bytes."""
    bytes: int = 0
    cost: float | None = None
    """Seconds a row, as measured; None before its first rows."""
    selectivity: float | None = None
    """Rows out for each row in, as measured."""
    last_run: int = 0
    """Number of its last run among those of all operators."""
    seconds: float = 0.0
    """That its runs have taken so far."""
    prodded: bool = False
    """Whether a prod waits for it."""
    spare: bool = False
    """Whether all it has to do can wait for a lull."""
    expensive: bool = False
    """Whether the run may take long."""
    unsaved: bool = False
    """Whether its next rows are in the driver alone, so that a commit would have to write them first."""
    waits: tuple[WaitingPages, ...] = ()
    """The pages on its arcs, oldest first, for a strategy that watches them."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Facts for a strategy, beside the ready operators."""

    lull: bool = False
    """Whether no source has anything to say either."""
    dirty: bool = False
    """Whether something has happened since the last commit."""
    uncommitted: int = 0
    """Runs since then."""
    senders: int = 0
    """Pages whose senders wait for a commit."""
    seconds: float = 0.0
    """Time since the last commit."""


class Act(Enum):
    """What can be done instead of running an operator."""

    COMMIT = "commit"
    WAIT = "wait"


class Strategy(ABC):
    """Says what to do next. It need know no more than what is ready."""

    name: str = "custom"
    """What people call it."""
    charts: bool = False
    """Whether it needs what operators cost and leave, also where only samples show that."""
    watches: bool = False
    """Whether it needs to know how long pages have waited."""

    @abstractmethod
    def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
        """One of the ready operators; or a commit first; or to wait, where none should run."""

    def why(self, picked: Ready | Act, ready: Sequence[Ready], now: Situation) -> str:
        """The reason for a choice, for people."""
        return ""

    def learn(self, plan: Plan) -> None:
        """The executor reports the operators and their recent costs: now and then, not at each choice."""
        return None

    def segment(self, label: str) -> Segment | None:
        """The chain that an operator belongs to, where there are chains."""
        return None

    def ends_segment(self, label: str) -> bool:
        """Whether what an operator puts out may have to wait, because another chain reads it."""
        return False


#: The strategies that users can name; each adds itself.
STRATEGIES = Choices[Strategy]("strategy", "strategy")


class Ordered(Strategy):
    """The rules that all our strategies share; each has an order of its own among what these leave.

    - A prod goes first: somebody waits for an answer.
    - What can wait for a lull waits for it.
    - Before expensive work there is a commit, so that pages are safe and answers are out.
    - Senders do not wait for more than some runs, and answers not longer than a second or two. Results that are on
      their way to a sink get there first: to save them on the way takes longer.
    """

    def __init__(self, commit_every: int = 64) -> None:
        self.commit_every = commit_every
        """How many runs may pass while a sender waits for a commit."""

    @abstractmethod
    def first(self, ready: Sequence[Ready]) -> Ready:
        """The operator that comes first; `ready` is never empty."""

    def pick(self, ready: Sequence[Ready], now: Situation) -> Ready | Act:
        """By the rules, then by the order."""
        if self._senders_wait(now):
            return Act.COMMIT
        if self._is_due(now):
            on_the_way = [r for r in ready if r.unsaved and not (r.expensive or r.spare)]
            return self.first(on_the_way) if on_the_way and now.seconds < LATEST_COMMIT else Act.COMMIT
        among = [r for r in ready if r.prodded] or [r for r in ready if not r.spare]
        if not among and now.lull:
            among = list(ready)
        if not among:
            return Act.WAIT
        picked = self.first(among)
        return Act.COMMIT if picked.expensive and now.dirty else picked

    def why(self, picked: Ready | Act, ready: Sequence[Ready], now: Situation) -> str:
        """The rule that decided, or what the order compares."""
        if not isinstance(picked, Ready):
            if picked is Act.WAIT:
                return "nothing is ready"
            if self._senders_wait(now):
                return "senders wait"
            return "the last one was long ago" if self._is_due(now) else "expensive work comes next"
        if self._is_due(now):
            return "its rows should be out before the commit that is due"
        if picked.prodded:
            return "a prod waits for it"
        return "nothing else is to do" if picked.spare else self.because(picked, [r for r in ready if not r.spare])

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """The keys that the order compares."""
        return ""

    def _senders_wait(self, now: Situation) -> bool:
        return bool(now.senders and now.uncommitted >= self.commit_every)

    def _is_due(self, now: Situation) -> bool:
        return now.dirty and now.seconds >= COMMIT_SECONDS
