"""Steps: what is done to the rows of a page, as data. Each kind says all of itself (D12).

A page is where its rows lie and the steps to be done to them. A back end compiles the steps when something must be
known of the rows. So a step has to say what it reads, what it gives, when two of them are the same work, and how a
journal writes it down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from slackwater.columns import TWIN
from slackwater.plan.identifiers import Wanted, column_text, named_columns, only_used
from slackwater.plan.step import Columns, Function, Projecting, Step
from slackwater.plan.time_columns import TimeColumns, earlier
from slackwater.windows.results import WINDOW_END, WINDOW_START
from slackwater.windows.spec import CumulateSpec, WindowSpec


@dataclass(frozen=True)
class Where(Step):
    """Keeps the rows that meet a condition."""

    kind: ClassVar[str] = "where"
    keeps_answers: ClassVar[bool] = True
    drops_rows: ClassVar[bool] = True
    condition: str

    def describe(self) -> str:
        """The condition."""
        return f"where {self.condition}"

    def wants(self, wanted: Wanted) -> Wanted:
        """The condition too."""
        return None if wanted is None else [*wanted, self.condition]


@dataclass(frozen=True)
class Select(Projecting):
    """Replaces the columns of a row; hidden columns stay.

    Early results have more columns than final ones: `early` has the columns of these.
    """

    kind: ClassVar[str] = "select"
    keeps_answers: ClassVar[bool] = True
    columns: Columns
    early: Columns | None = None

    def describe(self) -> str:
        """The columns."""
        return f"select {named_columns(self.columns)}"

    def wants(self, wanted: Wanted) -> Wanted:
        """All its expressions."""
        return [sql for _, sql in self.columns]

    def group_names(self, names: list[str]) -> list[str]:
        """Those that are still there, by their new names."""
        return [name for name, sql in self.columns if sql.strip().strip("`") in names]

    def carrying(self, names: Sequence[str]) -> Select:
        """They stand behind the columns of final results."""
        kept = tuple((name, f"`{name}`") for name in names)
        place = len(self.columns)
        early = None if self.early is None else (*self.early[:place], *kept, *self.early[place:])
        return Select((*self.columns, *kept), early)

    def on(self, early: bool) -> Select:
        """The columns for the page."""
        return Select(self.early if early and self.early is not None else self.columns)


@dataclass(frozen=True)
class ResultsAsRows(Select):
    """Makes results of windows rows of another query (S5 section 3.3, Q3-4).

    A row has the groups, the aggregates and the bounds of its window. Its time is the last tick of that window, so
    a window [s, e) over them takes the results of the windows that end in (s, e]. An early row has the values of
    the rows that have arrived.
    """

    kind: ClassVar[str] = "rows"
    shown: ClassVar[bool] = False
    keeps_answers: ClassVar[bool] = False
    makes_rows: ClassVar[bool] = True
    source: str | None = None
    """The group column that is the stream's source."""

    def describe(self) -> str:
        """It is no step that people would write."""
        return "results as rows"

    def wants(self, wanted: Wanted) -> Wanted:
        """The window below says what it reads."""
        return wanted

    def is_source(self, text: str, below: Callable[[str], bool]) -> bool:
        """By the groups of the window."""
        return self.source is not None and text == column_text(self.source)


@dataclass(frozen=True)
class Over(Select):
    """Columns of which some compare the results of a window with one another, by OVER (…)."""

    kind: ClassVar[str] = "over"
    fuses: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = True

    def on(self, early: bool) -> Over:
        """The columns for the page."""
        return Over(super().on(early).columns)


@dataclass(frozen=True)
class Sort(Step):
    """Puts the results of each window in order, and may keep the first of them only."""

    kind: ClassVar[str] = "sort"
    keeps_answers: ClassVar[bool] = True
    drops_rows: ClassVar[bool] = True
    fuses: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = True
    order: tuple[tuple[str, bool, bool], ...]
    """Spark SQL, whether it descends, and whether nulls come last. The order is total."""
    limit: int | None = None
    """How many results of each window are kept."""
    written: str = field(default="", compare=False)
    """The order as the user wrote it."""

    def describe(self) -> str:
        """The order and the number."""
        first = "" if self.limit is None else f" first {self.limit}"
        return f"in each window{first} order by {self.written}"

    def wants(self, wanted: Wanted) -> Wanted:
        """What it goes by, too."""
        return None if wanted is None else [*wanted, *(sql for sql, _, _ in self.order)]


@dataclass(frozen=True)
class JoinTable(Projecting):
    """Joins rows with those of a stored table; they keep their time."""

    kind: ClassVar[str] = "stored"
    expensive: ClassVar[bool] = True
    drops_rows: ClassVar[bool] = True
    fuses: ClassVar[bool] = False
    table: str
    """Name of the table."""
    how: str
    condition: str | None
    """Spark SQL over the columns of both, whose names differ."""
    stored: Columns
    """Columns of the table, by the names that the condition knows."""
    columns: Columns
    written: str = field(default="", compare=False)
    """The condition as the user wrote it."""
    copy: str | None = field(default=None, compare=False)
    """Where the journal has a copy of the table, if rows must come out the same again after a crash."""

    def describe(self) -> str:
        """The table, the condition, and expressions over the table's columns."""
        columns = named_columns((name.removeprefix(TWIN), sql) for name, sql in self.stored)
        columns = f" ({columns})" if " = " in columns else ""
        return f"{self.how} join with {self.table}{columns} on {self.written}"

    def wants(self, wanted: Wanted) -> Wanted:
        """What its columns and its condition name."""
        return only_used(self.columns, self.condition, {name for name, _ in self.columns})


