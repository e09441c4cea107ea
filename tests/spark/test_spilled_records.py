"""Rows too many for the driver lie in files by cells of time; they give the results of resident ones.

On in-process pages: the store is the one that Spark pages use, what writes the cells is not.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.columns import CELL
from slackwater.engine.settings import QuerySettings
from slackwater.operators.record_store import ResidentRecords
from slackwater.spark.state import spilled_records
from slackwater.spark.state.spilled_records import SpilledRecords
from slackwater.spark.storage import journal_files
from slackwater.testing import script as script_module
from slackwater.testing.stores import ArrowStores
from tests.kit.faults import Fate, World
from tests.kit.spilling import SpillingPages
from tests.kit.streams import Stream, frame, unbounded_streams
from tests.windows.test_rolling import CHEAP, GROUPS, KINDS, assert_undisturbed, plan


@contextmanager
def spilling(folder: Path, cell_rows: int, limit: int = 0, most_cells: int = 2) -> Iterator[None]:
    """Scripts spill from the limit on, into cells of about so many rows."""

    def spill(self: ArrowStores, label: str, resident: ResidentRecords) -> SpilledRecords:
        return SpilledRecords(label, resident, SpillingPages(folder, self._pages))

    with (
        mock.patch.object(script_module, "QuerySettings", partial(QuerySettings, resident_limit=limit)),
        mock.patch.object(ArrowStores, "rows", spill),
        mock.patch.object(spilled_records, "_CELL_ROWS", cell_rows),
        mock.patch.object(spilled_records, "_FEW_CHANGES", 4),
        mock.patch.object(spilled_records, "_MOST_CELLS", most_cells),
        mock.patch.object(journal_files, "_SMALLEST_WHOLE", 3_000),
    ):
        yield


def cells_left(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*.parquet") if CELL in str(p)]


@settings(max_examples=30)
@given(
    unbounded_streams(most=25),
    KINDS,
    GROUPS,
    st.lists(st.integers(1, 60), max_size=3),
    st.integers(0, 3),
    st.sampled_from([1, 2, 64]),
    st.sampled_from([0, 0, 200]),
    st.sampled_from([1, 4, 500_000]),
)
def test_spilled_rows_outlive_the_process(
    stream: Stream,
    window: dict[str, int],
    groups: list[str],
    deaths: list[int],
    again: int,
    commit_every: int,
    limit: int,
    cell_rows: int,
) -> None:
    with tempfile.TemporaryDirectory() as made, spilling(Path(made), cell_rows, limit):
        world = World(plan(window, stream.slack, groups, CHEAP), stream.pages, Path(made), commit_every)
        script = world.outlive(deaths, again)
        left = cells_left(Path(made))
    assert_undisturbed(world, script)
    assert left == []


@pytest.mark.parametrize(
    ("cell_rows", "restarts"),
    [
        (1, True),
        (500_000, True),
        (8, False),
        pytest.param(8, True, marks=pytest.mark.long),
        *(pytest.param(cell_rows, False, marks=pytest.mark.long) for cell_rows in (1, 500_000)),
    ],
)
@pytest.mark.parametrize("window", [{"range": 13}, {"rows": 3}], ids=["range", "rows"])
def test_spilled_rows_give_the_results_of_resident_ones(
    tmp_path: Path, window: dict[str, int], cell_rows: int, restarts: bool
) -> None:
    chance = random.Random(6)
    pages = [
        frame([[n * 3 + chance.randrange(-9, 9), chance.choice("ab"), 0, chance.random()] for _ in range(9)])
        for n in range(9)
    ]
    with spilling(tmp_path, cell_rows):
        world = World(plan(window, 5, ["g"], CHEAP), pages, tmp_path)
        for number in range(len(pages) if restarts else 0):
            world._give(world.start(Fate()), number)
        script = world.live(Fate())
    assert script is not None
    assert_undisturbed(world, script)
    figures = script.metrics()["q/window"]
    assert figures["store"] == "spilled"
    assert figures["late_rows"] > 0
    assert cells_left(tmp_path) == []


def test_cells_become_wider_when_a_page_would_fall_into_too_many(tmp_path: Path) -> None:
    pages = [
        frame([[5, "a", 0, float(n)] for n in range(4)]),
        frame([[t, "b", 0, 1.0] for t in range(0, 90, 3)]),
        frame([[t, "a", 0, 2.0] for t in range(60, 2_000, 40)]),
        frame([[t, "b", 0, 3.0] for t in range(1_500, 2_050, 25)]),
    ]
    with spilling(tmp_path, cell_rows=1, most_cells=4):
        world = World(plan({"range": 100}, 700, ["g"], CHEAP), pages, tmp_path)
        widths = []
        for number in range(len(pages)):
            script = world.start(Fate())
            world._give(script, number)
            widths.append(script.executor.graph.nodes["q/window"].operator._lanes[0].store._width)
        script = world.live(Fate())
    assert script is not None
    assert_undisturbed(world, script)
    assert widths[0] < widths[1] < widths[2]
    assert all(wide % narrow == 0 for narrow, wide in pairwise(widths))
