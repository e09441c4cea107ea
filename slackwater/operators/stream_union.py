"""The union (S3 section 4): rows of several inputs as those of one.

Rows need no order, so pages pass at once. Only heartbeats wait: the heartbeat of the output is the lowest one of
the inputs (S1 section 7). So a slow input holds time back for all operators after the union. A demand goes back
along that input alone. Where each source has a heartbeat of its own, this holds for each source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from slackwater.operators.operator import Emit, Input
from slackwater.operators.page import Page
from slackwater.operators.several import Several
from slackwater.progress.punctuation import Punctuation


class StreamUnion(Several):
    """Sends pages on as they come."""

    extends: ClassVar[bool] = True

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """It goes on."""
        emit(page)

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The inputs that are furthest behind; by source any of them may hold some source back."""
        if any(waiting.time.sources is not None for waiting in inputs):
            return list(range(len(inputs)))
        return super().blocking(inputs)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """What holds on all inputs."""
        return Punctuation.common(times)
