"""Extend: adds a step to each page; nothing runs here. Rows that a step drops have moved time already."""

from __future__ import annotations

from typing import ClassVar

from slackwater.operators.operator import Extending
from slackwater.operators.page import Page
from slackwater.plan.step import Step


class Extend(Extending):
    """One operator for every step."""

    def __init__(self, label: str, step: Step) -> None:
        super().__init__(label)
        self._step = step

    @property
    def drops_rows(self) -> bool:
        """As the step says."""
        return self._step.drops_rows

    def extended(self, page: Page) -> Page:
        """The page with the step to be done."""
        return page.with_step(self._step.on(page.prod is not None))


class ExtendAnswers(Extend):
    """A step over answers. A corrected answer and the one from before stay in one page, so that is never cut."""

    divisible: ClassVar[bool] = False
