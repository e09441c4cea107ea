"""The plan node of session windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.plan.nodes import WindowNode


@dataclass(frozen=True)
class SessionNode(WindowNode):
    """Aggregates the rows of each session. A session of rows from `first` to `last` is [first, last + gap)."""

    ends_known: ClassVar[bool] = False

    def window_text(self) -> str:
        """The gap."""
        return f"sessions gap {self.domain.show_span(self.kernel.spec.range)}"

    def whole_windows(self) -> None:
        """Each group has sessions of its own."""
        return None
