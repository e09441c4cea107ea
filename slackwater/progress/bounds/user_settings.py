"""Settings of bounds as a user writes them: lengths of time, and values for all sources or by name.

Equal settings have equal forms, however they were written, so that policies compare by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from slackwater.errors import QueryError
from slackwater.progress.source_numbers import LARGEST, whole
from slackwater.progress.time import Span, TimeDomain, microseconds

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

#: A stretch of application time: a whole number of a sequence, or a length of time as text; 0 fits both.
Length = int | str
#: How many sources are shown in one line.
SHOWN = 8


def wall(span: Span, what: str, least: int = 0) -> int:
    """Ticks of the wall clock; a plain number is taken as such.

    >>> wall("2 seconds", "latency"), wall(7, "latency")
    (2000000, 7)
    """
    return _checked(_plain(span, what), span, what, least)


def length(span: Span, what: str) -> Length:
    """A stretch of application time, to be read by `ticks` when the stream's domain is known.

    >>> length("60 seconds", "delta"), length(5, "delta"), length("0 seconds", "delta")
    ('1 minute', 5, 0)
    """
    found = _checked(_plain(span, what), span, what)
    if isinstance(span, int):
        return found
    return TimeDomain.TIMESTAMP.show_span(found) if found else 0


def ticks(span: Length, domain: TimeDomain, what: str) -> int:
    """A length in ticks of the stream's domain.

    >>> ticks("2 seconds", TimeDomain.TIMESTAMP, "deviation"), ticks(0, TimeDomain.TIMESTAMP, "deviation")
    (2000000, 0)
    """
    return 0 if span == 0 else domain.span(span, what)


def show_wall(found: int) -> str:
    """Ticks of the wall clock as a user would write them."""
    return repr(TimeDomain.TIMESTAMP.show_span(found)) if found else "0"


def _plain(span: Span, what: str) -> int:
    if isinstance(span, bool) or not isinstance(span, (int, str, timedelta)):
        raise QueryError(f"{what} is {span!r}; write a length of time, as in '5 seconds', or a whole number")
    return span if isinstance(span, int) else microseconds(span)


def _checked(found: int, written: object, what: str, least: int = 0) -> int:
    if found < least:
        wrong = "negative" if found < 0 else "nothing"
        instead = "'0 seconds' or more" if least == 0 else "a longer one, as in '1 minute'"
        raise QueryError(f"{what} is {written!r}, which is {wrong}; write {instead}")
    if found > LARGEST:
        raise QueryError(f"{what} is {written!r}, which no clock will see; write a shorter one")
    return found


@dataclass(frozen=True)
class NamedValues(Generic[V_co]):
    """Values by name, in the order of the names."""

    items: tuple[tuple[str, V_co], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(name for name, _ in self.items)


def named(values: Mapping[str, Any], read: Callable[[Any, str], V], what: str) -> NamedValues[V]:
    """Read values by name; `what` names them in errors."""
    if not values:
        raise QueryError(f"{what} is empty; write a value for each source, or one for all")
    for name in values:
        if not isinstance(name, str):
            raise QueryError(f"{what} has {name!r} for a name; write it as text, as in {str(name)!r}")
    return NamedValues(tuple((name, read(values[name], f"{what} of {name!r}")) for name in sorted(values)))


def read(values: Any, each: Callable[[Any, str], V], what: str) -> V | NamedValues[V]:
    """Read one value for all sources, or one for each by name.

    >>> read({"b": "2 seconds", "a": 5}, wall, "latency")
    NamedValues(items=(('a', 5), ('b', 2000000)))
    """
    return named(values, each, what) if isinstance(values, Mapping) else each(values, what)


def spread(value: V | NamedValues[V], names: tuple[str, ...], what: str) -> list[V]:
    """One value for each source.

    >>> spread(3, ("a", "b"), "latency")
    [3, 3]
    """
    if not isinstance(value, NamedValues):
        return [value] * len(names)
    if value.names != tuple(sorted(names)):
        here, there = set(names), set(value.names)
        if extra := sorted(there - here):
            raise QueryError(f"{what} names {extra[0]!r}, an unknown source; the sources are {_list(names)}")
        missing = min(here - there)
        raise QueryError(
            f"{what} says nothing of source {missing!r}; write a value for each source, or one for all"
        )
    found = dict(value.items)
    return [found[name] for name in names]


def show(value: object, each: Callable[[Any], str]) -> str:
    """As the user would write it; of many sources only the first."""
    if not isinstance(value, NamedValues):
        return each(value)
    few = ", ".join(f"{name!r}: {each(v)}" for name, v in value.items[:SHOWN])
    return "{" + few + (f", … {len(value.items)} in all" if len(value.items) > SHOWN else "") + "}"


def _list(names: Iterable[str]) -> str:
    some = sorted(names)
    return ", ".join(map(repr, some[:SHOWN])) + (", …" if len(some) > SHOWN else "")


#: How many groups the system may make, or the groups of the user's choice.
Groups = int | NamedValues[tuple[str, ...]]


def read_groups(groups: int | Mapping[str, Iterable[str]] | None) -> Groups | None:
    """Read what was written for groups (S1 section 5.2).

    >>> read_groups({"hall": ["b", "a"]})
    NamedValues(items=(('hall', ('a', 'b')),))
    """
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        return named(groups, _members, "groups")
    return whole(groups, "groups", least=1)


def yes_or_no(value: object, what: str) -> bool:
    """A setting that is on or off.

    >>> yes_or_no(True, "ties")
    True
    """
    if not isinstance(value, bool):
        raise QueryError(f"{what}={value!r}: write {what}=True or {what}=False")
    return value


def read_ordered(ordered: object, groups: object) -> bool:
    """Whether the network keeps the order of each source (S1 section 2)."""
    if not isinstance(ordered, bool):
        raise QueryError(f"ordered={ordered!r}: write ordered=True where the network keeps each source's order")
    if ordered and groups is not None:
        raise QueryError(
            "ordered=True speaks of each source, and a group of sources has no order; leave out groups= or ordered="
        )
    return ordered


def _members(members: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise QueryError(f"{what} is {members!r}; write its sources in a list, as in ['north', 'south']")
    return tuple(sorted(members))


def show_groups(groups: Groups | None) -> str | None:
    """As the user would write it."""
    return None if groups is None else repr(groups) if isinstance(groups, int) else show(groups, _show_members)


def _show_members(members: tuple[str, ...]) -> str:
    more = ", …" if len(members) > SHOWN else ""
    return "[" + ", ".join(map(repr, members[:SHOWN])) + more + "]"


def call(name: str, first: str, **settings: str | None) -> str:
    """A call as the user would write it, without what was left out.

    >>> call("skew", "[[(0, 5)]]", latency="3", timeout=None)
    'skew([[(0, 5)]], latency=3)'
    """
    return f"{name}({', '.join([first, *(f'{k}={v}' for k, v in settings.items() if v is not None)])})"
