"""What a restart needs of an object: a class names the attributes, and they are saved and restored by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

T = TypeVar("T", bound="Restorable")


class Restorable:
    """An object whose state is some of its attributes.

    An attribute may be a number, a text, None, a list, a dictionary, an array, or Restorable itself. State is JSON
    but for arrays, which lie at the top level: those of a Restorable attribute under its name and a dot.

    >>> class Counter(Restorable):
    ...     STATE = ("_count", "_last")
    ...     def __init__(self) -> None:
    ...         self._count, self._last = 0, {}
    >>> counter = Counter(); counter.restore({"count": 3, "last": [[7, "a"]]})
    >>> counter._last, counter.state()
    ({7: 'a'}, {'count': 3, 'last': [[7, 'a']]})
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    """The attributes; in the state they have no underscore in front."""

    def state(self) -> dict[str, Any]:
        """All that a restart needs: JSON values; what is large as int64 or float64 arrays at the top level."""
        found: dict[str, Any] = {}
        for name in self.STATE:
            value, key = getattr(self, name), name.lstrip("_")
            if isinstance(value, Restorable):
                found |= prefixed(key, value.state())
            else:
                found[key] = value.copy() if isinstance(value, np.ndarray) else _json(value)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`; arrays come back as arrays."""
        for name in self.STATE:
            value, key = getattr(self, name), name.lstrip("_")
            if isinstance(value, Restorable):
                value.restore(under(key, state))
            elif isinstance(value, np.ndarray):
                setattr(self, name, np.array(state[key], dtype=value.dtype))
            elif isinstance(value, dict):
                setattr(self, name, {entry: _json(kept) for entry, kept in state[key]})
            else:
                setattr(self, name, _json(state[key]))


def prefixed(key: str, state: dict[str, Any]) -> dict[str, Any]:
    """A state under a key of a larger one."""
    return {f"{key}.{name}": value for name, value in state.items()}


def under(key: str, state: dict[str, Any]) -> dict[str, Any]:
    """The state that was put under this key."""
    start = f"{key}."
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def state_of_each(key: str, named: Mapping[Any, Restorable]) -> dict[str, Any]:
    """The names under a key, and the state of each."""
    found: dict[str, Any] = {key: list(named)}
    for place, one in enumerate(named.values()):
        found |= prefixed(f"{key}.{place}", one.state())
    return found


def restore_each(key: str, state: dict[str, Any], build: Callable[[Any], T]) -> dict[Any, T]:
    """What `state_of_each` has saved; `build` makes one for a name."""
    named = {name: build(name) for name in state[key]}
    for place, one in enumerate(named.values()):
        one.restore(under(f"{key}.{place}", state))
    return named


def _json(value: Any) -> Any:
    """A copy of JSON values: tuples as lists, dictionaries as lists of pairs."""
    if isinstance(value, (list, tuple)):
        return [_json(entry) for entry in value]
    return [[key, _json(entry)] for key, entry in value.items()] if isinstance(value, dict) else value


#: Longer lists of names are kept as tables.
_LONG = 256


def parted(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tracker's state: what is small, and the arrays and long lists of names."""
    large = {
        name: value
        for name, value in state.items()
        if isinstance(value, np.ndarray)
        or (isinstance(value, list) and len(value) > _LONG and isinstance(value[0], str))
    }
    return {name: value for name, value in state.items() if name not in large}, large
