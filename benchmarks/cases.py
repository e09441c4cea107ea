"""What is measured: the cases, and the figures that the design asks of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from data import GROUPED, LARGE, SMALL, SPLIT, Layout

SLACK = "10 seconds"

NATIVE, FAST, OURS, ONE = "native", "native, fast ckpt", "Slackwater", "Slackwater, one query"

#: What a case's figure is, of the whole run from `start()` on: rows a second up to the end of the files, or until
#: all windows are closed as well; or milliseconds a page.
ROWS, CLOSED, BATCH = "rows", "closed", "batch"


@dataclass(frozen=True)
class Query:
    """`SUM(v), COUNT(v), MAX(v)` by one column over sliding windows."""

    slide_seconds: int
    range_seconds: int = 600
    key: str = "key"


@dataclass(frozen=True)
class Case:
    """Some queries over one cut of the data."""

    name: str
    queries: tuple[Query, ...]
    files: int
    layout: Layout = LARGE
    files_per_page: int = 1
    figure: str = ROWS
    target: float | None = None
    """At least this many times native's rows/s. Of BATCH: at most this share of native's time."""
    native_files: int | None = None
    """Native reads only so many, where more take minutes."""
    native_every: int = 1
    """Native runs in each so-manieth repeat."""
    fast: bool = False
    """Whether native also runs with Slackwater's checkpoint file manager."""

    @property
    def sides(self) -> tuple[str, ...]:
        """What runs in turns."""
        return (NATIVE, *([FAST] if self.fast else ()), OURS, *([ONE] if len(self.queries) > 1 else ()))

    def queries_of(self, side: str) -> tuple[Query, ...]:
        """All of them, or the first one."""
        return self.queries[:1] if side == ONE else self.queries

    def files_of(self, side: str) -> int:
        """How many files a side reads."""
        return self.files if self.native_files is None or side in (OURS, ONE) else self.native_files

    def turn(self, repeat: int) -> list[str]:
        """The sides of one repeat, another first each time."""
        first = repeat // self.native_every % len(self.sides)
        sides = self.sides[first:] + self.sides[:first]
        return [s for s in sides if s in (OURS, ONE) or repeat % self.native_every == 0]

    def held(self, ratio: float) -> bool | None:
        """Whether a ratio to native meets the target; None where there is none."""
        if self.target is None:
            return None
        return ratio <= self.target if self.figure == BATCH else ratio >= self.target

    def quick(self) -> Case:
        """The same over few files."""
        files = 20 if self.figure == BATCH else 3 * self.files_per_page
        return replace(self, files=files, native_files=min(self.files_of(NATIVE), files))


@dataclass(frozen=True)
class Goal:
    """What the design asks of Slackwater beside itself: the figure of one case and side over another's."""

    name: str
    of: tuple[str, str]
    over: tuple[str, str]
    least: float | None = None
    most: float | None = None

    def held(self, ratio: float) -> bool:
        """Whether a ratio meets it."""
        return (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)


MANY = (
    *(Query(slide, length) for length, slide in ((600, 120), (600, 60), (300, 60), (1200, 240), (900, 180))),
    *(Query(120, key=column) for column in GROUPED.groups),
)

#: All of it takes at most ten minutes on two quiet cores, by the number of files and how often native runs.
FULL = (
    Case("1 M rows, tumbling", (Query(600),), 12, target=1.2),
    Case("1 M rows, RANGE/SLIDE 5", (Query(120),), 12, target=2.5),
    Case("1 M rows, RANGE/SLIDE 20", (Query(30),), 12, target=6.0, native_files=6, native_every=2),
    Case("1 M rows, RANGE/SLIDE 60", (Query(10),), 12, native_files=1, native_every=3),
    Case("4 M rows, RANGE/SLIDE 5", (Query(120),), 20, files_per_page=4, target=3.0),
    Case("10 queries, 1 M rows", MANY, 12, GROUPED, target=6.0, native_files=4, native_every=3),
    Case("files of others, tumbling", (Query(600),), 10, SPLIT, figure=CLOSED, target=1.4),
    Case("files of others, RANGE/SLIDE 5", (Query(120),), 10, SPLIT, figure=CLOSED, target=2.5),
    Case("files of others, RANGE/SLIDE 20", (Query(30),), 10, SPLIT, figure=CLOSED, target=6.5, native_every=2),
    Case("1,000 rows, RANGE/SLIDE 5", (Query(120),), 30, SMALL, figure=BATCH, target=0.42, fast=True),
)

QUICK = tuple(case.quick() for case in FULL)

GOALS = (
    # Rows a second turned round are the cost of a row.
    Goal(
        "cost of a row, RANGE/SLIDE 60 over 5",
        of=("1 M rows, RANGE/SLIDE 5", OURS),
        over=("1 M rows, RANGE/SLIDE 60", OURS),
        most=1.25,
    ),
    Goal(
        "rows a second, 10 queries over one",
        of=("10 queries, 1 M rows", OURS),
        over=("10 queries, 1 M rows", ONE),
        least=0.5,
    ),
)


def make(cases: tuple[Case, ...], folder: Path) -> dict[Layout, list[Path]]:
    """As many files of each layout as some case reads."""
    layouts = {case.layout: max(c.files for c in cases if c.layout == case.layout) for case in cases}
    return {layout: layout.make(folder, files) for layout, files in layouts.items()}
