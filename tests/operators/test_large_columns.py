"""Columns with a value for each source come back as they were, from a whole state and any number of changes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.operators.large_columns import LargeColumns, columns_of
from slackwater.operators.operator import State
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import timeless

VALUES = st.lists(st.integers(0, 3), max_size=12)


@given(st.lists(st.tuples(VALUES, st.lists(st.sampled_from(["a", "b"]), max_size=9), st.booleans()), min_size=1))
def test_columns_come_back(steps: list[tuple[list[int], list[str], bool]]) -> None:
    columns, states = LargeColumns(), list[State]()
    for place, (numbers, texts, whole) in enumerate(steps):
        now: dict[str, Any] = {"n": np.array(numbers, np.int64), "f": np.array(numbers, np.float64) / 2, "t": texts}
        if place % 3 == 2:
            del now["f"]
        whole = whole or not states
        states = [*([] if whole else states), State({}, columns.tables(now, whole), whole)]
        found = columns_of(states, list(now))
        assert {name: list(values) for name, values in found.items()} == {n: list(v) for n, v in now.items()}


@pytest.mark.parametrize("policy", [sw.bounded(20), sw.drop_ratio(0.01), sw.learned()], ids=lambda p: p.describe())
def test_a_record_has_the_sources_that_have_changed(policy: Any) -> None:
    """Of 20,000 sources ten send; a restart in the middle gives what an undisturbed run gives."""
    names = [f"device {n}" for n in range(20_000)]
    sample = pl.DataFrame({"t": [1], "g": ["a"]})
    plan = arrow_plan(sample, 100, 100, group_by=["g"], source="g", disorder=policy, n="count(*)")
    pages = [pl.DataFrame({"t": np.full(20_000, 10 * k), "g": names}) for k in range(4)]
    pages += [pl.DataFrame({"t": np.arange(10) + 10 * k, "g": names[k * 10 : k * 10 + 10]}) for k in range(4, 14)]
    calm = Script(plan)
    with tempfile.TemporaryDirectory() as folder:
        files = fs.LocalFileSystem()
        script = Script(plan, FileJournal(files, folder, sync=False))
        sizes = []
        for number, page in enumerate(pages):
            if number == 9:
                script = Script(plan, FileJournal(files, folder, sync=False), script.sink)
            script.page(page, at=number * 1_000_000)
            calm.page(page, at=number * 1_000_000)
            sizes.append(max((Path(folder) / "steps").iterdir()).stat().st_size)
        given = script.drain().results
    # One page closes a window, and its record holds the answers of all sources.
    assert sorted(sizes[6:9] + sizes[11:])[-2] < sizes[1] / 5, sizes
    assert sorted(timeless(given), key=str) == sorted(timeless(calm.drain().results), key=str)
