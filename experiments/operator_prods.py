"""S5 section 6.1, Figure 6.1: which early answers are missing if each operator is prodded alone.

    python experiments/operator_prods.py

S5's Q3-4: the largest of all sensors' sums. Its windows of 60 s slide by 20 s. A second window takes the largest
of the sums that end in 60 s. Both are prodded every 5 s. If only the topmost operator is prodded, or all at the
same instant, it has only final results. No argument of Slackwater does this, so the program sends the prods itself.
"""

from __future__ import annotations

import random

import slackwater as sw
from slackwater.engine.queue import Entry
from slackwater.operators.prod import Prod
from slackwater.testing import Script

QUERY = """SELECT MAX(total) AS most FROM (
             SELECT sensor, SUM(volume) AS total FROM s [RANGE 60, SLIDE 20] GROUP BY sensor
           ) [RANGE 60, SLIDE 60]"""
SECONDS, EVERY, SENSORS, SEED = 3_000, 5, 8, 1


def answers(whole: bool) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
    """Final values by the end of the window, and early ones by the instant of the prod too."""
    early: dict[tuple[int, int], int] = {}
    chance = random.Random(SEED)
    script = Script.from_sql(QUERY, {"s": ("t BIGINT, sensor INT, volume INT", sw.bounded(5))})
    for second in range(SECONDS):
        rows = [{"t": second, "sensor": n, "volume": chance.randrange(20)} for n in range(SENSORS)]
        script.page(rows)
        if second % EVERY == 0:
            if whole:
                script.prod()
            else:
                (arc,) = script.executor.graph.nodes["q/window"].arcs
                arc.push(Entry(Prod(query="q"), 0))
                script.executor.run_until_idle()
        new = [row for row in script.new_rows() if row["kind"] == "early"]
        early |= {(second, row["window_end"]): row["most_seen"] for row in new}
    script.drain()
    final = {row["window_end"]: row["most"] for row in script.results if row["kind"] == "final"}
    return final, early


def main() -> None:
    """Print how many answers both ways give, and how accurate those are that both give."""
    (final, plan), (_, top) = answers(whole=True), answers(whole=False)
    both = plan.keys() & top.keys()
    for name, early in (("the whole plan", plan), ("the topmost operator alone", top)):
        good = [1 - abs(final[end] - early[at, end]) / final[end] for at, end in both]
        right = sum(good) / len(good)
        print(f"{name}: {len(early):,} early values; the {len(both):,} that both give are {right:.1%} right")


if __name__ == "__main__":
    main()
