"""How a disorder policy is written in a job file: a table with its name and main setting, and its options.

disorder = {drop_ratio = "1%", stretch = "10 minutes"}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.disorder import Disorder


@dataclass(frozen=True)
class Policy:
    """One policy: `{name = setting, option = …}`; `name = true` leaves the main setting out."""

    make: Callable[..., Disorder]
    options: tuple[str, ...]
    example: str
    read: Callable[[Any], Any] = lambda setting: setting
    """TOML knows lists and tables only; makes of them what the policy takes."""


def _pair(written: Any) -> Any:
    """A pair by name, or one for all."""
    if isinstance(written, Mapping):
        return {name: _pair(value) for name, value in written.items()}
    return tuple(written) if isinstance(written, list) else written


def _matrix(written: Any) -> Any:
    """A skew matrix: an entry is a pair, a list of pairs, or an empty list; {n, delta} is tuple-based."""
    if not isinstance(written, list) or not all(isinstance(row, list) for row in written):
        raise QueryError(
            f"skew = {written!r}: write a row for each source, and in it an entry for each, as in "
            'skew = [[["0 seconds", "0 seconds"], ["2 seconds", "5 seconds"]], [[], []]] with sources = ["a", "b"]'
        )
    return [[_entry(entry) for entry in row] for row in written]


def _entry(entry: Any) -> Any:
    if isinstance(entry, Mapping):
        return _counted(entry)
    if not isinstance(entry, list) or not entry:
        return entry or None
    if isinstance(entry[0], (list, Mapping)):
        return [_counted(e) if isinstance(e, Mapping) else tuple(e) for e in entry]
    return tuple(entry)


def _counted(entry: Mapping[str, Any]) -> Any:
    if set(entry) != {"n", "delta"}:
        raise QueryError(f"skew has {dict(entry)!r} in it; a tuple-based bound is written {{n = 3, delta = 0}}")
    return sw.tuples(entry["n"], entry["delta"])


_ENVIRONMENT = ("latency", "timeout", "unit", "groups")

POLICIES: Mapping[str, Policy] = {
    "bounded": Policy(sw.bounded, ("timeout",), '{bounded = "20 seconds"}'),
    "drop_ratio": Policy(sw.drop_ratio, ("stretch", "timeout"), '{drop_ratio = "1%"}'),
    "learned": Policy(
        sw.learned,
        ("alpha", "tmax", "unit", "timeout", "adaptive", "groups", "initial"),
        '{learned = "10 minutes", alpha = 0.5}',
    ),
    "disorder_control": Policy(sw.disorder_control, ("every", "timeout"), '{disorder_control = "1%"}'),
    "max_delay": Policy(sw.max_delay, ("timeout",), "{max_delay = true}"),
    "punctuated": Policy(sw.punctuated, ("timeout",), '{punctuated = "upto"}'),
    "sensors": Policy(
        sw.sensors,
        (*_ENVIRONMENT, "rate", "ties", "indirect"),
        '{sensors = "2 seconds", timeout = "1 minute"}',
    ),
    "global_counter": Policy(
        sw.global_counter, (*_ENVIRONMENT, "counted"), '{global_counter = ["10 ms", "40 ms"]}', _pair
    ),
    "skew": Policy(
        sw.skew,
        (*_ENVIRONMENT, "sources", "indirect"),
        '{skew = [[["0 seconds", "5 seconds"]]], timeout = "1 minute"}',
        _matrix,
    ),
}


def make_policy(name: str, settings: Mapping[str, Any]) -> Disorder:
    """The policy of this name; `settings` has its main setting under that name, and options."""
    policy = POLICIES[name]
    options = {key: value for key, value in settings.items() if key != name}
    if "rate" in options:
        options["rate"] = _pair(options["rate"])
    main = settings[name]
    return policy.make(**options) if main is True else policy.make(policy.read(main), **options)
