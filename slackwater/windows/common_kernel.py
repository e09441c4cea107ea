"""Windows over the same groups share their panes: the finest that is common to them, with all their partials.

A window over some of these groups, with no other partials, is rolled up from them. So the sets of a CUBE are one
job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

import polars as pl

from slackwater.columns import PANE, ROWS
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec

#: How many times finer common panes may be than the finest of the windows needs.
_FINER = 4


@dataclass(frozen=True)
class KernelGroup:
    """A kernel, and those whose partials can be made from its own."""

    common: PaneKernel
    kernels: tuple[PaneKernel, ...]

    def partials_of(self, kernel: PaneKernel, partials: pl.DataFrame) -> pl.DataFrame:
        """One kernel's own partials, in its own panes, from the common ones."""
        if kernel == self.common:
            return partials
        columns = [pl.col(ROWS)]
        for partial, names in kernel.columns.items():
            there = self.common.columns[partial]
            columns += [pl.col(t).alias(name) for t, name in zip(there, names, strict=True)]
        made = partials.select(self._pane(kernel), *kernel.keys, *columns)
        same = kernel.spec.pane == self.common.spec.pane and len(kernel.groups) == len(self.common.groups)
        if same or made.height == 0:
            return made
        return kernel.merge(made.group_by([PANE, *kernel.keys])).select(made.columns)

    def counts_of(self, kernel: PaneKernel, counts: pl.DataFrame) -> pl.DataFrame:
        """Rows by pane, and by whatever else is there, in the kernel's own panes."""
        if kernel == self.common:
            return counts
        others = [c for c in counts.columns if c not in (PANE, ROWS)]
        moved = counts.with_columns(self._pane(kernel))
        return moved.group_by([PANE, *others]).agg(pl.col(ROWS).sum())

    def _pane(self, kernel: PaneKernel) -> pl.Expr:
        mine, common = kernel.spec, self.common.spec
        tick = pl.col(PANE) * common.pane + (common.offset - mine.offset)
        return tick.floordiv(mine.pane).alias(PANE)


def share(kernels: Iterable[PaneKernel]) -> list[KernelGroup]:
    """Kernels in sets with equal groups and panes that are not much finer for it.

    >>> ten, five = (PaneKernel(WindowSpec(10, slide), (), ()) for slide in (10, 5))
    >>> [(s.common.spec.pane, len(s.kernels)) for s in share([ten, five])]
    [(5, 2)]
    >>> from slackwater.windows.kernel import Group
    >>> a, b = Group("a", "a"), Group("b", "b")
    >>> [len(s.kernels) for s in share(PaneKernel(WindowSpec(10, 10), some, ()) for some in [(), (a,), (b, a)])]
    [3]
    """
    sets: list[list[PaneKernel]] = []
    # Those with most groups first: others are rolled up from them.
    for kernel in sorted(dict.fromkeys(kernels), key=lambda kernel: -len(kernel.groups)):
        for mine in sets:
            same = mine[0].groups == kernel.groups and mine[0].source == kernel.source
            if (same or _rolls_up(mine[0], kernel)) and _near([*mine, kernel]):
                mine.append(kernel)
                break
        else:
            sets.append([kernel])
    return [KernelGroup(_common(mine), tuple(mine)) for mine in sets]


def _rolls_up(fine: PaneKernel, coarse: PaneKernel) -> bool:
    """Whether one kernel can be made from another that has more groups, and asks for nothing else."""
    return {*coarse.groups} < {*fine.groups} and coarse.columns.keys() <= fine.columns.keys()


def _near(kernels: Sequence[PaneKernel]) -> bool:
    return min(k.spec.pane for k in kernels) <= _FINER * _pane(kernels)


def _pane(kernels: Sequence[PaneKernel]) -> int:
    first = kernels[0].spec
    return gcd(*(k.spec.pane for k in kernels), *(k.spec.offset - first.offset for k in kernels))


def _common(kernels: Sequence[PaneKernel]) -> PaneKernel:
    if len(kernels) == 1:
        return kernels[0]
    pane, first = _pane(kernels), kernels[0]
    aggregates = [a for k in kernels for a in k.aggregates]
    named = tuple(replace(a, name=f"__c{n}") for n, a in enumerate(aggregates))
    return PaneKernel(WindowSpec(pane, pane, first.spec.offset % pane), first.groups, named, first.source)