@dataclass(frozen=True)
class Explode(Step):
    """Makes of each row as many as a generator of Spark gives, perhaps none. They have its time."""

    kind: ClassVar[str] = "explode"
    drops_rows: ClassVar[bool] = True
    fuses: ClassVar[bool] = False
    call: str
    """The generator, as in `explode(items)`."""
    names: tuple[str, ...]
    """The columns that it gives, under hidden names."""

    def describe(self) -> str:
        """The generator."""
        return self.call

    def wants(self, wanted: Wanted) -> Wanted:
        """The generator too."""
        return None if wanted is None else [*wanted, self.call]


@dataclass(frozen=True)
class InWindows(Step):
    """Gives each row once in each of its windows, with the bounds of the window, whose last tick is its time."""

    kind: ClassVar[str] = "windows"
    drops_rows: ClassVar[bool] = True
    fuses: ClassVar[bool] = False
    range: int
    slide: int
    offset: int
    grows: bool
    """Whether the windows are those of CUMULATE."""
    bound: str
    """Spark SQL that shows a tick, `{}`, to a person."""

    @property
    def spec(self) -> WindowSpec:
        """The windows."""
        kind = CumulateSpec if self.grows else WindowSpec
        return kind(self.range, self.slide, self.offset)

    def describe(self) -> str:
        """The windows, in ticks."""
        step = f"{'step' if self.grows else 'slide'} {self.slide}" + f" offset {self.offset}" * bool(self.offset)
        return f"rows in windows range {self.range} {step}"

    def time_columns(self, below: TimeColumns) -> TimeColumns:
        """The bounds; any other time of a row is up to a range earlier than the last tick of its window."""
        bounds = {WINDOW_START: (1 - self.range, 1 - self.spec.first_end), WINDOW_END: (1, 1)}
        return {**earlier(below, self.range - 1), **bounds}

    @property
    def reach(self) -> int:
        """As long as a window."""
        return self.range


@dataclass(frozen=True)
class Stamp(Step):
    """Gives each row that has a time this one (S3 section 5)."""

    kind: ClassVar[str] = "stamp"
    keeps_rows: ClassVar[bool] = True
    sets_time: ClassVar[bool] = True
    at: int

    def describe(self) -> str:
        """The time."""
        return f"stamp {self.at}"


@dataclass(frozen=True)
class Credible(Step):
    """Takes away the time of each row that lies beyond this one, and the punctuation that it carries.

    `slackwater/progress/ahead.py` chooses the limit.
    """

    kind: ClassVar[str] = "credible"
    keeps_rows: ClassVar[bool] = True
    sets_time: ClassVar[bool] = True
    limit: int

    def describe(self) -> str:
        """The limit."""
        return f"no time beyond {self.limit}"


@dataclass(frozen=True)
class Slice(Step):
    """Some of a page's rows, so that a long run can be left in the middle (S2 section 3)."""

    kind: ClassVar[str] = "slice"
    keeps_rows: ClassVar[bool] = True
    OF: ClassVar[int] = 1024
    """The shares that rows are dealt to."""
    first: int = 0
    last: int = 1024
    """Shares from the first to below the last."""
    level: int = 0
    """How many slices were cut before: rows are dealt anew."""

    @property
    def share(self) -> float:
        """Of the rows."""
        return (self.last - self.first) / self.OF

    def cut(self, parts: int) -> tuple[Slice, Slice]:
        """One part of the page, and the rest."""
        middle = self.first + max(1, (self.last - self.first) // parts)
        return replace(self, last=middle), replace(self, first=middle)

    def describe(self) -> str:
        """Which shares."""
        return f"slice {self.first} to {self.last} of {self.OF}"


@dataclass(frozen=True, eq=False)
class Map(Step):
    """Replaces each row by what a Python function makes of it: S5's Expensive operator.

    It equals nothing but itself: functions need not be comparable, nor have a hash. A journal cannot keep it.
    """

    kind: ClassVar[str] = "map"
    fuses: ClassVar[bool] = False
    function: Function
    columns: Columns
    """Output name and Spark SQL type of each column."""
    schema: pa.Schema
    """The same as Arrow."""

    @property
    def name(self) -> str:
        """What the user called the function."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    @property
    def title(self) -> str:
        """The function."""
        return f"map({self.name})"

    def describe(self) -> str:
        """The function and its columns."""
        return f"map {self.name} to " + ", ".join(f"{name} {kind}" for name, kind in self.columns)

    def wants(self, wanted: Wanted) -> Wanted:
        """Nobody knows what a function reads."""
        return None

    def is_source(self, text: str, below: Callable[[str], bool]) -> bool:
        """What a function gives under the source's name is taken for the source."""
        return text in {column_text(name) for name, _ in self.columns} and below(text)


_JOURNALED = (Where, Select, ResultsAsRows, Over, Sort, JoinTable, Explode, InWindows, Stamp, Credible, Slice)
#: The steps that a journal can keep, by their words.
_KINDS: dict[str, type[Step]] = {kind.kind: kind for kind in _JOURNALED}


def step_from_json(values: Mapping[str, Any]) -> Step:
    """The step that `Step.to_json` wrote.

    >>> step = Select((("a", "x + 1"),))
    >>> step_from_json(step.to_json()) == step
    True
    """
    known = {name: tupled(value) for name, value in values.items() if name != "step"}
    return _KINDS[values["step"]](**known)


def tupled(value: Any) -> Any:
    """JSON has lists where values have tuples."""
    return tuple(map(tupled, value)) if isinstance(value, (list, tuple)) else value
