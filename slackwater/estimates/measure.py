"""A user's own measure of accuracy (S5 section 6.1): a function that compares an early value with the final one.

It may compare values of any type, text too, and take into account how much later the final one came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from slackwater.columns import WINDOW

Compare = Callable[[Any, Any, float], float]
#: So many groups of a window are compared, and so many windows wait for their final values.
GROUPS = 64
WINDOWS = 256
#: When an early answer was given, and what a final value is called beside it.
_AT, _FINAL = "\x00at", "\x00final"

_log = logging.getLogger(__name__)


class Measure:
    """Compares the last early answer of each window and group with the final one.

    Args:
        compare: gives the quality, from 0 to 1, of an early value beside the final one that came so many seconds
            later.
        keys: the group columns.
        names: the aggregates.

    >>> measure = Measure(lambda early, final, seconds: float(early == final), [], ["last"])
    >>> measure.early(pl.DataFrame({WINDOW: [1, 2], "last": ["a", "b"]}), now=0)
    >>> measure.final(pl.DataFrame({WINDOW: [1, 2], "last": ["a", "c"]}), now=5_000_000)
    {1: 1.0, 2: 0.0}
    >>> measure.metrics("last")
    {'measured': 0.5, 'measured_pairs': 2}
    """

    def __init__(self, compare: Compare, keys: Sequence[str], names: Sequence[str]) -> None:
        self._compare = compare
        self._keys = list(keys)
        self._sums: dict[str, list[float]] = {name: [0.0, 0] for name in names}
        """The sum of qualities and their number."""
        self._qualities = dict.fromkeys(names, pl.Float64)
        self._said: dict[int, pl.DataFrame] = {}
        """By window, the last answer of each group."""
        self._failed = False

    def early(self, answers: pl.DataFrame, now: int) -> None:
        """These early answers were given at this instant."""
        for (window,), rows in answers.partition_by(WINDOW, as_dict=True, maintain_order=True).items():
            said = rows.head(GROUPS).select(*self._keys, *self._sums, pl.lit(now, pl.Int64).alias(_AT))
            before = self._said.get(int(window))
            if before is not None and self._keys:  # A prod may be for some groups only.
                others = before.join(said, on=self._keys, how="anti", nulls_equal=True)
                said = pl.concat([said, others]).head(GROUPS)
            self._said[int(window)] = said
        while len(self._said) > WINDOWS:
            del self._said[min(self._said)]

    def final(self, values: pl.DataFrame, now: int) -> dict[int, float]:
        """These are final values; gives the quality of the worst aggregate, the mean over groups, by window."""
        by_window: dict[int, float] = {}
        found = values.filter(pl.col(WINDOW).is_in(list(self._said))) if self._said else values.clear()
        for (window,), rows in found.partition_by(WINDOW, as_dict=True, maintain_order=True).items():
            early = self._said[int(window)]
            final = rows.select(*self._keys, *(pl.col(n).alias(f"{n}{_FINAL}") for n in self._sums))
            how = {"on": self._keys, "nulls_equal": True} if self._keys else {"how": "cross"}
            pairs = early.join(final, **how).drop(self._keys).iter_rows(named=True)
            qualities = [self._learn(pair, (now - pair[_AT]) / 1e6) for pair in pairs]
            means = [
                sum(some) / len(some) for name in self._sums if (some := [q[name] for q in qualities if name in q])
            ]
            by_window |= {int(window): min(means)} if means else {}
            # Other groups may close later, on their own heartbeats.
            left = early.join(final, on=self._keys, how="anti", nulls_equal=True) if self._keys else early.clear()
            self._said[int(window)] = left
            if left.is_empty():
                del self._said[int(window)]
        return by_window

    def _learn(self, row: dict[str, Any], seconds: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, sums in self._sums.items():
            try:
                quality = float(self._compare(row[name], row[f"{name}{_FINAL}"], seconds))
                if not 0 <= quality <= 1:
                    raise ValueError(f"gives {quality!r}; give a number between 0 and 1")
            except Exception as error:
                # A stream does not stop for a figure. The first failure is told, all are left out.
                if not self._failed:
                    _log.warning("early(measure=…): the function fails on %s: %s", name, error)
                self._failed = True
                continue
            sums[0] += quality
            sums[1] += 1
            found[name] = quality
        return found

    def metrics(self, name: str) -> dict[str, Any]:
        """Figures of an aggregate for a person."""
        total, pairs = self._sums[name]
        return {"measured": total / pairs, "measured_pairs": int(pairs)} if pairs else {"measured_pairs": 0}

    def state(self) -> dict[str, list[float]]:
        """As JSON values; answers that wait are not measured after a restart."""
        return {name: list(sums) for name, sums in self._sums.items()}

    def restore(self, state: dict[str, list[float]]) -> None:
        """Continue from an earlier `state()`."""
        self._sums.update({name: list(sums) for name, sums in state.items() if name in self._sums})
