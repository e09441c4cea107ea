"""Chain (S2 section 4): the operator on the steepest segment of its lower envelope goes first.

In a burst that frees room as fast as it can be freed: with selectivities of at most 1 there is never more in memory
than under any other strategy, but for one unit a query. The paper leaves open that a page on a flat segment may
wait for long; `max_wait` bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.time import microseconds
from slackwater.scheduling.by_slope import BySlope
from slackwater.scheduling.chart import PathStep, Segment, segments
from slackwater.scheduling.paths import Plan, remaining
from slackwater.scheduling.strategy import STRATEGIES, Ready


class Chain(BySlope):
    """By the segments of the lower envelope.

    >>> from slackwater.scheduling.paths import PathWork
    >>> from slackwater.scheduling.strategy import Ready
    >>> chain = Chain()
    >>> chain.learn({"s": PathWork((), 0.0), "where": PathWork(("s",), 1.0, 0.2), "map": PathWork(("where",), 5.0)})
    >>> chain.segment("where").labels, chain.ends_segment("where")
    (('s', 'where'), True)
    >>> chain.first([Ready("map", oldest=1), Ready("where", oldest=2)]).label
    'where'
    """

    name = "chain"

    def cut(self, first: PathStep) -> list[Segment]:
        """The lower envelope."""
        return segments(first)


class BoundedChain(Chain):
    """Chain, until a page has no more time to lose; then Chain among the pages that are as old or older.

    The time that a page can lose is what is left of `max_wait`, less the work on it and on all pages before it. All
    strategies that never rest have the same work before them. So if that work always takes less than `max_wait`, by
    two of the longest runs, no page is in the system for longer than `max_wait`: a run cannot be left in the
    middle, and what comes meanwhile is seen at its end. If the work takes more, the oldest go first.

    Memory is never more than a factor times that of Chain, and a page that is being worked on. The factor is how
    much more room a second of work to come may take at one operator than at another.
    """

    watches = True

    def __init__(self, max_wait: float, commit_every: int = 64) -> None:
        super().__init__(commit_every)
        self.max_wait = max_wait
        """Seconds."""
        self.name = f"chain, no page waits for more than {max_wait:g} s"
        self._remaining: dict[str, float] = {}
        self._longest = 0.0

    def learn(self, plan: Plan) -> None:
        """Also how much work a row has still before it."""
        super().learn(plan)
        self._remaining = remaining(plan)
        self._longest = max((work.longest for work in plan.values()), default=0.0)

    def first(self, ready: Sequence[Ready]) -> Ready:
        """The steepest of those that may go."""
        return min(self._hurried(ready) or ready, key=self.rank)

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """As Chain, or because a page can lose no more time."""
        if self.rank(picked) > min(map(self.rank, ready)):
            return f"page {picked.oldest} or a younger one can lose no more time"
        return super().because(picked, ready)

    def _hurried(self, ready: Sequence[Ready]) -> list[Ready] | None:
        """The operators with pages that are as old as the first that can lose no more time; None if all can."""
        # Most of the time it is enough to take all pages before an operator to be as old as the oldest.
        seconds = [self._remaining.get(r.label, 0.0) for r in ready]
        oldest = [
            (r.waits[0].admission, r.waits[0].seconds, s * sum([w.rows for w in r.waits]))
            for r, s in zip(ready, seconds, strict=True)
            if r.waits
        ]
        if self._first_hurried(oldest) is None:
            return None
        pages = [(w.admission, w.seconds, w.rows * s) for r, s in zip(ready, seconds, strict=True) for w in r.waits]
        admission = self._first_hurried(pages)
        return None if admission is None else [r for r in ready if r.oldest <= admission]

    def _first_hurried(self, waiting: list[tuple[int, float, float]]) -> int | None:
        """The first page that can lose no more time, by the admission, the seconds waited and the work of each."""
        work, left = 0.0, self.max_wait - 2 * self._longest
        for admission, seconds, of_it in sorted(waiting):
            work += of_it
            if seconds + work > left:
                return admission
        return None


@called()
def chain(max_wait: str | timedelta | None = None) -> Chain:
    """A small backlog in a burst: what frees most room a second runs first (S2). For `Session(strategy=…)`.

    Args:
        max_wait: no page is in the system for longer than this, as in "10 seconds", if all work that waits can be
            done in this time. Without it, some pages wait until the burst is over.
    """
    if max_wait is None:
        return Chain()
    try:
        seconds = microseconds(max_wait) / 1e6
    except QueryError as error:
        raise QueryError(f"chain(max_wait={max_wait!r}): {error}") from None
    if seconds <= 0:
        raise QueryError(f"chain(max_wait={max_wait!r}) must be positive, as in max_wait='10 seconds'")
    return BoundedChain(seconds)


STRATEGIES["chain"] = chain
