"""The text of the wide job: a row is copied once for each kernel, and all copies go into one hash table.

The text is the same for every page (D2). It names columns of ours only, never what a user wrote, and it is one
statement: each step of a DataFrame would be analysed by itself, which costs more than the job of a small page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.aggregates.partial import Partial
from slackwater.columns import PANE, PUNCTUATION, ROWS, TIME
from slackwater.spark.backend.arrival_statistics import time_statistics_sql
from slackwater.spark.backend.compile import KEEP
from slackwater.spark.backend.fold import spread_of
from slackwater.windows.kernel import Group, PaneKernel

#: Number of the kernel that a partial belongs to.
KERNEL = "__place"
_KEPT = "__kept"


@dataclass
class Part:
    """What one kernel has in the job."""

    kernel: PaneKernel
    groups: tuple[Group, ...]
    keys: dict[str, str] = field(default_factory=dict)
    """Name of a group: its column in the job."""
    arguments: dict[str, str] = field(default_factory=dict)
    """Argument of a partial: its column in the job."""

    def given(self) -> dict[str, str]:
        """Its columns in the job: the Spark SQL that gives each."""
        sqls = {g.name: g.sql for g in self.groups}
        keys = {slot: sqls[name] for name, slot in self.keys.items()}
        return keys | {slot: sql for sql, slot in self.arguments.items()}


@dataclass(frozen=True)
class WideSql:
    """Writes the job for some kernels over rows that have `inputs` as columns."""

    parts: Sequence[Part]
    keys: dict[str, str]
    """Columns of the job that groups are in, with their types."""
    arguments: dict[str, str]
    """Columns that arguments are in, with their types."""
    partials: dict[Partial, tuple[str, ...]]
    inputs: dict[str, str]
    """What users wrote: the column of the rows that holds it."""

    @property
    def packed(self) -> bool:
        """Whether the kernel's number goes into the pane, to hash a key less: the product must fit into 64 bits."""
        return all(p.kernel.spec.pane > len(self.parts) for p in self.parts)

    @property
    def spread(self) -> int:
        """What a packed pane is multiplied by, for the same reason as in a job of one kernel."""
        return min(spread_of(p.kernel.spec.pane // len(self.parts)) for p in self.parts) if self.packed else 1

    def job(
        self,
        view: str,
        places: Sequence[int],
        carrier: int | None,
        marked: bool,
        hidden: Sequence[str],
        asked: tuple[bool, bool] | None,
    ) -> str:
        """Partials of some kernels over a view; if the carrier is one of them, it takes statistics along."""
        carries = carrier in places
        carried = time_statistics_sql(*asked) if carries and asked is not None else {}
        # The carrier alone keeps every row.
        filtered = marked or (carries and len(places) > 1)
        times = [c for c in (TIME, PUNCTUATION) if c in hidden] if carries else []
        panes: dict[str, str] = {}
        columns: dict[str, str] = {}
        copies: list[list[str]] = []
        for n in places:
            pane = panes.setdefault(self.parts[n].kernel.pane_sql(), f"__q{len(panes)}")
            row = [self._kept(n, carrier if carries else None, marked)] if filtered else []
            row += self._row(n, pane)
            row += [c if n == carrier else "CAST(NULL AS BIGINT)" for c in times]
            copies.append([columns.setdefault(sql, f"__c{len(columns)}") for sql in row])
        by = [*self.keys, *([] if self.packed else [KERNEL]), PANE]
        names = [*([_KEPT] if filtered else []), *by, *self.arguments, *times]
        aggregates = {ROWS: "count(*)"}
        for partial, fields in self.partials.items():
            aggregates |= zip(fields, partial.make_sql(), strict=True)
        aggregates |= carried
        timed = "" if carries else f" WHERE {TIME} IS NOT NULL"
        with_panes = f"SELECT *, {_named(panes)} FROM {view}{timed}"
        rows = f"SELECT {_named(columns)} FROM ({with_panes})"
        copied = _copied(rows, names, copies)
        kept = f" WHERE {_KEPT}" if filtered else ""
        made = ", ".join([*by, *(f"{sql} AS {name}" for name, sql in aggregates.items())])
        # The pane is the last key for the same reason as in a job of one kernel.
        return f"SELECT {made} FROM ({copied}{kept}) GROUP BY {', '.join(by)}"

    def _kept(self, n: int, carrier: int | None, marked: bool) -> str:
        """Whether a row counts for a kernel; only the carrier keeps rows without a time."""
        timed = [f"{TIME} IS NOT NULL"] if carrier is not None and n != carrier else []
        keep = " AND ".join([*timed, *([KEEP] if marked else [])])
        return f"CASE WHEN {keep} THEN true ELSE false END" if keep else "true"

    def _row(self, n: int, pane: str) -> list[str]:
        """The keys and arguments of a row for one kernel; what others have is null."""
        given = {slot: self.inputs[sql] for slot, sql in self.parts[n].given().items()}
        slots = [given.get(slot, f"CAST(NULL AS {t})") for slot, t in self.keys.items()]
        packed = f"({pane} * {len(self.parts)}L + {n}L) * {self.spread}L"
        place = [packed] if self.packed else [f"{n}", pane]
        arguments = [given.get(slot, f"CAST(NULL AS {t})") for slot, t in self.arguments.items()]
        return [*slots, *place, *arguments]


def _named(columns: dict[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for sql, name in columns.items())


def _copied(rows: str, names: Sequence[str], copies: Sequence[Sequence[str]]) -> str:
    """Each row once for every kernel, with that kernel's columns under the names of the job."""
    if len(copies) == 1:
        return (
            f"SELECT {', '.join(f'{c} AS {name}' for c, name in zip(copies[0], names, strict=True))} FROM ({rows})"
        )
    row = ", ".join(names)
    each = ", ".join(f"({', '.join(copy)})" for copy in copies)
    return f"SELECT {row} FROM ({rows}) UNPIVOT INCLUDE NULLS (({row}) FOR __kernel IN ({each}))"
