"""The journaled values of a window aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from slackwater.operators.late_counts import LateValues


class ArchiveValues(TypedDict):
    """The journaled values of an archive."""

    files: list[tuple[int, str, int, int, int, int]]
    """Number, kind, lowest and highest number of a row, level and bytes of each."""
    next: int
    cells: Mapping[str, object]


class PastValues(TypedDict):
    """The journaled values of the answers that late rows may correct."""

    first: int | None
    lowest: int
    archive: ArchiveValues


class CorrectionValues(TypedDict):
    """The journaled values of corrections."""

    past: PastValues
    corrected: int
    missed: LateValues
    filters: list[str]


class WindowValues(TypedDict):
    """The journaled values."""

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
