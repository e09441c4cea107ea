"""The statements of a SQL text, as frozen values. The interpreter carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slackwater.errors import SqlError
from slackwater.estimates.early import Early
from slackwater.plan import logical as L
from slackwater.plan.explain import Format
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span as Length
from slackwater.progress.time_kinds import Internal, Latent
from slackwater.sql.scope import MapFunction, Scope
from slackwater.sql.source import Span, SqlText
from slackwater.sql.source_locations import SourceLocations, placed
from slackwater.windows.sideline import Sideline


@dataclass(frozen=True)
class ScriptStatement:
    """Where a statement was written. Statements compare without it."""

    script: SqlText = field(default_factory=lambda: SqlText(""), kw_only=True, compare=False, repr=False)
    span: Span = field(default_factory=lambda: Span(0, 0), kw_only=True, compare=False, repr=False)

    def error(self, message: str) -> SqlError:
        """An error in this statement, at the word that the message names."""
        return placed(self.script, self.span, message)


#: Takes (DataFrame, commit_id).
SinkFunction = Callable[[Any, int], object]


@dataclass(frozen=True)
class SelectStatement(ScriptStatement):
    """A query, and when it answers early."""

    query: L.Logical
    early: Early | None
    sideline: Sideline | None
    corrections: Length | None
    """For how long late rows correct final answers."""
    locations: SourceLocations
    again: Callable[[Scope], SelectStatement] = field(compare=False, repr=False)
    """Reads it again when its turn comes. Then the columns of streams that the text creates are known."""


@dataclass(frozen=True)
class SinkCall:
    """`name('where', setting = value, …)`: a table of another kind than a folder."""

    name: str
    values: tuple[Any, ...]
    settings: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Insert(ScriptStatement):
    """`INSERT INTO 'folder' SELECT …`: a query with a sink, which starts."""

    select: SelectStatement
    sinks: tuple[str | SinkFunction | SinkCall | None, ...]
    """Each a folder, a function, a table of another kind, or None for memory."""
    late: str | SinkFunction | SinkCall | None
    name: str | None
    ordered: bool = False
    """Whether the sink gets rows in the order of their time."""


@dataclass(frozen=True)
class CreateTable(ScriptStatement):
    """`CREATE TABLE …`: a stored relation."""

    name: str
    columns: str | None
    """Spark's words for the schema."""
    format: str
    spans: Mapping[str, Span] = field(compare=False, repr=False)
    """Where each clause was written, by its first word."""
    options: tuple[tuple[str, str], ...] = ()
    where: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether Spark reads all rows at once, and not as a stream."""
        return True


@dataclass(frozen=True)
class CreateStream(CreateTable):
    """`CREATE STREAM …`."""

    time: str | Internal | Latent = ""
    source: str | None = None
    disorder: Disorder | None = None
    """None for a stream of prods, which moves no time."""
    arrival: str | None = None
    """The column of arrival, for a replay."""
    page: str | None = None
    trigger: str | None = None
    ahead: str | None = None
    """How far ahead of the clock rows may be."""
    prods: bool = False
    prods_when: str | None = None
    """When a row is a prod."""
    history: str | None = None
    """The stored table whose rows come first; `arrival` is then that of its rows."""
    seam: str | None = None
    """The column that says where the history ends."""

    @property
    def is_static(self) -> bool:
        """A replay is."""
        return self.arrival is not None and self.history is None


@dataclass(frozen=True)
class CreateBounds(ScriptStatement):
    """`CREATE BOUNDS …`: how far streams may be behind each other."""

    policy: Disorder
    streams: tuple[str, ...] | None


@dataclass(frozen=True)
class CreateView(ScriptStatement):
    """`CREATE VIEW name AS SELECT …`."""

    name: str
    select: SelectStatement
    replace: bool


@dataclass(frozen=True)
class CreateFunction(ScriptStatement):
    """`CREATE FUNCTION name AS 'module:function' RETURNS (…)`."""

    name: str
    function: MapFunction


@dataclass(frozen=True)
class Explain(ScriptStatement):
    """The plan of a query, or the operators of a running one."""

    select: SelectStatement | None
    query: str | None
    format: Format


@dataclass(frozen=True)
class Show(ScriptStatement):
    """`SHOW STREAMS`, `TABLES`, `QUERIES`, `VIEWS`, `RESULTS OF query` or `STATE OF query`."""

    what: str
    """What to show, in small letters."""
    query: str | None = None
    """The query whose results or state to show."""


@dataclass(frozen=True)
class ProdStatement(ScriptStatement):
    """`PROD query`: answer now."""

    query: str
    until: str | int | None
    where: str | None
    at: str | int | None = None


@dataclass(frozen=True)
class Stop(ScriptStatement):
    """`STOP query`."""

    query: str


@dataclass(frozen=True)
class Forget(ScriptStatement):
    """`FORGET query`: drop it from the journal."""

    query: str


@dataclass(frozen=True)
class RunQueries(ScriptStatement):
    """`RUN`: process all there is; or `RUN CONTINUOUSLY`, until it is stopped."""

    continuously: bool = False
    drain: bool = True
    speed: float | None = None


@dataclass(frozen=True)
class SetSession(ScriptStatement):
    """`SET journal = …`: a setting of the session that a file runs in."""

    name: str
    value: str


Statement = (
    SelectStatement
    | Insert
    | CreateStream
    | CreateBounds
    | CreateTable
    | CreateView
    | CreateFunction
    | Explain
    | Show
    | ProdStatement
    | Stop
    | Forget
    | RunQueries
    | SetSession
)
