"""Rules of other systems or papers for a watermark's delay, to compare with our policies. Users cannot choose them.

Each records how far rows come behind the largest time before their page, and waits as long as a quantile of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.source_numbers import Floats
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.tune.durations import DAY, HOUR, SECOND

#: The quantile rule, as it is shipped: the share, rows remembered, the shortest and the longest delay.
QUANTILE, REMEMBERED, FLOOR, CAP = 0.95, 5_000, SECOND // 20, 7 * DAY
#: The quantile rule at the start, as (rows, delay): it uses this delay up to this number of rows.
MARGINS = ((250, 7 * DAY), (500, 30 * SECOND), (750, 10 * SECOND), (1_000, SECOND))
#: ADWIN's confidence (Bifet and Gavaldà 2007), and the pages that it compares at most.
DELTA, PAGES = 0.002, 200
#: A page's lateness is kept as this many quantiles, at most.
VALUES = 25


@dataclass(frozen=True)
class Rival:
    """A rule by its name; `share` is what may be lost, where the rule knows one."""

    rule: str
    share: float = 1 - QUANTILE

    needs: ClassVar[frozenset[str]] = frozenset({"sketch"})
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker."""
        return RivalTracker(self.rule, self.share)

    def describe(self) -> str:
        """The rule in words: nobody can write it as a policy."""
        return {
            "quantile": "rival: 95 % of the last 5,000 rows",
            "first hour": f"rival: {100 * (1 - self.share):g} % of the first hour",
            "adwin": f"rival: {100 * (1 - self.share):g} % since a change (ADWIN)",
        }[self.rule]


class RivalTracker(SilenceTracker):
    """The heartbeat is the largest time less the delay of the rule."""

    def __init__(self, rule: str, share: float) -> None:
        super().__init__(None)
        self._rule, self._share = rule, share
        # How late the rows of the last pages came: equal shares of each page; and its rows.
        self._late: list[Floats] = []
        self._rows: list[int] = []
        self._means: list[float] = []
        self._seen = 0
        self._begin: int | None = None
        self._delay: int | None = None
        self._fresh = 0
        """Rows since the quantile was computed: it is computed again when these are 2 % of all that count."""

    def arrive(self, arrival: Arrival) -> None:
        """Take a page."""
        before = self._highest
        self._saw(arrival)
        if arrival.highest is None or not arrival.timed:
            return
        self._begin = arrival.at if self._begin is None else self._begin
        times = arrival.spread()
        late = np.maximum(0.0, before - times[:: -(-len(times) // VALUES)]) if before > MIN_TICK else np.zeros(1)
        self._late.append(late)
        self._means.append(float(late.mean()))
        self._rows.append(arrival.timed)
        self._seen += arrival.timed
        self._fresh += arrival.timed
        self._forget()
        delay = self._judge(arrival.at - self._begin)
        if delay is not None:
            self._raise(max(self._highest - delay - 1, MIN_TICK))

    def _forget(self) -> None:
        gone = 0
        if self._rule == "quantile":
            while sum(self._rows[gone + 1 :]) >= REMEMBERED:
                gone += 1
        elif self._rule == "adwin":
            gone = max(self._changed(), len(self._rows) - PAGES)
        del self._late[:gone], self._rows[:gone], self._means[:gone]

    def _changed(self) -> int:
        """ADWIN's cut: the pages before the last split whose means differ by more than chance."""
        means, n = np.array(self._means), len(self._means)
        spread = float(means.std())
        for newest in (1 << k for k in range(3, 12)):
            if 2 * newest > n:
                break
            old, new = means[:-newest], means[-newest:]
            harmonic, logs = 1 / (1 / len(old) + 1 / newest), math.log(2 * math.log(n) / DELTA)
            if abs(old.mean() - new.mean()) > math.sqrt(2 / harmonic * logs) * spread + 2 * logs / (3 * harmonic):
                return n - newest
        return 0

    def _judge(self, age: int) -> int | None:
        if self._rule == "first hour":
            if age < HOUR:
                return None
            delay = self._quantile() if self._delay is None else self._delay
            self._late, self._rows, self._means = [], [], []
            return delay
        delay = self._quantile()
        if self._rule == "adwin":
            return delay
        margin = next((wait for rows, wait in MARGINS if self._seen < rows), 0)
        return min(max(delay, margin, FLOOR), CAP)

    def _quantile(self) -> int:
        if self._delay is not None and 50 * self._fresh < sum(self._rows):
            return self._delay
        self._fresh = 0
        values = np.concatenate(self._late)
        rows = np.repeat(
            [n / len(page) for n, page in zip(self._rows, self._late, strict=True)], [*map(len, self._late)]
        )
        order = values.argsort()
        sums = rows[order].cumsum()
        found = int(values[order][min(int(sums.searchsorted((1 - self._share) * sums[-1])), len(order) - 1)])
        self._delay = found
        return found
