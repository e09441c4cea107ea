"""The join of two inputs, as a plan node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from slackwater.columns import TWIN
from slackwater.errors import QueryError
from slackwater.plan.identifiers import Wanted, only_used, used_columns
from slackwater.plan.node import ByAttribute, NeverEarly, PlanNode, TimeOfInput
from slackwater.plan.sql_type import sql_type
from slackwater.plan.time_columns import TimeColumns, earlier, through
from slackwater.progress.time import TimeDomain

if TYPE_CHECKING:
    from slackwater.plan.asof import AsofNode


@dataclass(frozen=True)
class Lifetime:
    """How long a row of one side of a join finds partners, counted from its own time."""

    range: int | None = None
    """In ticks, its own included; None for pairs of another join, which carry it in a column."""
    rows: int | None = None
    """Or until this number of rows of its side have come after it."""
    longest: int = 0
    """No row lives longer, in ticks."""
    closed: bool = field(default=False, compare=False)
    """Whether the user said how far rows may be apart, that distance included: one tick less than `range`."""

    @property
    def shortest(self) -> int:
        """No row lives shorter, in ticks."""
        return 1 if self.range is None else self.range

    def describe(self, domain: TimeDomain) -> str:
        """In the user's words."""
        if self.rows is not None:
            return f"{self.rows} rows"
        if self.range is None:
            return "pairs"
        return f"range {domain.show_span(self.range - self.closed)}{' (end included)' * self.closed}"


@dataclass(frozen=True)
class JoinNode(TimeOfInput, NeverEarly, PlanNode):
    """Pairs of rows of two inputs that are alive at the same time and meet a condition.

    The time of a pair is that of its later row; a row that stays alone keeps its own.
    """

    pairs_rows: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True
    inputs: tuple[PlanNode, ...]
    how: str
    sides: tuple[Lifetime, Lifetime]
    condition: str | None
    """Spark SQL over the columns of both sides, whose names differ; None for every pair."""
    columns: tuple[tuple[str, str], ...]
    """Output name and Spark SQL over those columns."""
    schema: pa.Schema
    kept: tuple[pa.Schema, pa.Schema]
    """The columns that are kept of the rows of each side."""
    written: str = ""
    """The condition as the user wrote it."""

    @property
    def lone(self) -> tuple[int, ...]:
        """The sides for which it matters whether a row has a partner."""
        return {"inner": (), "right": (1,), "full": (0, 1)}.get(self.how, (0,))

    @property
    def by_count(self) -> bool:
        """Whether the rows of a side live until a number of later rows has come."""
        return any(side.rows for side in self.sides)

    def as_asof(self) -> AsofNode | None:
        """Itself, if a row meets only the one that counts at its time."""
        return None

    def late_columns(self, side: int) -> tuple[tuple[str, str], ...]:
        """The columns of both sides, for a late row of one of them: those of the other side are null."""
        types = {f.name.removeprefix(TWIN): f.type for kept in reversed(self.kept) for f in kept}
        own = {name.removeprefix(TWIN): f"`{name}`" for name in self.kept[side].names}
        names = dict.fromkeys(name.removeprefix(TWIN) for kept in self.kept for name in kept.names)
        return tuple((name, own.get(name, f"CAST(NULL AS {sql_type(types[name])})")) for name in names)

    def describe(self) -> str:
        """The kind, the condition, and how long rows live."""
        alive = " and ".join(side.describe(self.domain) for side in self.sides)
        return f"{self.how} join on {self.written} of {alive}"

    def same_work(self) -> object:
        """All but the wanted columns, which grow with the queries that share it, and the user's words."""
        return "join", self.how, self.sides, self.condition, self.columns

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """What the wanted columns and the condition name; all of a row that may go to a late sink."""
        return (
            None if late_rows else only_used(self.columns, self.condition, used_columns(self.schema.names, wanted))
        )

    def is_source(self, text: str) -> bool:
        """No: a pair comes from two streams, and they share one heartbeat."""
        return False

    def time_columns(self) -> TimeColumns:
        """The time of a pair is that of its later row."""
        times = [below.time_columns() for below in self.inputs]
        if self.how in ("semi", "anti"):
            return through(self.columns, times[0])
        if self.by_count:
            return {}
        left, right = (earlier(t, side.longest - 1) for t, side in zip(times, self.sides, strict=True))
        return through(self.columns, {**left, **right})

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """Not possible: a pair has two rows."""
        raise QueryError(
            f"window on={written!r}: rows of a join go by the time of the later one; leave the attribute out, as "
            "in WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR], or declare the streams with it as their time"
        )

    @property
    def latent(self) -> bool:
        """A join needs times."""
        return False

    @property
    def over_results(self) -> bool:
        """Its rows are pairs."""
        return False

    @property
    def passes_early_rows(self) -> bool:
        """Also for a prod: the rows that wait for time, and those that have no partner yet."""
        return self.by_count or self.how not in ("inner", "semi") or super().passes_early_rows

    @property
    def gives_pairs(self) -> bool:
        """It does."""
        return True

    @property
    def looks_ahead(self) -> bool:
        """The partner of a row may be later, and only in a pair is that one the time."""
        return self.how != "inner"

    @property
    def reach(self) -> int:
        """A lone row comes out when its life is over."""
        return max(side.longest for side in self.sides) if self.lone else 0

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """The longest life of a pair, or of a lone row."""
        if self.by_count:
            raise QueryError(
                "join(): how long a pair of a window of rows lives is not known when it comes; give the first join "
                "a window of its own in the second, as in rolling(range='10 minutes')"
            )
        pair = min(side.longest for side in self.sides)
        return max([pair if self.how not in ("semi", "anti") else 0, *(self.sides[s].longest for s in self.lone)])
