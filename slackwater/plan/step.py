"""The interface of steps: frozen values that describe themselves (D12)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from slackwater.columns import PLAIN_NAME
from slackwater.plan.identifiers import Wanted, bare, column_text
from slackwater.plan.time_columns import TimeColumns, through

#: Columns by name, each with its Spark SQL.
Columns = tuple[tuple[str, str], ...]
#: Takes a `pyarrow.RecordBatch` and gives one, or a `pyarrow.Table`.
Function = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """One step. By default the columns stay as they are. Kinds compare by their fields."""

    kind: ClassVar[str]
    """Its word in labels and in a journal."""
    shown: ClassVar[bool] = True
    """Whether people see it as a step of a plan."""
    keeps_answers: ClassVar[bool] = False
    """Whether results of windows are still answers after it, with the columns that every result has."""
    makes_rows: ClassVar[bool] = False
    """Whether results of windows are rows of another query after it."""
    drops_rows: ClassVar[bool] = False
    """Whether fewer rows may come out; then time has to be known before or counted along."""
    keeps_rows: ClassVar[bool] = False
    """Whether a durable page stays durable with this step: it is free, and gives the same result at any time."""
    sets_time: ClassVar[bool] = False
    """Whether it changes the times of rows, so that arrival statistics are taken after it."""
    fuses: ClassVar[bool] = True
    """Whether it can be done to a part of a page's rows, in one job with the steps before and after it."""
    expensive: ClassVar[bool] = False
    """Whether we assume that it is more work than all steps that one job can do with it."""
    compares_rows: ClassVar[bool] = False
    """Whether it compares the results of a window with one another, so that a page must have all of them."""

    @abstractmethod
    def describe(self) -> str:
        """What it does, for a person."""

    @property
    def title(self) -> str:
        """The same in a message about a failure."""
        return self.describe()

    def wants(self, wanted: Wanted) -> Wanted:
        """The expressions that it reads of its input rows if these ones are needed of its output rows."""
        return wanted

    def is_source(self, text: str, below: Callable[[str], bool]) -> bool:
        """Whether a column after it is the stream's source, given what is known of the columns before it."""
        return below(text)

    def time_columns(self, below: TimeColumns) -> TimeColumns:
        """The columns after it that tell a row's time, given those before it."""
        return below

    def attribute_before(self, written: str) -> str:
        """A windowing attribute in terms of the columns before it."""
        return written

    def group_names(self, names: list[str]) -> list[str]:
        """The names of group columns after it, given those before it."""
        return names

    @property
    def reach(self) -> int:
        """By how many ticks it may move the time of a row forward."""
        return 0

    def carrying(self, names: Sequence[str]) -> Step:
        """The step, with columns of its input that stay too."""
        return self

    def on(self, early: bool) -> Step:
        """The step for an early page, or for another one."""
        return self

    def to_json(self) -> dict[str, object]:
        """The step as JSON values; `step_from_json` reads it."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"step": self.kind, **{name: value for name, value in values.items() if value is not None}}


class Projecting(Step):
    """Gives columns that are made of those before it."""

    columns: Columns

    def is_source(self, text: str, below: Callable[[str], bool]) -> bool:
        """Followed through the expression of the column."""
        found = next((sql for name, sql in self.columns if column_text(name) == text), None)
        return found is not None and below(bare(found))

    def time_columns(self, below: TimeColumns) -> TimeColumns:
        """Those that it passes on."""
        return through(self.columns, below)

    def attribute_before(self, written: str) -> str:
        """The expression of the column."""
        named = {name.lower(): sql for name, sql in self.columns}
        found = named.get(written.strip().strip("`").lower(), written)
        plain = found.strip("`")
        return plain if PLAIN_NAME.match(plain) else found  # so that the stream's own time is recognised
