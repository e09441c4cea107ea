"""Policies, strategies and settings from the papers that are there to compare: `sw.papers.greedy()`.

SQL and job files know them by name, too: `SET strategy = 'greedy'`, `DISORDER MAX DELAY`.
"""

from slackwater.papers.disorder_control import disorder_control
from slackwater.papers.enabling import no_enabling, periodic
from slackwater.papers.global_counter import global_counter
from slackwater.papers.greedy import greedy
from slackwater.papers.max_delay import max_delay
from slackwater.papers.query_level import query_level
from slackwater.papers.random_mix import random_mix
from slackwater.papers.round_robin import round_robin

__all__ = [
    "disorder_control",
    "global_counter",
    "greedy",
    "max_delay",
    "no_enabling",
    "periodic",
    "query_level",
    "random_mix",
    "round_robin",
]
