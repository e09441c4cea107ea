"""Some schedules of the campaign, and scripts that earlier ones have left; `make campaign` runs ten thousand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from slackwater.engine.commit import Commits
from tests.campaign.schedule import Schedule, schedule
from tests.campaign.shrink import failure, shrunk
from tests.campaign.simulation import simulate
from tests.kit.arcs import watched_arcs

pytestmark = pytest.mark.filterwarnings("ignore::slackwater.errors.QueryWarning")
HERE = Path(__file__).parent
TRACE = """
import hashlib, sys, warnings
from tests.campaign.schedule import schedule
from tests.campaign.simulation import simulate

warnings.simplefilter("ignore")
for seed in range(6):
    print(seed, hashlib.md5("\\n".join(simulate(schedule(seed)).trace).encode()).hexdigest())
"""


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_schedules_lose_nothing_and_repeat_nothing(first: int) -> None:
    for seed in range(first, first + 10):
        made = schedule(seed)
        with watched_arcs(made.late):
            simulate(made)


@pytest.mark.parametrize("script", sorted(HERE.glob("scripts/*.json")), ids=lambda path: path.stem)
def test_what_once_failed(script: Path) -> None:
    made = Schedule.from_json(script.read_text())
    assert Schedule.from_json(made.to_json()) == made
    with watched_arcs(made.late):
        simulate(made)


def test_a_seed_is_one_run() -> None:
    """Another process, with other hashes, does the same."""
    traces = [
        subprocess.run(
            [sys.executable, "-c", TRACE],
            env={**os.environ, "PYTHONHASHSEED": str(hashes), "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in (1, 2)
    ]
    assert traces[0] == traces[1] and len(traces[0].splitlines()) == 6


def test_a_planted_mistake_is_found_and_shrunk() -> None:
    """Rows that a crash leaves between the two halves of a commit are forgotten."""

    def forgets(self: Commits, sink: object) -> None:
        self._wrote([e for e in self._redo if e.sink != sink.label])  # type: ignore[attr-defined]

    with mock.patch.object(Commits, "finish", forgets):
        found = next(made for made in map(schedule, range(60)) if failure(made) is not None)
        assert len(shrunk(found).events) < len(found.events)
