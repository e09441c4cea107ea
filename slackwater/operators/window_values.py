"""What a journal keeps of a window aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from slackwater.operators.late_counts import LateValues


class ArchiveValues(TypedDict):
    """What a journal keeps of an archive."""

    files: list[tuple[int, str, int, int, int, int]]
    """Number, kind, lowest and highest number of a row, level and bytes of each."""
    next: int
    cells: Mapping[str, object]


class PastValues(TypedDict):
    """What a journal keeps of the answers that late rows may correct."""

    first: int | None
    lowest: int
    archive: ArchiveValues


class CorrectionValues(TypedDict):
    """What a journal keeps of corrections."""

    past: PastValues
    corrected: int
    missed: LateValues


class WindowValues(TypedDict):
    """What a journal keeps of it."""

    store: str
    panes: Mapping[str, object]
    closed: int | None
    ahead: NotRequired[list[tuple[int, int]]]
    counts: tuple[int, int, int, int]
    estimates: dict[str, object]
    measured: list[list[str]]
    partials: list[list[str]]
    late: LateValues
    filled: int
    corrections: NotRequired[CorrectionValues]
