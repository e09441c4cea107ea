"""Session settings whose values have names, as in `SET strategy = 'chain'`. Other rooms add the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Choices(dict[str, Callable[[], T]], Generic[T]):
    """The values of one setting, by name."""

    def __init__(self, setting: str, kind: str) -> None:
        super().__init__()
        self.kind = kind
        """The kind of value, for messages."""
        SETTINGS[setting] = self


#: All settings of this kind.
SETTINGS: dict[str, Choices[Any]] = {}
