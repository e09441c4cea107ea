"""What a journal keeps of a window aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from slackwater.operators.late_counts import LateValues


class WindowValues(TypedDict):
    """What a journal keeps of it."""

    store: str
    panes: Mapping[str, object]
    closed: int
    ahead: NotRequired[list[tuple[int, int]]]
    counts: tuple[int, int, int, int]
    estimates: dict[str, object]
    measured: str
    partials: list[list[str]]
    late: LateValues
    filled: int
