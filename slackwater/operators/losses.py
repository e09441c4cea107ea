"""How many rows were lost, by minute of the stream's time and by source. The latest minutes are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.figures import Figures
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

#: How many pairs of a minute and a source are kept, also in every record of the journal.
MOST = 200
#: How many of them are shown.
SHOWN = 30
#: How many of a page are counted one by one: nobody reads a hundred thousand late sources.
_OF_A_PAGE = 100
OTHERS = "(others)"
_MINUTE = 60_000_000

#: Minute, source and rows, as a journal keeps them.
LossesEntry: TypeAlias = tuple[int, str, int]


class Losses:
    """Late rows by minute and source; where time is no timestamp, by slide of the windows.

    >>> spec = WindowSpec(range=120_000_000, slide=60_000_000)
    >>> losses = Losses(spec, TimeDomain.TIMESTAMP)
    >>> losses.count(pl.DataFrame({PANE: [0, 1, 1], SOURCE: ["a", "a", "b"], ROWS: [5, 1, 2]}))
    >>> losses.figures()[0]
    {'minute': '1970-01-01 00:01:00', 'source': 'b', 'rows': 2}
    """

    def __init__(self, spec: WindowSpec, domain: TimeDomain) -> None:
        self._spec = spec
        self._domain = domain
        self._unit = max(_MINUTE, spec.pane) if domain is TimeDomain.TIMESTAMP else spec.slide
        self._rows: Counter[tuple[int, str]] = Counter()
        self._shown: Sequence[Figures] | None = None

    def count(self, late: pl.DataFrame) -> None:
        """Take the late rows of a page by pane, and by source where they have one."""
        tick = self._spec.offset + pl.col(PANE) * self._spec.pane
        minute = (tick - (tick % self._unit)).alias(PANE)
        source = pl.col(SOURCE).fill_null("null") if SOURCE in late.columns else pl.lit("").alias(SOURCE)
        rows = late.group_by(minute, source).agg(pl.col(ROWS).sum()).sort([ROWS, PANE, SOURCE], descending=True)
        for at, name, lost in rows.head(_OF_A_PAGE).iter_rows():
            self._rows[at, name] += lost
        for at, lost in rows.slice(_OF_A_PAGE).group_by(PANE).agg(pl.col(ROWS).sum()).iter_rows():
            self._rows[at, OTHERS] += lost
        self._shown = None
        if len(self._rows) > MOST:
            for key in sorted(self._rows)[:-MOST]:
                del self._rows[key]

    def figures(self) -> Sequence[Figures]:
        """The latest minutes that lost rows, the latest first; of each the sources that lost most."""
        if self._shown is None:
            latest = sorted(self._rows.items(), key=lambda kept: (-kept[0][0], -kept[1], kept[0][1]))
            self._shown = [
                {"minute": self._domain.show(at), "source": source or None, "rows": rows}
                for (at, source), rows in latest[:SHOWN]
            ]
        return self._shown

    def state(self) -> list[LossesEntry]:
        """As JSON values."""
        return [(at, source, rows) for (at, source), rows in sorted(self._rows.items())]

    def restore(self, state: list[LossesEntry]) -> None:
        """Continue from an earlier `state()`."""
        self._rows = Counter({(at, source): rows for at, source, rows in state})
        self._shown = None
