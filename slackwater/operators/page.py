"""The page: a bounded piece of a stream, as a value. It says where its rows lie and what is to be done to them.

Nothing runs here. A back end (`slackwater/operators/backend.py`) looks at the rows when something must be known of
them; `slackwater/operators/pages.py` is how operators ask it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import prod as prod_of
from typing import ClassVar, TypeAlias, TypedDict

import pyarrow as pa

from slackwater.operators.prod import Prod, ProdFields
from slackwater.plan.step import Columns, Step
from slackwater.plan.steps import Slice, Stamp, step_from_json, tupled
from slackwater.progress.arrival import Arrival


@dataclass(frozen=True, slots=True)
class Origin:
    """The arrival that pages come from: all that are made of it have the same one."""

    stream: str
    """Label of the source, or of the operator that made the rows."""
    number: int

    def part(self, role: str) -> Origin:
        """The origin of rows that are taken out of a page and go a way of their own."""
        return Origin(f"{self.stream}/{role}", self.number)


# --- where rows lie


@dataclass(frozen=True)
class SourceRows:
    """Rows that stay where a source has them: files of the user, offsets of Kafka."""

    kind: ClassVar[str] = "referenced"
    stream: str
    """Name of the declared stream, by whose settings they are read."""
    source: str
    """The kind of source."""
    where: str
    """Which of its rows, as JSON."""
    columns: tuple[str, ...]
    """The columns that queries read, as SQL."""
    hidden: Columns
    """SQL of the hidden columns."""
    folder: str
    """Where the note of the page lies, below the session's storage."""


@dataclass(frozen=True)
class SavedRows:
    """Rows that were written for the page."""

    kind: ClassVar[str] = "saved"
    folder: str
    """Below the session's storage. In process it is the rows themselves, as text."""
    hidden: Columns = ()
    """SQL of the hidden columns that the files lack."""
    staged: bool = False
    """Whether the files have just what a sink takes."""


@dataclass(frozen=True, eq=False)
class DriverRows:
    """Rows in the driver, such as results of windows. Each is only equal to itself."""

    table: pa.Table = field(repr=False)
    hidden: Columns = ()
    """SQL of the hidden columns that the table lacks."""


@dataclass(frozen=True, eq=False)
class CachedRows:
    """Rows that the back end has in memory, or that its source hands over. Each is only equal to itself."""

    rows: object = field(repr=False)
    """As the back end has them."""
    hidden: tuple[str, ...] = ()
    """The hidden columns."""


