"""Plan nodes of session windows, and of windows with gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.plan.nodes import StepNode, WindowNode
from slackwater.plan.time_columns import TimeColumns
from slackwater.windows.results import WINDOW_END


@dataclass(frozen=True)
class SessionNode(WindowNode):
    """Aggregates the rows of each session. A session of rows from `first` to `last` is [first, last + gap)."""

    ends_known: ClassVar[bool] = False

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
class GapNode(StepNode):
    """Leaves out the rows that lie between windows; the window says so itself."""

    @property
    def shown(self) -> bool:
        """No."""
        return False
