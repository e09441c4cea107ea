"""All strategies: what a query answers does not depend on them."""

from __future__ import annotations

import slackwater as sw
from slackwater.scheduling.strategy import Ordered

STRATEGIES: list[Ordered] = [
    sw.fifo(),
    sw.papers.round_robin(),
    sw.papers.greedy(),
    sw.papers.random_mix(),
    sw.chain(),
    sw.chain(max_wait="1 ms"),
]
