"""The table of disorder policies: their words and options in SQL, and whether `tune` tries them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from typing import Any, Literal

from slackwater.errors import QueryError
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.bounds.skew_policy import Skew, TimedPair, skew
from slackwater.progress.bounds.user_settings import NamedValues
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.progress.result_error.result_error import result_error
from slackwater.progress.silence import NEVER


def as_lengths(written: Any) -> Any:
    """Microseconds of the wall clock as lengths of time, alone, in pairs and by name."""
    if isinstance(written, NamedValues):
        return NamedValues(tuple((name, as_lengths(value)) for name, value in written.items))
    if isinstance(written, tuple):
        return tuple(map(as_lengths, written))
    return written if written is None else timedelta(microseconds=written)


def _skew_bounds(policy: Skew) -> Any:
    """Bounds by pairs of sources; a matrix of one bound for a stream that is one source."""

    def bound(written: Any) -> Any:
        return (as_lengths(written.t), written.delta) if isinstance(written, TimedPair) else written

    bounds = {pair: [bound(each) for each in several] for pair, several in policy.bounds}
    return [[bounds.get(("", ""), [])]] if policy.sources is None else bounds


@dataclass(frozen=True)
class Policy:
    """One policy: the words of its name, its main setting if it has one, then its options in any order."""

    words: tuple[str, ...]
    make: Callable[..., Disorder]
    options: tuple[str, ...]
    example: str
    read: Callable[[Any], Any] = lambda setting: setting
    """Turns what SQL gives, in which pairs are lists, into the main setting."""
    main: Literal["value", "column"] = "value"
    """What SQL reads as the main setting: a value or an expression."""
    written: Callable[[Any], Any] | None = None
    """The main setting of a policy, if it is not its first own field. A wall-clock length is a timedelta."""
    tried: Literal["for each target", "once"] | None = None
    """Whether `tune` tries the policy: with each share that may be lost, or without."""
    module: str = "sw"
    """Where a user's program finds `make`."""

    @property
    def gives(self) -> str:
        """The name of the class of the policies that `make` gives."""
        return str(inspect.signature(self.make).return_annotation)

    def settings(self, policy: Any) -> tuple[list[Any], dict[str, Any]]:
        """The main setting of a policy, if it has one, and the options that have been set.

        >>> POLICIES[0].settings(bounded("20 seconds", timeout="1 minute"))
        (['20 seconds'], {'timeout': datetime.timedelta(seconds=60)})
        """
        by_name = {field.name: field for field in fields(policy)}
        # Settings that several policies share are inherited, and have to be named.
        first = next(name for name, field in by_name.items() if not field.kw_only)
        parameters = inspect.signature(self.make).parameters
        options = {}
        for name in self.options:
            value, assumed = getattr(policy, name), by_name[name].default
            if value == (parameters[name].default if assumed is MISSING and not value else assumed):
                continue
            forever = name == "timeout" and value == NEVER
            options[name] = "never" if forever else as_lengths(value) if name in WALL_CLOCK else value
        if self.written is not None:
            return [self.written(policy)], options
        return ([] if first in self.options else [getattr(policy, first)]), options


def read_pair(written: Any) -> Any:
    """A pair by name, or one for all."""
    if isinstance(written, Mapping):
        return {name: read_pair(value) for name, value in written.items()}
    return tuple(written) if isinstance(written, list) else written


def _skews(written: Any) -> Any:
    """Skew bounds from one source to another, or a matrix of them; a bound is a pair, or a list of pairs."""
    if isinstance(written, Mapping) and all(isinstance(key, tuple) for key in written):
        return {key: _entry(entry) for key, entry in written.items()}
    if isinstance(written, list) and all(isinstance(row, list) for row in written):
        return [[_entry(entry) for entry in row] for row in written]
    raise QueryError(
        "SKEW says how far one source may be behind another, as in SKEW ('a' TO 'b' = (2 SECONDS, 5 SECONDS)); or "
        "it has a row for each source, as in SKEW (((0, 5)))"
    )


def _entry(entry: Any) -> Any:
    if not isinstance(entry, list):
        return entry
    plain = any(isinstance(e, (int, str)) for e in entry)
    return tuple(entry) if plain else [tuple(e) if isinstance(e, list) else e for e in entry] or None


#: Options of all policies of S1's environments.
ENVIRONMENT = ("latency", "timeout", "unit", "groups", "ordered")

#: Options whose fields are microseconds of the wall clock.
WALL_CLOCK = ("every", "latency", "timeout", "tmax", "unit")

#: The policies that users can name. Those of other rooms add themselves.
POLICIES: list[Policy] = [
    Policy(("BOUNDED",), bounded, ("timeout", "idle"), "BOUNDED 20 SECONDS"),
    Policy(("DROP", "RATIO"), drop_ratio, ("stretch", "timeout", "idle"), "DROP RATIO 1%", tried="for each target"),
    Policy(
        ("LEARNED",),
        learned,
        ("alpha", "tmax", "unit", "timeout", "adaptive", "groups", "initial", "idle"),
        "LEARNED 10 MINUTES ALPHA 0.5",
        tried="once",
        written=lambda policy: as_lengths(policy.window) if policy.timed else policy.window,
    ),
    Policy(
        ("PUNCTUATED", "BY"),
        punctuated,
        ("timeout", "everyone", "since", "on"),
        "PUNCTUATED BY upto",
        main="column",
    ),
    Policy(("RESULT", "ERROR"), result_error, ("windows", "timeout", "idle"), "RESULT ERROR 1%"),
    Policy(
        ("SENSORS",),
        sensors,
        (*ENVIRONMENT, "rate", "ties", "indirect", "idle"),
        "SENSORS 2 SECONDS TIMEOUT 1 MINUTE",
    ),
    Policy(
        ("SKEW",),
        skew,
        (*ENVIRONMENT, "sources", "indirect", "idle"),
        "SKEW ('a' TO 'b' = (2 SECONDS, 5 SECONDS)) TIMEOUT 1 MINUTE",
        _skews,
        written=_skew_bounds,
    ),
]


def best_effort() -> Disorder:
    """S4's default (section 4), for an attribute of whose disorder nothing is known: few losses, a long wait."""
    return next(policy.make() for policy in POLICIES if policy.words == ("CONTROL",))


def in_python(description: str) -> str:
    """A policy's description as a user's program writes it.

    >>> in_python("bounded('20 seconds')")
    "sw.bounded('20 seconds')"
    """
    name = description.partition("(")[0]
    module = next((policy.module for policy in POLICIES if policy.make.__name__ == name), "sw")
    return f"{module}.{description}"
