"""The settings of a job file: frozen, and nothing of Spark in them."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.estimates.early import Early
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span


@dataclass(frozen=True)
class StreamJob:
    """`[streams.NAME]`."""

    name: str
    format: str
    path: str | None
    options: tuple[tuple[str, str], ...]
    schema: str | None
    time: str
    source: str | None
    disorder: Disorder | None
    """None for a stream of prods, which moves no time."""
    role: str | None
    replay: bool
    arrival: str | None
    page: str | None
    trigger: str | None


@dataclass(frozen=True)
class Columns:
    """A list of expressions, or a table of names and expressions."""

    listed: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class QueryJob:
    """`[query]`."""

    source: str
    where: str | None
    select: Columns
    range: Span | None
    slide: Span | None
    offset: Span | None
    rows: int | None
    wattr: str | None
    disorder: Disorder | None
    group_by: Columns
    agg: tuple[tuple[str, str], ...]
    early: Early | None


@dataclass(frozen=True)
class Job:
    """A whole job file; its paths are absolute or addresses."""

    streams: tuple[StreamJob, ...]
    query: QueryJob
    sink: str | None
    late: str | None
    journal: str | None
    continuous: bool
    """Run until stopped, rather than process what there is."""
    drain: bool
