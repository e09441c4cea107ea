"""The journaled values of a source."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from slackwater.operators.label import LabelFields


class SourceValues(TypedDict):
    """The journaled values, besides large columns."""

    policy: str
    policies: dict[str, dict[str, object]]
    columns: NotRequired[list[str]]
    counts: tuple[int, int, int, int, int]
    guard: dict[str, object]
    clock: tuple[int, int, int]
    highest: int | None
    waiting: list[int]
    under_way: list[int]
    lateness: list[object]
    read: NotRequired[int | None]
    """The last page of which the times are known."""
    heard: list[tuple[LabelFields, list[object]]]
