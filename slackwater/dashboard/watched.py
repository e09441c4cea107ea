"""The live page's view of a session. It reads published figures, and asks as any other thread does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slackwater.engine.records import History
from slackwater.plan.node import PlanNode


class WatchedQuery(Protocol):
    """A query that was started."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def plan(self) -> PlanNode:
        """What it does."""

    @property
    def status(self) -> str:
        """Its status, in a word."""

    @property
    def failure(self) -> str:
        """The error that has ended it; nothing if there is none."""

    @property
    def active(self) -> bool:
        """Whether it has neither been stopped nor failed."""

    def metrics(self) -> Mapping[str, Any]:
        """Its figures, as published."""

    def prod(self, until: object = None, where: str | None = None) -> None:
        """Ask for an answer now."""

    def stop(self) -> None:
        """Stop it."""


class Watched(Protocol):
    """A session."""

    @property
    def history(self) -> History:
        """What its executor has published."""

    @property
    def paused(self) -> bool:
        """Whether it is paused."""

    @property
    def spark_ui(self) -> str:
        """The address of Spark's own pages; nothing if there are none."""

    def queries(self) -> Sequence[WatchedQuery]:
        """All that were started."""

    def pause(self) -> None:
        """Pause its work."""

    def resume(self) -> None:
        """Go on."""