@dataclass(frozen=True, eq=False)
class JoinOutput:
    """Rows that a join or a sort has still to make, of files that stay until then. Each is only equal to itself."""

    rows: object = field(repr=False)
    """How they are made, as the back end has it."""
    hidden: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Names of the files, of both sides."""


Location: TypeAlias = SourceRows | SavedRows | DriverRows | CachedRows | JoinOutput
_DURABLE: dict[str, type[SourceRows] | type[SavedRows]] = {kind.kind: kind for kind in (SourceRows, SavedRows)}


class SavedPage(TypedDict):
    """A page as JSON values."""

    origin: tuple[str, int]
    location: dict[str, object]
    """The kind of location, and its fields."""
    steps: list[dict[str, object]]
    prod: ProdFields | None
    at: int
    needs: list[str]
    arrival: list[object] | None
    size: int | None


@dataclass(frozen=True)
class Page:
    """Rows of one stream that arrived together, with a hidden column of their time in ticks.

    >>> page = Page(Origin("source:s", 3), SavedRows("pages/1"), at=7)
    >>> Page.from_json(page.to_json()) == page
    True
    """

    origin: Origin
    location: Location
    steps: tuple[Step, ...] = ()
    """What is to be done to the rows."""
    prod: Prod | None = None
    """The prod that an early page belongs to; None for rows that are here to stay."""
    at: int = field(default=0, compare=False)
    """When it was admitted: that is when it arrives, and not when somebody began to hand it over."""
    needs: frozenset[str] = field(default=frozenset(), compare=False)
    """Which statistics of its arrival will be asked for (`Disorder.needs`)."""
    arrival: Arrival | None = field(default=None, compare=False, repr=False)
    """Statistics before any filter, where they were known when this value was made; see `Pages.arrival`."""
    count: int | None = field(default=None, compare=False)
    """Rows, where they are known and are not those that arrived."""
    size: int | None = field(default=None, compare=False)
    """About how many bytes its rows take where they lie; what is only to be done to them frees none."""
    copy: SavedRows | None = field(default=None, compare=False)
    """Where rows are durable that memory has too."""

    @property
    def number(self) -> int:
        """Place in the stream; a page that comes again after a crash has the same number."""
        return self.origin.number

    def stamped(self, at: int) -> Page:
        """The same rows, each that has a time with this one (S3 section 5)."""
        arrival = None if self.arrival is None else self.arrival.stamped(at)
        return replace(self, steps=(*self.steps, Stamp(at)), arrival=arrival)

    def admitted(self, source: str, at: int, needs: frozenset[str]) -> Page:
        """The page as a source lets it in: the statistics of one that was written before are older."""
        origin = Origin(source, self.number)
        arrival = None if self.arrival is None else replace(self.arrival, at=at)
        return replace(self, origin=origin, at=at, needs=needs, arrival=arrival)

    def with_step(self, step: Step) -> Page:
        """The page with one more step."""
        return replace(self, steps=(*self.steps, step))

    @property
    def share(self) -> float:
        """If the page was cut: which share of its rows is left."""
        return prod_of(step.share for step in self.steps if isinstance(step, Slice))

    def cut(self, parts: int) -> tuple[Page, Page] | None:
        """One of this many parts of the rows, and the rest; None if the page cannot be cut any more."""
        last = self.steps[-1] if self.steps else None
        whole = last if isinstance(last, Slice) else Slice(level=sum(isinstance(s, Slice) for s in self.steps))
        if parts < 2 or whole.last - whole.first < 2:
            return None
        steps = self.steps[:-1] if whole is last else self.steps
        first, rest = (
            replace(self, steps=(*steps, part), size=self.size and int(self.size * part.share / whole.share))
            for part in whole.cut(parts)
        )
        return first, rest

    @property
    def held(self) -> bool:
        """Whether memory has the rows as they are, also when they have been saved."""
        return self.count is not None and isinstance(self.location, CachedRows)

    @property
    def durable(self) -> bool:
        """Whether it outlives the process: then `to_json` can be journaled."""
        return self._durable is not None and all(step.keeps_rows for step in self.steps)

    @property
    def folder(self) -> str | None:
        """Its folder on the session's storage, if it is durable."""
        return self._durable.folder if self._durable is not None and self.durable else None

    @property
    def _durable(self) -> SourceRows | SavedRows | None:
        if self.copy is not None:
            return self.copy
        return self.location if isinstance(self.location, (SourceRows, SavedRows)) else None

    def to_json(self) -> SavedPage:
        """The page as JSON values. Only for pages whose rows outlive the process."""
        location = self._durable
        assert location is not None, f"the rows of {self} are only in memory"
        where = {f.name: getattr(location, f.name) for f in fields(location)}
        return {
            "origin": (self.origin.stream, self.origin.number),
            "location": {"kind": location.kind, **where},
            "steps": [step.to_json() for step in self.steps],
            "prod": None if self.prod is None else self.prod.saved(),
            "at": self.at,
            "needs": sorted(self.needs),
            "arrival": None if self.arrival is None else self.arrival.saved(),
            "size": self.size,
        }

    @staticmethod
    def from_json(values: SavedPage) -> Page:
        """The page that `to_json` wrote."""
        where = {name: tupled(value) for name, value in values["location"].items()}
        return Page(
            Origin(*values["origin"]),
            _DURABLE[where.pop("kind")](**where),
            tuple(step_from_json(step) for step in values["steps"]),
            None if values["prod"] is None else Prod.load(values["prod"]),
            values["at"],
            frozenset(values["needs"]),
            None if values["arrival"] is None else Arrival.load(values["arrival"]),
            size=values["size"],
        )
