"""Plan nodes of sessions, of totals without a window, of windows with gaps between them, and for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.plan.node import NeverEarly
from slackwater.plan.nodes import AggregateNode, StepNode, WindowNode
from slackwater.plan.time_columns import TimeColumns
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_END


@dataclass(frozen=True)
class SessionNode(WindowNode):
    """Aggregates the rows of each session. A session of rows from `first` to `last` is [first, last + gap)."""

    ends_known: ClassVar[bool] = False
    unknown_end: ClassVar[str] = "nobody knows when a session will end"

    def __post_init__(self) -> None:
        for a in self.kernel.closed:
            raise QueryError(
                f"{a.name}={a.text!r}: it needs all rows of a session, and sessions keep partials only; write "
                "window('10 minutes'), or an aggregate of a fixed size such as approx_count_distinct"
            )

    def time_columns(self) -> TimeColumns:
        """How long a session is, nobody knows."""
        return {WINDOW_END: (self.end_lag, self.end_lag)}

    def window_text(self) -> str:
        """The gap."""
        return f"sessions gap {self.domain.show_span(self.kernel.spec.range)}"

    def whole_windows(self) -> None:
        """Each group has sessions of its own."""


@dataclass(frozen=True)
class TotalNode(NeverEarly, WindowNode):
    """Aggregates all rows of each group since the beginning. It is answered when it is asked, and never final.

    An answer has no values beside those of its columns: what has come is the total.
    """

    ends: ClassVar[bool] = False
    ends_known: ClassVar[bool] = False
    unknown_end: ClassVar[str] = "a total without a window has no end"
    not_compared: ClassVar[str] = (
        "an answer of totals has only the groups that have changed, so they cannot be compared; do that in the "
        "sink, or write a window, as in window('10 minutes')"
    )
    forget: int | None = None
    """For how many ticks after its last row a group is known; None: for good."""

    def window_text(self) -> str:
        """It has none."""
        return "range unbounded" + (f" forget {self.domain.show_span(self.forget)}" if self.forget else "")

    def kept_text(self, with_aggregates: bool = True) -> str:
        """Totals count from the beginning of the query: other aggregates are another query."""
        return super().kept_text()

    def time_columns(self) -> TimeColumns:
        """Answers have no time."""
        return {}

    @property
    def reach(self) -> int:
        """Nothing waits for time."""
        return 0

    def whole_windows(self) -> None:
        """An answer has some of the groups."""

    def as_rows(self) -> StepNode:
        """Refused."""
        raise QueryError(
            "totals without a window give answers that replace one another, so they are no rows of another query; "
            "do it in the sink, or write a window, as in window('10 minutes') or [RANGE 10 MINUTES, SLIDE 10 "
            "MINUTES]"
        )


@dataclass(frozen=True)
class GapNode(StepNode):
    """Leaves out the rows that lie between windows; the window says so itself."""

    @property
    def shown(self) -> bool:
        """No."""
        return False


@dataclass(frozen=True)
class RollingNode(AggregateNode):
    """Aggregates, for each row, the rows of the window that ends with it."""

    kernel: RollingKernel

    def window_text(self) -> str:
        """A number of rows, or a range."""
        spec = self.kernel.spec
        length = f"{spec.rows} rows" if spec.range is None else f"range {self.domain.show_span(spec.range)}"
        return f"{length}, for each row" if spec.slide == 1 else f"{length}, for each {spec.slide} rows"
