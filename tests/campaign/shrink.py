"""A failing schedule becomes as short as it can: events go, rows go, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.campaign.schedule import Event, Schedule
from tests.campaign.simulation import simulate
from tests.kit.arcs import watched_arcs


def failure(schedule: Schedule) -> str | None:
    """How a schedule fails, in short; None if all is right."""
    try:
        with watched_arcs(schedule.late):
            simulate(schedule)
    except Exception as error:
        return f"{type(error).__name__} {str(error)[:12]}"
    return None


def shrunk(schedule: Schedule) -> Schedule:
    """The shortest schedule found that fails in the same way."""
    wanted = failure(schedule)
    assert wanted is not None
    smaller = True
    while smaller:
        smaller = False
        for events in _simpler(schedule.events):
            if failure(attempt := replace(schedule, events=events)) == wanted:
                schedule, smaller = attempt, True
                break
    return schedule


def _simpler(events: list[Event]) -> Iterator[list[Event]]:
    """The same with fewer events, the largest cuts first; then with fewer rows; then with smaller numbers."""
    size = len(events) // 2
    while size:
        for at in range(0, len(events), size):
            yield events[:at] + events[at + size :]
        size //= 2
    for n, (what, *rest) in enumerate(events):
        if what in ("rows", "keep"):
            stream, rows = rest
            for k in range(len(rows)):
                yield [*events[:n], [what, stream, rows[:k] + rows[k + 1 :]], *events[n + 1 :]]
        elif what in ("crash", "error", "takeover", "between") and rest[0] > 1:
            yield [*events[:n], [what, rest[0] // 2], *events[n + 1 :]]
            yield [*events[:n], [what, rest[0] - 1], *events[n + 1 :]]
