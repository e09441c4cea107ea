"""The figures as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import math

from slackwater.dashboard.families import Family, Labels, families
from slackwater.dashboard.watched import Watched

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PREFIX = "slackwater_"


def openmetrics(watched: Watched) -> str:
    """All metrics of a session."""
    return "".join(_text(family) for family in families(watched)) + "# EOF\n"


def _text(family: Family) -> str:
    name = _PREFIX + family.name
    lines = [f"# TYPE {name} {family.kind}"]
    if family.unit:
        lines.append(f"# UNIT {name} {family.unit}")
    lines.append(f"# HELP {name} {family.help}")
    suffix = "_total" if family.kind == "counter" else ""
    lines += [f"{name}{suffix}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    r"""Labels with their marks escaped.

    >>> print(_labels({"query": 'a"b\n'}))
    {query="a\"b\n"}
    """
    if not labels:
        return ""
    marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    told = (f'{key}="{"".join(marks.get(c, c) for c in value)}"' for key, value in labels.items())
    return f"{{{','.join(told)}}}"


def _number(value: float) -> str:
    """A number as the format wants it.

    >>> _number(3.0), _number(0.25), _number(math.inf)
    ('3', '0.25', '+Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
