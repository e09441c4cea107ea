"""What happens in one run of the campaign, as data: rows, queries that come, go and change, and faults."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from slackwater.progress.time import Span
from tests.campaign.kinds import LATE, PUNCTUAL

STREAMS = "ab"
#: An event: its name, then its arguments.
Event = list[Any]


@dataclass
class Schedule:
    """One run. It is the same each time."""

    seed: int
    late: bool
    """Whether rows come as late as they like. Else no row is later than the slack."""
    slack: int
    timeout: Span | None
    strategy: int
    level: int
    events: list[Event]

    def to_json(self) -> str:
        """A script: one event a line."""
        fields = {**asdict(self), "events": []}
        head = json.dumps(fields)
        return head[: -len("[]}")] + "[\n" + ",\n".join(json.dumps(e) for e in self.events) + "\n]}\n"

    @staticmethod
    def from_json(text: str) -> Schedule:
        """A script that was written."""
        return Schedule(**json.loads(text))


class _Rows:
    """The rows of one stream, each with a number of its own."""

    def __init__(self, chance: Random, schedule: Schedule, place: int) -> None:
        self._chance, self._schedule = chance, schedule
        self._high, self._number = chance.randint(-20, 20), place

    def batch(self) -> list[list[Any]]:
        rows = []
        for _ in range(self._chance.choice((0, 1, 2, 3, 5))):
            step = self._chance.choice((0, 0, 0, 1, 1, 2, 5, 20))
            back = 0 if step else self._chance.randint(0, self._schedule.slack)
            if self._schedule.late and self._chance.random() < 0.2:
                back = self._chance.randint(0, 60)
            self._high += step
            self._number += 2
            whole = self._number if self._schedule.late else self._chance.choice((None, self._number))
            g, h = self._chance.choice(("a", "b", None)), self._chance.choice((None, 0, 1, 2))
            rows.append([self._high - back, g, h, None, whole, None])
        return rows


#: What may happen, and how often against the rest.
_WEIGHTS = {
    "rows": 40,
    "keep": 5,
    "again": 3,
    "prod": 5,
    "clock": 5,
    "start": 6,
    "stop": 2,
    "remove": 1,
    "change": 3,
    "sink": 5,
    "restart": 4,
    "crash": 14,
    "between": 4,
    "error": 4,
    "slow": 1,
    "damage": 3,
    "takeover": 4,
}


def schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    chance = Random(seed)
    late = chance.random() < 0.35
    timeout = f"{chance.randint(1, 9)} seconds" if late and chance.random() < 0.4 else None
    made = Schedule(seed, late, chance.randint(0, 8), timeout, chance.randrange(6), chance.randrange(4), [])
    rows = {stream: _Rows(chance, made, place) for place, stream in enumerate(STREAMS)}
    kinds = LATE if late else PUNCTUAL
    made.events.append(["start", chance.randrange(len(kinds))])
    for _ in range(chance.randint(5, 40)):
        (what,) = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])
        match what:
            case "rows" | "keep":  # kept rows come together with the next ones
                stream = chance.choice(STREAMS)
                made.events.append([what, stream, rows[stream].batch()])
            case "again":
                made.events.append([what, chance.choice(STREAMS)])
            case "start":
                made.events.append([what, chance.randrange(len(kinds))])
            case "clock":
                made.events.append([what, chance.choice((1, 1_000, 1_000_000, 10_000_000))])
            case "sink":  # which one, how it fails, and how often
                made.events.append(
                    [what, chance.randrange(9), chance.choice(("before", "after")), chance.randint(1, 2)]
                )
            case "restart":  # how far the machine's clock has gone meanwhile
                made.events.append([what, chance.choice((-3_600_000_000, -1, 0, 1_000_000, 86_400_000_000))])
            case "change":
                made.events.append([what, chance.randrange(9), chance.randrange(3)])
            case "crash" | "error" | "takeover":  # at which point from now
                made.events.append([what, chance.choice((chance.randint(1, 12), chance.randint(1, 80)))])
            case "between":
                made.events.append([what, chance.randint(1, 12)])
            case "slow":
                made.events.append([what, chance.choice((0, 1_000, 700_000))])
            case "damage":
                made.events.append([what, chance.randrange(2**32)])
            case _:
                made.events.append([what, chance.randrange(9)])
    return made
