"""One Spark session for all tests that need one; with several workers, all of them run in one."""

from __future__ import annotations

import os

# Frames of tests are tiny: handing them between threads takes longer than the work. Set before polars is loaded.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.embedded import embedded


def _needs_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None or "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)  # before the workers name the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first, and in one group: they take longest, and start Spark once."""
    items.sort(key=lambda item: not _needs_spark(item))
    for item in items:
        if _needs_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = embedded("local[2]")
    yield session
    session.stop()
