"""Windows over the same rows share the work on a page: it is folded once for all of them."""

from __future__ import annotations

from collections import Counter

from slackwater.events import decision
from slackwater.operators.backend import Folded, PartialsTooLarge
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.windows.common_kernel import KernelGroup, share
from slackwater.windows.kernel import PaneKernel


class SharedFold:
    """The kernels of all windows that read one arc; each has panes of its own, so that queries come and go freely.

    Windows with equal groups are made from common panes; windows with other groups come out of the same job.
    """

    def __init__(self) -> None:
        self._kernels: Counter[PaneKernel] = Counter()
        self._sets: list[KernelGroup] = []

    def join(self, kernel: PaneKernel) -> None:
        """A window reads these pages too."""
        self._kernels[kernel] += 1
        self._sets = share(self._kernels)

    def detach(self, kernel: PaneKernel) -> None:
        """One does so no more."""
        self._kernels -= Counter([kernel])
        self._sets = share(self._kernels)

    def fold(self, pages: Pages, page: Page, kernel: PaneKernel) -> Folded:
        """The page's partials for one of the windows; the first that asks has it folded for all."""
        if self._kernels.total() < 2:
            return pages.fold(page, kernel)
        mine = next((s for s in self._sets if kernel in s.kernels), None)
        if mine is None:
            return pages.fold(page, kernel)
        folded = pages.folded(page, self, lambda: self._all(pages, page))
        if mine.common not in folded:
            try:
                folded[mine.common] = pages.fold(page, mine.common)
            except PartialsTooLarge:
                if len(kernel.groups) == len(mine.common.groups):
                    raise
                return pages.fold(page, kernel)  # it has fewer groups than what it is rolled up from
            except Exception as error:
                # One of the queries fails; the others must not fail with it.
                decision("fold.alone", page=page.number, windows=len(mine.kernels), error=error)
                return pages.fold(page, kernel)
        common = folded[mine.common]
        return Folded(mine.partials_of(kernel, common.partials), mine.counts_of(kernel, common.counts))

    def _all(self, pages: Pages, page: Page) -> dict[PaneKernel, Folded]:
        if len(self._sets) < 2:
            return {}
        try:
            return dict(pages.fold_all(page, [s.common for s in self._sets]))
        except Exception as error:
            # Each set is folded in a job of its own: too many partials together, or one of them fails.
            decision("fold.apart", page=page.number, jobs=len(self._sets), error=error)
            return {}
