"""Figures for a person: what operators and policies say of themselves in `metrics()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Figure: TypeAlias = "float | str | Sequence[Figure] | Mapping[str, Figure] | None"
Figures: TypeAlias = Mapping[str, Figure]
