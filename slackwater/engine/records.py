"""Records of what ran: for strategies, metrics, explain and the live page. Nothing here is a live object.

An operator's cost and selectivity are measured over its last runs, older ones counting ever less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TypeVar, cast

from slackwater.figures import Figures

T = TypeVar("T")

#: Runs after which a run weighs half as much.
_HALF_LIFE = 32
#: How many of the last choices are kept.
MOST_CHOICES = 64


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of an operator; rows and bytes are those of pages whose size is known."""

    node: str
    seconds: float
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    holding: float = 0.0
    """Seconds of it spent on work that the next operators would do otherwise."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a strategy chose, and why."""

    run: int
    """The number of the run; of a commit, that of the run before it."""
    chose: str
    """An operator, or "commit"."""
    ready: int
    """How many operators could have run."""
    why: str


class Measured:
    """What an operator's runs have shown so far.

    >>> measured = Measured()
    >>> measured.cost is None
    True
    >>> measured.ran(Ran("where", 0.5, 100, 20, 800, 160))
    >>> measured.cost, measured.selectivity
    (0.005, 0.2)
    """

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = 0.0
        self.rows_in = self.rows_out = 0
        self.last_run = 0
        """The number of the last run among those of all operators."""
        self._fade = 0.5 ** (1 / _HALF_LIFE)
        self._pages = 0
        """Runs that took pages whose rows were known."""
        self._recent = [0.0] * 5
        """Seconds, rows in, rows out, bytes in, bytes out; without the time for what was done for others."""
        self._line = [0.0] * 5
        """Runs with rows, and sums for the line through them: rows, seconds, rows², rows × seconds."""
        self._held = [0.0, 0.0]
        """The time for that, and the rows that came in."""
        self.held_share = 0.0
        """Share of the last pages for which it was done."""
        self.longest = 0.0
        """Seconds of the longest recent run: it fades, too."""

    def ran(self, run: Ran) -> None:
        """Learn from a run."""
        self.runs += 1
        self.seconds += run.seconds
        self.rows_in += run.rows_in
        self.rows_out += run.rows_out
        self.longest = max(self.longest * self._fade, run.seconds)
        fresh = (run.seconds - run.holding, run.rows_in, run.rows_out, run.bytes_in, run.bytes_out)
        self._recent = [old * self._fade + new for old, new in zip(self._recent, fresh, strict=True)]
        self._pages += run.rows_in > 0
        if run.rows_in:
            x, y = float(run.rows_in), run.seconds
            line = (1.0, x, y, x * x, x * y)
            self._line = [old * self._fade + new for old, new in zip(self._line, line, strict=True)]
        if run.rows_in or run.bytes_in:
            # Half of it is of the last four pages.
            self.held_share += ((run.holding > 0) - self.held_share) * 0.16
        if run.holding and run.rows_in:
            held = (run.holding, run.rows_in)
            self._held = [old * self._fade + new for old, new in zip(self._held, held, strict=True)]

    def parts(self, rows: int, quantum: float) -> int:
        """Into how many parts to cut a page of this many rows for runs of about `quantum` seconds.

        What a run costs whatever its rows does not become less: a part is at least four times that. As long as all
        pages had about as many rows nobody knows it; then it is taken for nothing, and the first parts show it.
        """
        n, x, y, xx, xy = self._line
        if not n or rows < 2:
            return 1
        spread = n * xx - x * x
        slope = (n * xy - x * y) / spread if spread > 0.01 * n * xx else y / x
        fixed = max(0.0, (y - slope * x) / n)
        return max(1, min(rows, ceil(slope * rows / max(quantum - fixed, 4 * fixed))))

    @property
    def hold_cost(self) -> float | None:
        """Seconds a row that comes in, to do at once what was put on rows; None before it was done."""
        return self._held[0] / self._held[1] if self._held[1] else None

    @property
    def cost(self) -> float | None:
        """Seconds a row that comes in."""
        return self._ratio(0, 1)

    @property
    def selectivity(self) -> float | None:
        """Rows that leave for each that comes in."""
        return self._ratio(2, 1)

    @property
    def growth(self) -> float | None:
        """Bytes that leave for each that comes in; None as long as bytes are not known."""
        return self._ratio(4, 3)

    @property
    def width(self) -> float | None:
        """Bytes a row that comes in; None as long as bytes are not known."""
        return self._ratio(3, 1) or None

    @property
    def seconds_of_late(self) -> float:
        """Seconds of recent runs; older ones count less."""
        return self._recent[0]

    @property
    def rows_of_late(self) -> float:
        """Rows that came in recently; older ones count less."""
        return self._recent[1]

    @property
    def page_rows(self) -> float:
        """Rows of a page that comes in, on the whole."""
        return self.rows_in / self._pages if self._pages else 0.0

    def _ratio(self, above: int, below: int) -> float | None:
        return self._recent[above] / self._recent[below] if self._recent[below] else None

    def figures(self) -> Figures:
        """Figures for a person."""
        return {
            "runs": self.runs,
            "run_seconds": round(self.seconds, 6),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "last_run": self.last_run,
            "cost": self.cost,
            "selectivity": self.selectivity,
            "growth": self.growth,
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The figures of all operators at one instant; readers of other threads see these and nothing else."""

    at: int
    """Time of the snapshot, by the session's clock."""
    operators: Mapping[str, Figures]
    strategy: str = ""
    """What chooses among ready operators."""
    choices: tuple[Choice, ...] = ()
    """Its last choices, the latest last."""
    journal_bytes: int = 0
    """Bytes of the journal that a restart reads."""
    _found: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    def of(self, label: str) -> Figures:
        """The figures of one operator; none if it is not there."""
        return self.operators.get(label, {})

    def once(self, name: object, find: Callable[[], T]) -> T:
        """A value found from the figures, computed once though several ask, as all queries of a stream do."""
        if name not in self._found:
            self._found[name] = find()
        return cast(T, self._found[name])


class History:
    """The latest snapshot. Earlier ones are not kept."""

    def __init__(self) -> None:
        self.latest = Snapshot(0, {})
        self._waiting: deque[Callable[[], object]] = deque()

    def tell_next(self, call: Callable[[], object]) -> None:
        """Call this once when the next snapshot is there, in the publishing thread; it must not wait."""
        self._waiting.append(call)

    def publish(self, snapshot: Snapshot) -> None:
        """Take a snapshot."""
        self.latest = snapshot
        while self._waiting:
            self._waiting.popleft()()
